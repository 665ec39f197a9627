// Softmax to float8: e = exp(x - max) of each row, y = 256 e, s = the sum of e.
//
// Bound by the exponentials: a row stays in the cache.
// Work:     three sweeps over a row: its maximum, the exponentials with their sum, which go to a buffer in float32, and
//           their rounding to float8.
// Dispatch: rows are shared out between the threads, at least 8192 exponentials each, so small inputs stay on one.
// Limits:   bfloat16, contiguous, finite; a single very long row uses one thread.
#include <torch/extension.h>

#include <bit>
#include <limits>
#include <vector>

namespace {

constexpr float kFactor = 256;

float up(uint16_t half) { return std::bit_cast<float>(uint32_t(half) << 16); }

// The nearest e4m3, ties to even, of at most 448. Branchless, so that the compiler does sixteen at a time. Its exponent has
// a bias of 7 and float's one of 127; below 2^-6 its steps are 2^-9, as those of a float behind 2^14.
uint8_t quantised(float value) {
    const uint32_t bits = std::bit_cast<uint32_t>(value), size = bits & 0x7fffffffu;
    const uint32_t normal = ((size + 0x7ffffu + ((size >> 20) & 1u)) >> 20) - (120u << 3);
    const uint32_t tiny = std::bit_cast<uint32_t>(std::bit_cast<float>(size) + 0x1p14f) - std::bit_cast<uint32_t>(0x1p14f);
    return uint8_t(((bits >> 24) & 0x80u) | (size >= std::bit_cast<uint32_t>(0x1p-6f) ? normal : tiny));
}

// e^x for x <= 0 to float accuracy: 2^n times a polynomial for the rest, which lies within half of ln 2.
float exponential(float x) {
    const float clamped = x < -87.0f ? -87.0f : x;
    const float shifted = clamped * 1.442695041f + 12582912.0f;  // adding 1.5 * 2^23 rounds to a whole number
    const float n = shifted - 12582912.0f;
    const float r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts, the first one exact
    float p = 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * std::bit_cast<float>((std::bit_cast<uint32_t>(shifted) + 127u) << 23);
}

// Writes e^(x - max) and returns their sum.
float numerators(const uint16_t* x, float* to, int64_t size) {
    float most = -std::numeric_limits<float>::infinity(), sum = 0;
#pragma omp simd reduction(max : most)
    for (int64_t i = 0; i < size; ++i) most = std::max(most, up(x[i]));
#pragma omp simd reduction(+ : sum)
    for (int64_t i = 0; i < size; ++i) sum += to[i] = exponential(up(x[i]) - most);
    return sum;
}

}  // namespace

std::vector<torch::Tensor> forward(torch::Tensor x) {
    x = x.contiguous();
    const int64_t size = x.size(-1), rows = x.numel() / size;
    auto y = torch::empty(x.sizes(), x.options().dtype(torch::kFloat8_e4m3fn));
    auto s = torch::empty({rows}, x.options().dtype(torch::kFloat32));
    const auto* px = reinterpret_cast<const uint16_t*>(x.const_data_ptr<at::BFloat16>());
    auto* py = static_cast<uint8_t*>(y.mutable_data_ptr());
    auto* ps = s.mutable_data_ptr<float>();
    at::parallel_for(0, rows, std::max<int64_t>(1, 8192 / size), [=](int64_t begin, int64_t end) {
        std::vector<float> buffer(size);
        float* e = buffer.data();
        for (int64_t r = begin; r < end; ++r) {
            ps[r] = numerators(px + r * size, e, size);
            uint8_t* to = py + r * size;
#pragma omp simd
            for (int64_t i = 0; i < size; ++i) to[i] = quantised(e[i] * kFactor);
        }
    });
    return {y, s};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
