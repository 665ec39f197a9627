// Convolution 3 x 3 (stride 1, no padding), relu and 2 x 2 max-pool in one sweep.
//
// Bound by arithmetic: 36 multiply-adds per input channel and pooled result. Eager writes the convolution and the relu
// out to memory in full and reads both back; here they live in registers only.
// Work:     sixteen output channels lie in one vector, so every image size is equally easy. A tile is 2 x 4 positions
//           of the convolution for up to 32 channels; its windows shrink to their maxima, and bias and relu come after
//           the maximum, where they cost a quarter.
// Dispatch: images x groups of 32 channels are shared out between the threads. An odd number of windows in a row ends
//           in a tile half as wide.
// Limits:   float32, contiguous; scratch for the weights in channel-last order, padded to sixteen channels, so a few
//           output channels cost as much as sixteen.
#include <torch/extension.h>

#include <vector>

namespace {

// Wider vectors than the processor has would be kept in memory.
#ifdef __AVX512F__
constexpr int kLanes = 16, kPooled = 2;  // results side by side: their sums stay in registers
#else
constexpr int kLanes = 8, kPooled = 1;
#endif
constexpr int kTaps = 9;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

struct Shape {
    int64_t channels, height, width, outputs;
    int64_t pooled_height() const { return (height - 2) / 2; }
    int64_t pooled_width() const { return (width - 2) / 2; }
};

Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }
Lanes larger(Lanes a, Lanes b) { return a > b ? a : b; }

// Weights as [block of kLanes outputs][channel][tap][output in block], zero where there is no such output.
std::vector<float> packed(const float* weights, const Shape& s) {
    const int64_t taps = s.channels * kTaps;
    std::vector<float> result((s.outputs + kLanes - 1) / kLanes * taps * kLanes, 0.0f);
    for (int64_t o = 0; o < s.outputs; ++o)
        for (int64_t t = 0; t < taps; ++t)
            result[(o / kLanes * taps + t) * kLanes + o % kLanes] = weights[o * taps + t];
    return result;
}

// Columns / 2 pooled results, whose windows start at x, for Blocks * kLanes outputs.
template <int Columns, int Blocks>
void tile(const float* x, const float* w, const Shape& s, Lanes (*pooled)[Columns / 2]) {
    Lanes sum[Blocks][2][Columns] = {};
    for (int64_t i = 0; i < s.channels; ++i)
        for (int t = 0; t < kTaps; ++t) {
            const float* from = x + (i * s.height + t / 3) * s.width + t % 3;
            for (int b = 0; b < Blocks; ++b) {
                const Lanes weight = load(w + ((b * s.channels + i) * kTaps + t) * kLanes);
                for (int r = 0; r < 2; ++r)
                    for (int c = 0; c < Columns; ++c) sum[b][r][c] += from[r * s.width + c] * weight;
            }
        }
    for (int b = 0; b < Blocks; ++b)
        for (int p = 0; p < Columns / 2; ++p)
            pooled[b][p] =
                larger(larger(sum[b][0][2 * p], sum[b][0][2 * p + 1]), larger(sum[b][1][2 * p], sum[b][1][2 * p + 1]));
}

template <int Columns, int Blocks>
void finish(const float* x, const float* w, const float* bias, float* y, int64_t outputs, const Shape& s) {
    Lanes pooled[Blocks][Columns / 2];
    tile<Columns, Blocks>(x, w, s, pooled);
    const int64_t plane = s.pooled_height() * s.pooled_width();
    for (int64_t o = 0; o < outputs; ++o)
        for (int p = 0; p < Columns / 2; ++p)
            y[o * plane + p] = std::max(0.0f, pooled[o / kLanes][p][o % kLanes] + bias[o]);
}

// One image for `outputs` <= kLanes * Blocks output channels.
template <int Blocks>
void image(const float* x, const float* w, const float* bias, float* y, int64_t outputs, const Shape& s) {
    for (int64_t r = 0; r < s.pooled_height(); ++r) {
        const float* row = x + 2 * r * s.width;
        float* out = y + r * s.pooled_width();
        int64_t c = 0;
        for (; c + kPooled <= s.pooled_width(); c += kPooled)
            finish<2 * kPooled, Blocks>(row + 2 * c, w, bias, out + c, outputs, s);
        if (c < s.pooled_width()) finish<2, Blocks>(row + 2 * c, w, bias, out + c, outputs, s);
    }
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    x = x.contiguous();
    const Shape s{x.size(1), x.size(2), x.size(3), weights.size(0)};
    auto y = torch::empty({x.size(0), s.outputs, s.pooled_height(), s.pooled_width()}, x.options());
    const std::vector<float> w = packed(weights.const_data_ptr<float>(), s);
    const float *px = x.const_data_ptr<float>(), *pw = w.data(), *pb = biases.const_data_ptr<float>();
    float* py = y.mutable_data_ptr<float>();
    const int64_t groups = (s.outputs + 2 * kLanes - 1) / (2 * kLanes);
    at::parallel_for(0, x.size(0) * groups, 1, [=](int64_t begin, int64_t end) {
        for (int64_t job = begin; job < end; ++job) {
            const int64_t n = job / groups, o = job % groups * 2 * kLanes,
                          left = std::min<int64_t>(2 * kLanes, s.outputs - o);
            const float* from = px + n * s.channels * s.height * s.width;
            float* to = py + (n * s.outputs + o) * s.pooled_height() * s.pooled_width();
            const float* mine = pw + o * s.channels * kTaps;
            if (left > kLanes) image<2>(from, mine, pb + o, to, left, s);
            else image<1>(from, mine, pb + o, to, left, s);
        }
    });
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
