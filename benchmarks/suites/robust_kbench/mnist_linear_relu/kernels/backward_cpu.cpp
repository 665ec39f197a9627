// Backward of relu(x W^T + b): with gh = grad_output where x W^T + b > 0, else 0:
// grad_x = gh W, grad_weights = gh^T x, grad_biases = the sum of gh over rows.
//
// Bound by arithmetic for large batches, by reading and writing the weights for small ones.
// Work:     the layer is computed again only to learn its signs: sixteen dot products at a time, each total turned at
//           once into one entry of gh, the single scratch tensor. Both products then have a right factor whose rows
//           are contiguous: a tile of 4 rows x 64 columns is summed in sixteen vector registers while the left factor
//           is broadcast with whatever strides it has. Nothing is transposed or packed.
// Dispatch: outputs, then blocks of columns, are shared out between the threads. Blocks of 64 columns, of 16 where
//           there are fewer, one by one below that; edges are covered by blocks that overlap.
// Limits:   float32, contiguous. No blocking along the summed axis, which pays only when the
//           64 columns of the right factor outgrow the second-level cache.
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
void gate_tile(const float* x, const float* w, const float* bias, const float* grad, float* out, int64_t depth,
               int64_t outputs) {
    const Lanes sum = M * N == 1 && depth < kLanes ? short_dot(x, w, depth) : dots<M, N>(x, w, depth);
    for (int m = 0; m < M; ++m)
        for (int n = 0; n < N; ++n) out[m * outputs + n] = sum[4 * m + n] + bias[n] > 0 ? grad[m * outputs + n] : 0.0f;
}

template <int N>
void gate_column(const float* x, const float* w, const float* bias, const float* grad, float* out, int64_t rows,
                 int64_t depth, int64_t outputs) {
    int64_t r = 0;
    for (; r + 4 <= rows && depth >= kLanes; r += 4)
        gate_tile<4, N>(x + r * depth, w, bias, grad + r * outputs, out + r * outputs, depth, outputs);
    for (; r + 2 <= rows && depth >= kLanes; r += 2)
        gate_tile<2, N>(x + r * depth, w, bias, grad + r * outputs, out + r * outputs, depth, outputs);
    for (; r < rows; ++r)
        gate_tile<1, N>(x + r * depth, w, bias, grad + r * outputs, out + r * outputs, depth, outputs);
}

// grad where the layer is positive, else zero.
void gate(const float* x, const float* w, const float* bias, const float* grad, float* out, int64_t rows, int64_t depth,
          int64_t outputs) {
    const int64_t grain = std::max<int64_t>(4, 65536 / (rows * depth));
    at::parallel_for(0, (outputs + 3) / 4, grain, [=](int64_t begin, int64_t end) {
        int64_t o = 4 * begin;
        const int64_t stop = std::min(4 * end, outputs);
        for (; o + 4 <= stop && depth >= kLanes; o += 4)
            gate_column<4>(x, w + o * depth, bias + o, grad + o, out + o, rows, depth, outputs);
        for (; o < stop; ++o) gate_column<1>(x, w + o * depth, bias + o, grad + o, out + o, rows, depth, outputs);
    });
}

// Many rows whose depth puts them off the cache lines, or a very long depth: the library packs both factors first.
bool library_wins(int64_t rows, int64_t depth, int64_t outputs) {
    return rows >= 16 && outputs >= 32 && (depth % kLanes != 0 || depth > 2048);
}

void gate_by_sign(float* __restrict__ hidden, const float* __restrict__ grad, int64_t count) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) hidden[i] = hidden[i] > 0 ? grad[i] : 0.0f;
}

// A rows x columns tile of the product of a (any strides) and b (contiguous rows), summed over `depth`.
template <int Rows, int Vectors>
void product_tile(const float* a, int64_t row_step, int64_t depth_step, const float* b, float* out, int64_t depth,
                  int64_t columns) {
    Lanes sum[Rows][Vectors] = {};
    for (int64_t k = 0; k < depth; ++k) {
        Lanes right[Vectors];
        for (int v = 0; v < Vectors; ++v) right[v] = load(b + k * columns + v * kLanes);
        for (int r = 0; r < Rows; ++r)
            for (int v = 0; v < Vectors; ++v) sum[r][v] += a[r * row_step + k * depth_step] * right[v];
    }
    for (int r = 0; r < Rows; ++r)
        for (int v = 0; v < Vectors; ++v) *reinterpret_cast<Lanes*>(out + r * columns + v * kLanes) = sum[r][v];
}

