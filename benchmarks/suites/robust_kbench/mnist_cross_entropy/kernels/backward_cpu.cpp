// Backward of the mean cross entropy: (softmax(p) - onehot(target)) * grad_output / rows.
//
// Bound by the exponentials, and for small batches by the calls around them.
// Work:     the exponentials of a row are written into the result, then scaled in place while the row is in the cache,
//           sixteen classes at a time. The last vector of a row reads and writes into the next row, whose turn comes
//           after, so a row of ten classes costs one vector and no loop. The one-hot matrix exists only as one
//           subtraction per row.
// Dispatch: rows are shared out between the threads, at least 8192 exponentials each; no thread leaves its rows.
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

// Stores `v`, of which `count` lanes are wanted; nothing at `end` or beyond is touched.
void store(float* to, Lanes v, int64_t count, const float* end) {
    if (to + kLanes <= end) *reinterpret_cast<Lanes*>(to) = v;
    else std::copy_n(reinterpret_cast<const float*>(&v), std::min<int64_t>(count, kLanes), to);
}

// Where a range of rows ends, in the logits and in the result.
struct Ends {
    const float *row, *out;
};

// Writes the exponentials of a row; the sum of all but the target's.
float exponentials(const float* row, float* out, int64_t classes, int64_t target, const Ends& ends) {
    const float top = largest(row, classes, ends.row);
    Lanes others{};
    for (int64_t c = 0; c < classes; c += kLanes) {
        const Lanes e = exponential(load(row + c, classes - c, ends.row) - top);
        store(out + c, e, classes - c, ends.out);
        others += kLane == int32_t(target - c) ? Lanes{} : e;
    }
    return across(others, sum);
}

// The target's own entry is (e - sum) / sum. Taken from the other terms it stays exact where softmax is close to one.
void row_gradient(const float* row, float* out, int64_t classes, int64_t target, float scale, const Ends& ends) {
    const float others = exponentials(row, out, classes, target, ends);
    const float factor = scale / (others + out[target]);
    for (int64_t c = 0; c < classes; c += kLanes)
        store(out + c, load(out + c, classes - c, ends.out) * factor, classes - c, ends.out);
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
        const Ends ends{p + end * classes, out + end * classes};
        for (int64_t r = begin; r < end; ++r)
            row_gradient(p + r * classes, out + r * classes, classes, t[r], scale, ends);
    });
    return grad;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
