// Backward of convolution 3 x 3 (stride 1, no padding), relu and 2 x 2 max-pool.
//
// Bound by arithmetic: the convolution has to be done again to learn where each maximum was. After that only one place
// in four carries a gradient, and only where the relu was open, so everything else follows those places.
// Work:     first, per image, the convolution with sixteen output channels in one vector; each window leaves one
//           gradient and one place. Then, per output channel, each such place adds gradient x patch to grad_weights
//           (nine vectors that stay in registers) and gradient x weights to grad_x, with sixteen input channels in a
//           vector.
// Dispatch: images are shared out between the threads; each sums its own grad_weights, added in a fixed order.
// Limits:   float32, contiguous; scratch of about two images per thread. Input channels are padded to sixteen, so one
//           input channel costs as much as sixteen. Sums over images are float.
#include <torch/extension.h>

#include <vector>

namespace {

// Wider vectors than the processor has would be kept in memory.
#ifdef __AVX512F__
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif
constexpr int kTaps = 9;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));
typedef int32_t Places __attribute__((vector_size(kLanes * sizeof(int32_t))));

struct Shape {
    int64_t inputs, height, width, outputs;
    int64_t area() const { return height * width; }
    int64_t rows() const { return (height - 2) / 2; }
    int64_t columns() const { return (width - 2) / 2; }
    int64_t windows() const { return rows() * columns(); }
    int64_t input_blocks() const { return (inputs + kLanes - 1) / kLanes; }
    int64_t output_blocks() const { return (outputs + kLanes - 1) / kLanes; }
    int64_t shift(int tap) const { return tap / 3 * width + tap % 3; }
};

Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }
Lanes& at_lanes(float* where) { return *reinterpret_cast<Lanes*>(where); }

// Weights in two orders, padded with zeros: [output block][input][tap][kLanes outputs] and
// [output][input block][tap][kLanes inputs].
struct Weights {
    std::vector<float> by_output, by_input;
    Weights(const float* weights, const Shape& s)
        : by_output(s.output_blocks() * s.inputs * kTaps * kLanes),
          by_input(s.outputs * s.input_blocks() * kTaps * kLanes) {
        for (int64_t o = 0; o < s.outputs; ++o)
            for (int64_t i = 0; i < s.inputs; ++i)
                for (int t = 0; t < kTaps; ++t) {
                    const float value = weights[(o * s.inputs + i) * kTaps + t];
                    by_output[((o / kLanes * s.inputs + i) * kTaps + t) * kLanes + o % kLanes] = value;
                    by_input[((o * s.input_blocks() + i / kLanes) * kTaps + t) * kLanes + i % kLanes] = value;
                }
    }
};

// What one thread needs for an image, and its share of the sums.
struct Scratch {
    std::vector<float> x, grad_x;       // [input block][position][kLanes inputs]
    std::vector<float> gradient;        // [output][window]
    std::vector<int32_t> place;         // [output][window]: where in the image the window's maximum has its patch
    std::vector<float> grad_w, grad_b;  // [output][input block][tap][kLanes inputs], [output]
    explicit Scratch(const Shape& s)
        : x(s.input_blocks() * s.area() * kLanes),
          grad_x(x.size()),
          gradient(s.outputs * s.windows()),
          place(gradient.size()),
          grad_w(s.outputs * s.input_blocks() * kTaps * kLanes),
          grad_b(s.outputs) {}
};

// The convolution at the four positions of the window at `x`, for kLanes outputs.
void window_values(const float* x, const float* w, const Shape& s, Lanes (&value)[4]) {
    for (Lanes& v : value) v = Lanes{};
    for (int64_t i = 0; i < s.inputs; ++i)
        for (int t = 0; t < kTaps; ++t) {
            const float* from = x + i * s.area() + s.shift(t);
            const Lanes weight = load(w + (i * kTaps + t) * kLanes);
            value[0] += from[0] * weight;
            value[1] += from[1] * weight;
            value[2] += from[s.width] * weight;
            value[3] += from[s.width + 1] * weight;
        }
}

// One window of kLanes outputs: the place of the first maximum, and the gradient if the relu is open there.
void find_place(const Lanes (&value)[4], int64_t window, int64_t at, int64_t block, const float* bias,
                const float* grad_output, const Shape& s, Scratch& scratch) {
    const int32_t shifts[4] = {0, 1, int32_t(s.width), int32_t(s.width) + 1};
    Lanes best = value[0];
    Places place = Places{} + int32_t(at);
    for (int p = 1; p < 4; ++p) {
        const Places better = value[p] > best;
        best = better ? value[p] : best;
        place = better ? Places{} + int32_t(at + shifts[p]) : place;
    }
    const int64_t first = block * kLanes;
    for (int lane = 0; lane < std::min<int64_t>(kLanes, s.outputs - first); ++lane) {
        const int64_t entry = (first + lane) * s.windows() + window;
        scratch.place[entry] = place[lane];
        scratch.gradient[entry] = best[lane] + bias[first + lane] > 0 ? grad_output[entry] : 0.0f;
    }
}

