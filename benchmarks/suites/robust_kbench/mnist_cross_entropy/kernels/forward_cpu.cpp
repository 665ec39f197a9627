// Mean cross entropy: the mean over rows of log(sum(exp(p - max))) + max - p[target].
//
// Bound by the exponentials, and for small batches by the calls around them: eager makes the whole table of
// log-probabilities only to pick one entry per row.
// Work:     two sweeps over a row in the cache, sixteen classes at a time: the maximum, which is taken off first so
//           that no logit is too large, then the exponentials and their sum. What the last vector of a row holds of the
//           next one is blended away, so a row of ten classes costs one vector and no loop. A logarithm takes as long
//           as sixty exponentials: the sums of many rows are multiplied, and the logarithm of the product is taken. The
//           row sums are float, everything across rows is double.
// Dispatch: rows are shared out between the threads, at least 8192 exponentials each.
// Limits:   float32 logits, contiguous; int64 targets that are valid class numbers.
#include <torch/extension.h>

#include <cmath>
#include <limits>
#include <utility>

namespace {

// Wider vectors than the processor has would be kept in memory.
#ifdef __AVX512F__
constexpr int kLanes = 16;
#else
constexpr int kLanes = 8;
#endif
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));
typedef int32_t Whole __attribute__((vector_size(kLanes * sizeof(int32_t)), may_alias));

template <int... I>
constexpr Whole counted(std::integer_sequence<int, I...>) {
    return Whole{I...};
}
constexpr Whole kLane = counted(std::make_integer_sequence<int, kLanes>{});
constexpr float kLowest = std::numeric_limits<float>::lowest();  // its exponential is nothing beside any other

Lanes larger(Lanes a, Lanes b) { return a > b ? a : b; }
Lanes sum(Lanes a, Lanes b) { return a + b; }

// All lanes combined into one.
template <typename Combine>
float across(Lanes v, Combine combine) {
    for (int step = kLanes / 2; step > 0; step /= 2) v = combine(v, __builtin_shuffle(v, kLane ^ step));
    return v[0];
}

// e^x for x <= 0 to float accuracy: 2^n times a polynomial for the rest, which lies within half of ln 2.
Lanes exponential(Lanes x) {
    const Lanes clamped = x < -87.0f ? Lanes{} - 87.0f : x;
    const Lanes shifted = clamped * 1.442695041f + 12582912.0f;  // adding 1.5 * 2^23 rounds to a whole number
    const Lanes n = shifted - 12582912.0f;
    const Lanes r = (clamped - n * 0.693359375f) + n * 2.12194440e-4f;  // ln 2 in two parts, the first one exact
    Lanes p = Lanes{} + 1.0f / 5040;
    p = p * r + 1.0f / 720;
    p = p * r + 1.0f / 120;
    p = p * r + 1.0f / 24;
    p = p * r + 1.0f / 6;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    return p * (Lanes)(((Whole)shifted + 127) << 23);
}

// The values at `from`, of which `count` are wanted; nothing at `end` or beyond is touched.
Lanes load(const float* from, int64_t count, const float* end) {
    Lanes v{};
    if (from + kLanes <= end) v = *reinterpret_cast<const Lanes*>(from);
    else std::copy_n(from, count, reinterpret_cast<float*>(&v));
    return count < kLanes ? (kLane < int32_t(count) ? v : Lanes{} + kLowest) : v;
}

float largest(const float* row, int64_t classes, const float* end) {
    Lanes top = Lanes{} + kLowest;
    for (int64_t c = 0; c < classes; c += kLanes) top = larger(top, load(row + c, classes - c, end));
    return across(top, larger);
}

float sum_of_exponentials(const float* row, int64_t classes, const float* end, float top) {
    Lanes total{};
    for (int64_t c = 0; c < classes; c += kLanes) total += exponential(load(row + c, classes - c, end) - top);
    return across(total, sum);
}

// The loss of some rows, added up; `end` is where the last of all rows ends.
double rows_loss(const float* row, const int64_t* target, int64_t rows, int64_t classes, const float* end) {
    double logarithms = 0, rest = 0, product = 1;
    for (int64_t r = 0; r < rows; ++r, row += classes) {
        const float top = largest(row, classes, end);
        product *= sum_of_exponentials(row, classes, end, top);
        rest += double(top) - row[target[r]];
        if (product > 1e200) {  // the next factor is at most the number of classes
            logarithms += std::log(product);
            product = 1;
        }
    }
    return logarithms + std::log(product) + rest;
}

}  // namespace

torch::Tensor forward(torch::Tensor predictions, torch::Tensor targets) {
    predictions = predictions.contiguous();
    const int64_t rows = predictions.size(0), classes = predictions.size(1);
    const float *p = predictions.const_data_ptr<float>(), *end = p + rows * classes;
    const int64_t* t = targets.const_data_ptr<int64_t>();
    const auto range = [=](int64_t first, int64_t last, double sum) {
        return sum + rows_loss(p + first * classes, t + first, last - first, classes, end);
    };
    const int64_t grain = std::max<int64_t>(1, 8192 / classes);
    const double sum = at::parallel_reduce(0, rows, grain, 0.0, range, [](double a, double b) { return a + b; });
    auto loss = torch::empty({}, predictions.options());
    *loss.mutable_data_ptr<float>() = float(sum / rows);
    return loss;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
