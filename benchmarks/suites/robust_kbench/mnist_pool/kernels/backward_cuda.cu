// Backward of a 2 x 2 max-pool: each gradient goes to the place its maximum came from, all other places get zero.
//
// Bound by memory: five floats are read and four written per window; the comparisons are free beside that.
// Work:     a thread takes neighbouring windows of one row and writes all their inputs' gradients, so the result is
//           neither cleared first nor scattered into. Among equal values the first in reading order wins, as in
//           PyTorch. An odd last row or column is covered by windows cut in half, which took no part and write zeros.
// Dispatch: two windows per thread where rows keep 16-byte alignment (width a multiple of 4), else one window, in
//           float2 for an even width and in single floats for an odd one. Rows of all planes are numbered through.
// Limits:   float32, contiguous, fewer than 2^31 inputs.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

#include <tuple>

namespace {

constexpr int kThreads = 256;

template <int Count, int Bytes>
struct alignas(Bytes) Floats {
    float at[Count];
};

struct Shape {
    unsigned height, width, items;
};

// The place of the maximum among a, b (upper row) and c, d (lower row): 0 to 3. A NaN counts as larger.
__device__ int place_of_maximum(float a, float b, float c, float d) {
    int place = 0;
    float best = a;
    if (b > best || b != b) place = 1, best = b;
    if (c > best || c != c) place = 2, best = c;
    if (d > best || d != d) place = 3;
    return place;
}

// A window cut in half by the lower or the right edge: zeros, as far as there are inputs.
template <int Count>
__device__ void write_zeros(float* to, unsigned width, bool has_low, unsigned columns) {
    for (unsigned c = 0; c < Count && c < columns; ++c) {
        to[c] = 0;
        if (has_low) to[width + c] = 0;
    }
}

template <int Windows, int Bytes>
__global__ void __launch_bounds__(kThreads)
    spread(const float* __restrict__ x, const float* __restrict__ grad, float* __restrict__ out, Shape shape) {
    using Inputs = Floats<2 * Windows, Bytes>;
    using Grads = Floats<Windows, 4 * Windows>;
    const unsigned item = blockIdx.x * kThreads + threadIdx.x;
    if (item >= shape.items) return;
    const unsigned item_rows = (shape.height + 1) / 2, item_columns = (shape.width + 2 * Windows - 1) / (2 * Windows);
    const unsigned row = item / item_columns, column = 2 * Windows * (item - row * item_columns);
    const unsigned plane = row / item_rows, top_row = 2 * (row - plane * item_rows);
    const unsigned top = (plane * shape.height + top_row) * shape.width + column;
    const bool has_low = top_row + 1 < shape.height;
    if (!has_low || column + 1 >= shape.width)
        return write_zeros<2 * Windows>(out + top, shape.width, has_low, shape.width - column);

    const Inputs upper = *reinterpret_cast<const Inputs*>(x + top);
    const Inputs lower = *reinterpret_cast<const Inputs*>(x + top + shape.width);
    const unsigned result = (plane * (shape.height / 2) + top_row / 2) * (shape.width / 2) + column / 2;
    const Grads g = *reinterpret_cast<const Grads*>(grad + result);
    Inputs out_upper, out_lower;
#pragma unroll
    for (int w = 0; w < Windows; ++w) {
        const int left = 2 * w, right = left + 1;
        const int place = place_of_maximum(upper.at[left], upper.at[right], lower.at[left], lower.at[right]);
        out_upper.at[left] = place == 0 ? g.at[w] : 0.0f;
        out_upper.at[right] = place == 1 ? g.at[w] : 0.0f;
        out_lower.at[left] = place == 2 ? g.at[w] : 0.0f;
        out_lower.at[right] = place == 3 ? g.at[w] : 0.0f;
    }
    *reinterpret_cast<Inputs*>(out + top) = out_upper;
    *reinterpret_cast<Inputs*>(out + top + shape.width) = out_lower;
}

template <int Windows, int Bytes>
void launch(const float* x, const float* grad, float* out, int64_t planes, unsigned height, unsigned width) {
    const unsigned item_columns = (width + 2 * Windows - 1) / (2 * Windows);
    const unsigned items = planes * ((height + 1) / 2) * item_columns;
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const Shape shape = {height, width, items};
    spread<Windows, Bytes><<<(items + kThreads - 1) / kThreads, kThreads, 0, stream>>>(x, grad, out, shape);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

torch::Tensor backward(std::tuple<torch::Tensor> inputs, torch::Tensor grad_output) {
    const auto x = std::get<0>(inputs).contiguous(), grad = grad_output.contiguous();
    TORCH_CHECK(x.numel() < (int64_t(1) << 31), "more than 2^31 inputs");
    auto grad_x = torch::empty(x.sizes(), x.options());
    if (x.numel() == 0) return grad_x;
    const int64_t planes = x.size(0) * x.size(1), height = x.size(2), width = x.size(3);
    const float *px = x.const_data_ptr<float>(), *pg = grad.const_data_ptr<float>();
    float* out = grad_x.mutable_data_ptr<float>();
    if (width % 4 == 0) launch<2, 16>(px, pg, out, planes, height, width);
    else if (width % 2 == 0) launch<1, 8>(px, pg, out, planes, height, width);
    else launch<1, 4>(px, pg, out, planes, height, width);
    return grad_x;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