void find_places(const float* x, const Weights& w, const float* bias, const float* grad_output, const Shape& s,
                 Scratch& scratch) {
    Lanes value[4];
    for (int64_t block = 0; block < s.output_blocks(); ++block)
        for (int64_t window = 0; window < s.windows(); ++window) {
            const int64_t at = window / s.columns() * 2 * s.width + window % s.columns() * 2;
            window_values(x + at, w.by_output.data() + block * s.inputs * kTaps * kLanes, s, value);
            find_place(value, window, at, block, bias, grad_output, s, scratch);
        }
}

// Follows the places of output o for kLanes inputs.
void follow_places(int64_t o, int64_t block, const Weights& w, const Shape& s, Scratch& scratch) {
    const int64_t entry = (o * s.input_blocks() + block) * kTaps * kLanes;
    const float *gradient = scratch.gradient.data() + o * s.windows(),
                *x = scratch.x.data() + block * s.area() * kLanes;
    const int32_t* place = scratch.place.data() + o * s.windows();
    float* grad_x = scratch.grad_x.data() + block * s.area() * kLanes;
    Lanes sum[kTaps] = {}, weight[kTaps];
    for (int t = 0; t < kTaps; ++t) weight[t] = load(w.by_input.data() + entry + t * kLanes);
    for (int64_t window = 0; window < s.windows(); ++window) {
        const float g = gradient[window];
        if (g == 0) continue;
        for (int t = 0; t < kTaps; ++t) {
            const int64_t at = (place[window] + s.shift(t)) * kLanes;
            sum[t] += g * load(x + at);
            at_lanes(grad_x + at) += g * weight[t];
        }
    }
    for (int t = 0; t < kTaps; ++t) at_lanes(scratch.grad_w.data() + entry + t * kLanes) += sum[t];
}

void image_gradient(const float* x, const Weights& w, const float* bias, const float* grad_output, float* grad_x,
                    const Shape& s, Scratch& scratch) {
    for (int64_t i = 0; i < s.inputs; ++i)
        for (int64_t p = 0; p < s.area(); ++p)
            scratch.x[(i / kLanes * s.area() + p) * kLanes + i % kLanes] = x[i * s.area() + p];
    std::fill(scratch.grad_x.begin(), scratch.grad_x.end(), 0.0f);
    find_places(x, w, bias, grad_output, s, scratch);
    for (int64_t o = 0; o < s.outputs; ++o) {
        for (int64_t block = 0; block < s.input_blocks(); ++block) follow_places(o, block, w, s, scratch);
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t window = 0; window < s.windows(); ++window) sum += scratch.gradient[o * s.windows() + window];
        scratch.grad_b[o] += sum;
    }
    for (int64_t i = 0; i < s.inputs; ++i)
        for (int64_t p = 0; p < s.area(); ++p)
            grad_x[i * s.area() + p] = scratch.grad_x[(i / kLanes * s.area() + p) * kLanes + i % kLanes];
}

void add_share(const Scratch& scratch, const Shape& s, float* grad_w, float* grad_b) {
    for (int64_t o = 0; o < s.outputs; ++o) {
        grad_b[o] += scratch.grad_b[o];
        for (int64_t i = 0; i < s.inputs; ++i)
            for (int t = 0; t < kTaps; ++t)
                grad_w[(o * s.inputs + i) * kTaps + t] +=
                    scratch.grad_w[((o * s.input_blocks() + i / kLanes) * kTaps + t) * kLanes + i % kLanes];
    }
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases,
                                    torch::Tensor grad_output) {
    const auto input = x.contiguous(), grad = grad_output.contiguous();
    const Shape s{x.size(1), x.size(2), x.size(3), weights.size(0)};
    const int64_t images = x.size(0), parts = std::min<int64_t>(at::get_num_threads(), images);
    auto grad_x = torch::empty(x.sizes(), x.options());
    auto grad_w = torch::zeros(weights.sizes(), x.options()), grad_b = torch::zeros(biases.sizes(), x.options());
    const Weights packed(weights.const_data_ptr<float>(), s);
    std::vector<Scratch> scratch(parts, Scratch(s));
    const float *px = input.const_data_ptr<float>(), *pg = grad.const_data_ptr<float>();
    const float* bias = biases.const_data_ptr<float>();
    float* out = grad_x.mutable_data_ptr<float>();
    at::parallel_for(0, parts, 1, [&](int64_t begin, int64_t end) {
        for (int64_t p = begin; p < end; ++p)
            for (int64_t n = images * p / parts; n < images * (p + 1) / parts; ++n)
                image_gradient(px + n * s.inputs * s.area(), packed, bias, pg + n * s.outputs * s.windows(),
                               out + n * s.inputs * s.area(), s, scratch[p]);
    });
    for (const Scratch& share : scratch)
        add_share(share, s, grad_w.mutable_data_ptr<float>(), grad_b.mutable_data_ptr<float>());
    return {grad_x, grad_w, grad_b};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
