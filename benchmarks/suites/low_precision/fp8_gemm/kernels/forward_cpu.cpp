// Matrix product in float8 (e4m3) with scales: y[i, j] = sx[i] sw[j] sum_k x[i, k] w[j, k].
//
// Bound by converting and reading the weights for few rows, by arithmetic for many.
// Work:     every e4m3 value is exact in bfloat16: x is converted once, the weights six rows at a time into a buffer
//           that stays in the cache. Then as a product in bfloat16: a tile of 4 rows x 6 outputs is 24 vectors of
//           partial sums in float32, two products to a lane; the scales are applied to the sums, which are rounded once.
// Dispatch: blocks of six outputs are shared out between the threads; all rows pass by while their weights are cached.
// Limits:   contiguous; scratch of twice the size of x and, per thread, of six rows of weights.
#include <torch/extension.h>

#include <bit>
#include <vector>
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

// To the nearest, ties to even.
uint16_t down(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value);
    return uint16_t((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// e4m3 has a bias of 7 and bfloat16 one of 127. With an exponent of zero the value is a multiple of 2^-9, up to seven.
uint16_t widened(uint8_t byte) {
    const uint16_t size = byte & 0x7f, few = byte & 7;
    const uint16_t normal = uint16_t((size << 4) + (120 << 7));
    const uint16_t four = uint16_t((120 << 7) | ((few & 3) << 5)), two = uint16_t((119 << 7) | ((few & 1) << 6));
    const uint16_t tiny = few >= 4 ? four : few >= 2 ? two : few == 1 ? uint16_t(118 << 7) : uint16_t(0);
    const uint16_t finite = size >= 8 ? normal : tiny;
    return uint16_t(((byte & 0x80) << 8) | (size == 0x7f ? uint16_t(0x7fc0) : finite));
}

// To rows of `stride` values; those beyond `depth` are zero.
void widen(const uint8_t* from, uint16_t* to, int64_t rows, int64_t depth, int64_t stride) {
    for (int64_t r = 0; r < rows; ++r) {
        const uint8_t* in = from + r * depth;
        uint16_t* out = to + r * stride;
#pragma omp simd
        for (int64_t k = 0; k < depth; ++k) out[k] = widened(in[k]);
        for (int64_t k = depth; k < stride; ++k) out[k] = 0;
    }
}

struct Product {
    const uint16_t* x;  // widened
    const uint8_t* w;
    const float *sx, *sw;
    uint16_t* y;
    int64_t rows, depth, outputs, stride;
};

template <int Rows, int Outputs>
void tile(const Product& product, const uint16_t* w, int64_t row, int64_t output) {
    const int64_t stride = product.stride;
    const uint16_t* x = product.x + row * stride;
    Lanes sum[Rows][Outputs] = {};
    for (int64_t k = 0; k < stride; k += kStep) {
        Words part[Rows];
        for (int r = 0; r < Rows; ++r) part[r] = load(x + r * stride + k);
        for (int o = 0; o < Outputs; ++o) {
            const Words weight = load(w + o * stride + k);
            for (int r = 0; r < Rows; ++r) sum[r][o] = multiply_add(sum[r][o], part[r], weight);
        }
    }
    for (int r = 0; r < Rows; ++r)
        for (int o = 0; o < Outputs; ++o) {
            float total = 0;
            for (int lane = 0; lane < kLanes; ++lane) total += sum[r][o][lane];
            total *= product.sx[row + r] * product.sw[output + o];
            product.y[(row + r) * product.outputs + output + o] = down(total);
        }
}

template <int Outputs>
void all_rows(const Product& product, uint16_t* weights, int64_t output) {
    widen(product.w + output * product.depth, weights, Outputs, product.depth, product.stride);
    int64_t row = 0;
    for (; row + kRows <= product.rows; row += kRows) tile<kRows, Outputs>(product, weights, row, output);
    for (; row < product.rows; ++row) tile<1, Outputs>(product, weights, row, output);
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor sx, torch::Tensor sw) {
    x = x.contiguous(), w = w.contiguous();
    const int64_t rows = x.size(0), depth = x.size(1), outputs = w.size(0), stride = (depth + kStep - 1) / kStep * kStep;
    auto y = torch::empty({rows, outputs}, x.options().dtype(torch::kBFloat16));
    std::vector<uint16_t> wide(rows * stride);
    widen(static_cast<const uint8_t*>(x.const_data_ptr()), wide.data(), rows, depth, stride);
    const Product product{wide.data(), static_cast<const uint8_t*>(w.const_data_ptr()), sx.const_data_ptr<float>(),
                          sw.const_data_ptr<float>(), reinterpret_cast<uint16_t*>(y.mutable_data_ptr<at::BFloat16>()),
                          rows, depth, outputs, stride};
    at::parallel_for(0, (outputs + kOutputs - 1) / kOutputs, 8, [&](int64_t begin, int64_t end) {
        std::vector<uint16_t> weights(kOutputs * stride);
        for (int64_t output = begin * kOutputs; output < std::min(end * kOutputs, outputs);)
            if (output + kOutputs <= outputs) {
                all_rows<kOutputs>(product, weights.data(), output);
                output += kOutputs;
            } else {
                all_rows<1>(product, weights.data(), output++);
            }
    });
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
