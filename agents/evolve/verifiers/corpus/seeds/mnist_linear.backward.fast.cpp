// Backward of a linear layer: grad_x = g W, grad_weights = g^T x, grad_biases = the sum of g over rows.
//
// Bound by arithmetic for large batches, by reading and writing the weights for small ones.
// Work:     both products have a right factor whose rows are contiguous, so one routine serves them: a tile of 4 rows x
//           64 columns is summed in sixteen vector registers, the left factor being broadcast with whatever strides it
//           has. g is never transposed and nothing is packed.
// Dispatch: blocks of columns are shared out between the threads. Blocks of 64 columns, of 16 where there are fewer,
//           one by one below that; edges are covered by blocks that overlap.
// Limits:   float32, contiguous. No blocking along the summed axis, which pays only when the
//           64 columns of the right factor outgrow the second-level cache.
#include <torch/extension.h>

namespace {

constexpr int kLanes = 16;
typedef float Lanes __attribute__((vector_size(kLanes * sizeof(float)), aligned(4), may_alias));

Lanes load(const float* from) { return *reinterpret_cast<const Lanes*>(from); }

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

std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x, torch::Tensor weights) {
    grad_output = grad_output.contiguous();
    const int64_t outputs = weights.size(0), depth = weights.size(1), rows = x.numel() / depth;
    auto grad_x = torch::empty(x.sizes(), x.options());
    auto grad_weights = torch::empty(weights.sizes(), x.options());
    auto grad_biases = torch::empty({outputs}, x.options());
    const float* g = grad_output.const_data_ptr<float>();
    product(g, outputs, 1, weights.const_data_ptr<float>(), grad_x.mutable_data_ptr<float>(), rows, outputs, depth);
    product(g, 1, outputs, x.const_data_ptr<float>(), grad_weights.mutable_data_ptr<float>(), outputs, rows, depth);
    column_sums(g, grad_biases.mutable_data_ptr<float>(), rows, outputs);
    return {grad_x, grad_weights, grad_biases};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
