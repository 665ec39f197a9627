// Linear layer in bfloat16: y = x W^T + b.
//
// Bound by reading the weights for few rows, by arithmetic for many.
// Work:     both operands lie along the summed axis, so nothing is packed: a tile of 4 rows x 6 outputs is 24 vectors of
//           partial sums in float32, two products to a lane. Where the processor multiplies bfloat16, one instruction
//           does 32 products; elsewhere the halves of a lane are taken apart by a shift and a mask.
// Dispatch: blocks of six outputs are shared out between the threads; all rows pass by while their weights are cached.
// Limits:   bfloat16, contiguous, finite; long sums are added in float32.
#include <torch/extension.h>

#include <bit>
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

namespace {

#ifdef __AVX512F__
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif
constexpr int kRows = 4, kOutputs = 6, kStep = 2 * kLanes;

// Two bfloat16 lie in each 32-bit lane: the upper one is a float32 whose lower half is ignored, the lower one is shifted up.
typedef float Lanes __attribute__((vector_size(4 * kLanes)));
typedef uint32_t Words __attribute__((vector_size(4 * kLanes), aligned(2), may_alias));

Words load(const uint16_t* from) { return *reinterpret_cast<const Words*>(from); }

Lanes multiply_add(Lanes sum, Words a, Words b) {
#ifdef __AVX512BF16__
    return (Lanes)_mm512_dpbf16_ps((__m512)sum, (__m512bh)a, (__m512bh)b);
#else
    sum += (Lanes)(a << 16) * (Lanes)(b << 16);
    return sum + (Lanes)(a & 0xffff0000u) * (Lanes)(b & 0xffff0000u);
#endif
}

float up(uint16_t half) { return std::bit_cast<float>(uint32_t(half) << 16); }

// To the nearest, ties to even.
uint16_t down(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    return uint16_t((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

struct Layer {
    const uint16_t *x, *w, *b;
    uint16_t* y;
    int64_t rows, depth, outputs;
};

template <int Rows, int Outputs>
void tile(const Layer& layer, int64_t row, int64_t output) {
    const uint16_t *x = layer.x + row * layer.depth, *w = layer.w + output * layer.depth;
    const int64_t depth = layer.depth, whole = depth / kStep * kStep;
    Lanes sum[Rows][Outputs] = {};
    for (int64_t k = 0; k < whole; k += kStep) {
        Words part[Rows];
        for (int r = 0; r < Rows; ++r) part[r] = load(x + r * depth + k);
        for (int o = 0; o < Outputs; ++o) {
            const Words weight = load(w + o * depth + k);
            for (int r = 0; r < Rows; ++r) sum[r][o] = multiply_add(sum[r][o], part[r], weight);
        }
    }
    for (int r = 0; r < Rows; ++r)
        for (int o = 0; o < Outputs; ++o) {
            float total = up(layer.b[output + o]);
            for (int64_t k = whole; k < depth; ++k) total += up(x[r * depth + k]) * up(w[o * depth + k]);
            for (int lane = 0; lane < kLanes; ++lane) total += sum[r][o][lane];
            layer.y[(row + r) * layer.outputs + output + o] = down(total);
        }
}

template <int Outputs>
void all_rows(const Layer& layer, int64_t output) {
    int64_t row = 0;
    for (; row + kRows <= layer.rows; row += kRows) tile<kRows, Outputs>(layer, row, output);
    for (; row < layer.rows; ++row) tile<1, Outputs>(layer, row, output);
}

void block(const Layer& layer, int64_t number) {
    int64_t output = number * kOutputs;
    if (output + kOutputs <= layer.outputs) return all_rows<kOutputs>(layer, output);
    for (; output < layer.outputs; ++output) all_rows<1>(layer, output);
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    x = x.contiguous(), w = w.contiguous();
    auto y = torch::empty({x.size(0), w.size(0)}, x.options());
    const Layer layer{reinterpret_cast<const uint16_t*>(x.const_data_ptr<at::BFloat16>()),
                      reinterpret_cast<const uint16_t*>(w.const_data_ptr<at::BFloat16>()),
                      reinterpret_cast<const uint16_t*>(b.const_data_ptr<at::BFloat16>()),
                      reinterpret_cast<uint16_t*>(y.mutable_data_ptr<at::BFloat16>()),
                      x.size(0), x.size(1), w.size(0)};
    at::parallel_for(0, (layer.outputs + kOutputs - 1) / kOutputs, 8, [&](int64_t begin, int64_t end) {
        for (int64_t number = begin; number < end; ++number) block(layer, number);
    });
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