// One block of columns for all rows. The last four rows are done together even if some of them were done before.
template <int Vectors>
void product_block(const float* a, int64_t row_step, int64_t depth_step, const float* b, float* out, int64_t rows,
                   int64_t depth, int64_t columns) {
    if (rows < 4) {
        for (int64_t r = 0; r < rows; ++r)
            product_tile<1, Vectors>(a + r * row_step, row_step, depth_step, b, out + r * columns, depth, columns);
        return;
    }
    for (int64_t next = 0; next < rows; next += 4) {
        const int64_t r = std::min(next, rows - 4);
        product_tile<4, Vectors>(a + r * row_step, row_step, depth_step, b, out + r * columns, depth, columns);
    }
}

// out = a b. Columns go in blocks of 64 or of 16, the last block overlapping its neighbour; fewer go one by one.
void product(const float* a, int64_t row_step, int64_t depth_step, const float* b, float* out, int64_t rows,
             int64_t depth, int64_t columns) {
    const int64_t width = columns >= 4 * kLanes ? 4 * kLanes : columns >= kLanes ? kLanes : 1;
    const int64_t grain = std::max<int64_t>(1, 65536 / (rows * depth * width));
    at::parallel_for(0, (columns + width - 1) / width, grain, [=](int64_t begin, int64_t end) {
        for (int64_t block = begin; block < end; ++block) {
            const int64_t c = std::min(block * width, columns - width);
            if (width == 4 * kLanes) product_block<4>(a, row_step, depth_step, b + c, out + c, rows, depth, columns);
            else if (width == kLanes) product_block<1>(a, row_step, depth_step, b + c, out + c, rows, depth, columns);
            else
                for (int64_t r = 0; r < rows; ++r) {
                    float sum = 0;
                    for (int64_t k = 0; k < depth; ++k) sum += a[r * row_step + k * depth_step] * b[k * columns + c];
                    out[r * columns + c] = sum;
                }
        }
    });
}

// The sum over rows, column by column.
void column_sums(const float* __restrict__ values, float* __restrict__ sums, int64_t rows, int64_t columns) {
    std::fill_n(sums, columns, 0.0f);
    for (int64_t r = 0; r < rows; ++r) {
#pragma omp simd
        for (int64_t c = 0; c < columns; ++c) sums[c] += values[r * columns + c];
    }
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x, torch::Tensor weights,
                                    torch::Tensor biases) {
    grad_output = grad_output.contiguous();
    const int64_t rows = x.size(0), outputs = weights.size(0), depth = weights.size(1);
    auto grad_x = torch::empty(x.sizes(), x.options());
    auto grad_weights = torch::empty(weights.sizes(), x.options());
    auto grad_biases = torch::empty({outputs}, x.options());
    auto gated = torch::empty(grad_output.sizes(), x.options());
    const float *px = x.const_data_ptr<float>(), *pw = weights.const_data_ptr<float>();
    float* gh = gated.mutable_data_ptr<float>();
    if (library_wins(rows, depth, outputs)) {
        gated = torch::linear(x, weights, biases);
        gh = gated.mutable_data_ptr<float>();
        gate_by_sign(gh, grad_output.const_data_ptr<float>(), gated.numel());
    } else gate(px, pw, biases.const_data_ptr<float>(), grad_output.const_data_ptr<float>(), gh, rows, depth, outputs);
    product(gh, outputs, 1, pw, grad_x.mutable_data_ptr<float>(), rows, outputs, depth);
    product(gh, 1, outputs, px, grad_weights.mutable_data_ptr<float>(), outputs, rows, depth);
    column_sums(gh, grad_biases.mutable_data_ptr<float>(), rows, outputs);
    return {grad_x, grad_weights, grad_biases};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
