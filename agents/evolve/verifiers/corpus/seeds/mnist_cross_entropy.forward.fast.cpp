// Mean cross entropy: the mean over rows of log(sum(exp(p - max))) + max - p[target].
//
// Bound by the exponentials, and for small batches by the calls around them: eager makes the whole table of
// log-probabilities only to pick one entry per row.
// Work:     three sweeps over a row in the cache: maximum, exponentials and their sum, logarithm. The largest value is
//           taken off first, so no logit is too large. The row sums are float, everything across rows is double.
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

double row_loss(const float* row, int64_t classes, int64_t target) {
    float top = row[0], sum = 0;
#pragma omp simd reduction(max : top)
    for (int64_t c = 1; c < classes; ++c) top = row[c] > top ? row[c] : top;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < classes; ++c) sum += exponential(row[c] - top);
    return std::log(double(sum)) + (double(top) - row[target]);
}

}  // namespace

torch::Tensor forward(torch::Tensor predictions, torch::Tensor targets) {
    predictions = predictions.contiguous();
    const int64_t rows = predictions.size(0), classes = predictions.size(1);
    const float* p = predictions.const_data_ptr<float>();
    const int64_t* t = targets.const_data_ptr<int64_t>();
    const auto range = [=](int64_t begin, int64_t end, double sum) {
        for (int64_t r = begin; r < end; ++r) sum += row_loss(p + r * classes, classes, t[r]);
        return sum;
    };
    const int64_t grain = std::max<int64_t>(1, 8192 / classes);
    const double sum = at::parallel_reduce(0, rows, grain, 0.0, range, [](double a, double b) { return a + b; });
    auto loss = torch::empty({}, predictions.options());
    *loss.mutable_data_ptr<float>() = float(sum / rows);
    return loss;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
