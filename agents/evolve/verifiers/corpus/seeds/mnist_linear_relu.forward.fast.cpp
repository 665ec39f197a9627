// Linear layer and relu: y = max(0, x W^T + b).
//
// Bound by arithmetic for large batches, by reading the weights for small ones.
// Work:     both x and the weights are contiguous along the summed axis, so nothing is packed or transposed: a tile of
//           4 rows x 4 outputs is sixteen dot products whose vector sums stay in registers (eight loads feed sixteen
//           multiply-adds). The sixteen vectors are folded to their totals at the end, where
//           bias and relu cost nothing.
// Dispatch: four outputs at a time are shared out between the threads; the four weight rows stay in the cache while
//           all rows of x pass by. What is left over is done in tiles one row or one output wide.
// Limits:   float32, contiguous. No packing and no blocking along the summed axis, so the library's
//           product is called where those win (`library_wins`); such a call is labelled as one.
#include <torch/extension.h>

#include <utility>

namespace {

constexpr int kLanes = 16;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));
typedef int32_t Bits __attribute__((vector_size(kLanes * sizeof(int32_t))));

Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }

// Adds neighbouring groups of G lanes of a and of b and interleaves the sums; four levels turn sixteen vectors into
// the vector of their sixteen totals.
template <int G, int... I>
Lanes folded(Lanes a, Lanes b, std::integer_sequence<int, I...>) {
    constexpr Bits low = {(I / (2 * G) * 2 * G + I % G + (I % (2 * G) < G ? 0 : kLanes))...};
    return __builtin_shuffle(a, b, low) + __builtin_shuffle(a, b, low + G);
}

template <int G, int Count>
Lanes totals(const Lanes* v) {
    if constexpr (Count == 1) return *v;
    else
        return folded<G>(totals<G / 2, Count / 2>(v), totals<G / 2, Count / 2>(v + Count / 2),
                         std::make_integer_sequence<int, kLanes>{});
}

// The M x N dot products of M rows of x with N rows of w; product (m, n) is lane 4 m + n.
template <int M, int N>
Lanes dots(const float* x, const float* w, int64_t depth) {
    Lanes sum[16] = {};
    const auto add = [&](int64_t k, Bits keep) {
        Lanes right[N];
        for (int n = 0; n < N; ++n) right[n] = load(w + n * depth + k);
        for (int m = 0; m < M; ++m) {
            const Lanes left = (Lanes)((Bits)load(x + m * depth + k) & keep);
            for (int n = 0; n < N; ++n) sum[4 * m + n] += left * right[n];
        }
    };
    int64_t k = 0;
    for (; k + kLanes <= depth; k += kLanes) add(k, Bits{} - 1);
    // What is left is done on the last sixteen entries, those that were counted already set to zero.
    constexpr Bits places = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    if (k < depth) add(depth - kLanes, places >= int32_t(k - (depth - kLanes)));
    return totals<8, 16>(sum);
}

// The same for rows shorter than a vector.
Lanes short_dot(const float* x, const float* w, int64_t depth) {
    Lanes sum = {};
    for (int64_t k = 0; k < depth; ++k) sum[0] += x[k] * w[k];
    return sum;
}

template <int M, int N>
void tile(const float* x, const float* w, const float* bias, float* y, int64_t depth, int64_t outputs) {
    const Lanes sum = M * N == 1 && depth < kLanes ? short_dot(x, w, depth) : dots<M, N>(x, w, depth);
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) y[m * outputs + n] = std::max(0.0f, sum[4 * m + n] + bias[n]);
}

template <int N>
void column(const float* x, const float* w, const float* bias, float* y, int64_t rows, int64_t depth, int64_t outputs) {
    int64_t r = 0;
    for (; r + 4 <= rows && depth >= kLanes; r += 4)
        tile<4, N>(x + r * depth, w, bias, y + r * outputs, depth, outputs);
    for (; r + 2 <= rows && depth >= kLanes; r += 2)
        tile<2, N>(x + r * depth, w, bias, y + r * outputs, depth, outputs);
    for (; r < rows; ++r) tile<1, N>(x + r * depth, w, bias, y + r * outputs, depth, outputs);
}

// Many rows whose depth puts them off the cache lines, or a very long depth: the library packs both factors first.
bool library_wins(int64_t rows, int64_t depth, int64_t outputs) {
    return rows >= 16 && outputs >= 32 && (depth % kLanes != 0 || depth > 2048);
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    x = x.contiguous();
    const int64_t outputs = weights.size(0), depth = weights.size(1), rows = x.numel() / depth;
    if (library_wins(rows, depth, outputs)) return torch::linear(x, weights, biases).relu_();
    auto y = torch::empty({rows, outputs}, x.options());
    const float *px = x.const_data_ptr<float>(), *pw = weights.const_data_ptr<float>();
    const float* pb = biases.const_data_ptr<float>();
    float* py = y.mutable_data_ptr<float>();
    const int64_t grain = std::max<int64_t>(4, 65536 / (rows * depth));
    at::parallel_for(0, (outputs + 3) / 4, grain, [=](int64_t begin, int64_t end) {
        int64_t o = 4 * begin;
        const int64_t stop = std::min(4 * end, outputs);
        for (; o + 4 <= stop && depth >= kLanes; o += 4)
            column<4>(px, pw + o * depth, pb + o, py + o, rows, depth, outputs);
        for (; o < stop; ++o) column<1>(px, pw + o * depth, pb + o, py + o, rows, depth, outputs);
    });
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
