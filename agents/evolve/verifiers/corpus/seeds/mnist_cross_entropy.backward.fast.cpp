// Backward of the mean cross entropy: (softmax(p) - onehot(target)) * grad_output / rows.
//
// Bound by the exponentials, and for small batches by the calls around them.
// Work:     the exponentials of a row are written into the result, then scaled in place while the row is in the cache;
//           the one-hot matrix exists only as one subtraction per row.
// Dispatch: rows are shared out between the threads, at least 8192 exponentials each.
// Limits:   float32 logits, contiguous; int64 targets that are valid class numbers.
#include <torch/extension.h>

#include <bit>
#include <cmath>

namespace {

// e^x for x <= 0 to float accuracy: 2^n times a polynomial for the rest, which lies within half of ln 2.
inline float exponential(float x) {
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
    return p * std::bit_cast<float>((std::bit_cast<int32_t>(shifted) + 127) << 23);
}

float exponentials(const float* __restrict__ row, float* __restrict__ out, int64_t count, float top) {
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < count; ++c) {
        out[c] = exponential(row[c] - top);
        sum += out[c];
    }
    return sum;
}

// The target's own entry is (e - sum) / sum. Taken from the other terms it stays exact where softmax is close to one.
void row_gradient(const float* row, float* out, int64_t classes, int64_t target, float scale) {
    float top = row[0];
#pragma omp simd reduction(max : top)
    for (int64_t c = 1; c < classes; ++c) top = row[c] > top ? row[c] : top;
    const int64_t after = target + 1;
    const float others =
        exponentials(row, out, target, top) + exponentials(row + after, out + after, classes - after, top);
    const float factor = scale / (others + exponential(row[target] - top));
#pragma omp simd
    for (int64_t c = 0; c < classes; ++c) out[c] *= factor;
    out[target] = -others * factor;
}

}  // namespace

torch::Tensor backward(torch::Tensor grad_output, torch::Tensor predictions, torch::Tensor targets) {
    predictions = predictions.contiguous();
    auto grad = torch::empty(predictions.sizes(), predictions.options());
    const int64_t rows = predictions.size(0), classes = predictions.size(1);
    const float scale = *grad_output.const_data_ptr<float>() / float(rows);
    const float* p = predictions.const_data_ptr<float>();
    const int64_t* t = targets.const_data_ptr<int64_t>();
    float* out = grad.mutable_data_ptr<float>();
    at::parallel_for(0, rows, std::max<int64_t>(1, 8192 / classes), [=](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) row_gradient(p + r * classes, out + r * classes, classes, t[r], scale);
    });
    return grad;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
