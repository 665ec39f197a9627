// Backward of a 2 x 2 max-pool: each gradient goes to the place its maximum came from, all other places get zero.
//
// Bound by memory: five floats are read and four written per window; the comparisons are free beside that.
// Work:   a thread takes WINDOWS neighbouring windows of a row in each of STEPS steps, THREADS items apart, and writes
//         all their inputs' gradients, so the result is neither cleared first nor scattered into. Among equal values the
//         first in reading order wins, as in PyTorch. An odd last row or column is covered by windows cut in half,
//         which took no part and write zeros. Rows of all planes are numbered through. BLOCKS_PER_SM 0: a block per
//         piece of work; else so many blocks per processor walk over the pieces.
// Limits: float32, contiguous, fewer than 2^31 inputs. Rows that WINDOWS does not divide take one window at a time.
// @genes@
// @include prelude.inc@

namespace {

struct Shape {
    unsigned height, width, items, item_rows, item_columns;
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
__device__ void write_zeros(float* to, unsigned width, bool has_low, unsigned columns) {
    for (unsigned c = 0; c < columns; ++c) {
        to[c] = 0;
        if (has_low) to[width + c] = 0;
    }
}

// What one item reads, and where.
template <int Windows, int Width>
struct Item {
    static constexpr int kRead = Windows % 2 ? 1 : Width / 2 > 1 ? 2 : 1;
    alignas(16) float upper[2 * Windows], lower[2 * Windows], grads[Windows];
    unsigned top, left;
    bool has_low, whole;

    __device__ void read_from(const float* x, const float* grad, unsigned item, const Shape& shape) {
        const unsigned row = item / shape.item_columns, plane = row / shape.item_rows;
        const unsigned column = 2 * Windows * (item - row * shape.item_columns);
        const unsigned top_row = 2 * (row - plane * shape.item_rows);
        top = (plane * shape.height + top_row) * shape.width + column;
        left = min(shape.width - column, 2u * Windows);
        has_low = top_row + 1 < shape.height;
        whole = has_low && left == 2 * Windows;
        if (!whole) return;
        load<Width>(upper, x + top);
        load<Width>(lower, x + top + shape.width);
        load<kRead>(grads, grad + (plane * (shape.height / 2) + top_row / 2) * (shape.width / 2) + column / 2);
    }
    __device__ void write_to(float* out, const Shape& shape) {
        if (!whole) return write_zeros(out + top, shape.width, has_low, left);
#pragma unroll
        for (int w = 0; w < Windows; ++w) {
            const int l = 2 * w, r = l + 1, place = place_of_maximum(upper[l], upper[r], lower[l], lower[r]);
            upper[l] = place == 0 ? grads[w] : 0.0f;
            upper[r] = place == 1 ? grads[w] : 0.0f;
            lower[l] = place == 2 ? grads[w] : 0.0f;
            lower[r] = place == 3 ? grads[w] : 0.0f;
        }
        store<Width>(out + top, upper);
        store<Width>(out + top + shape.width, lower);
    }
};

template <int Windows, int Width>
__global__ void __launch_bounds__(THREADS)
    spread(const float* __restrict__ x, const float* __restrict__ grad, float* __restrict__ out, Shape shape) {
    for (unsigned first = blockIdx.x * THREADS * STEPS + threadIdx.x; first < shape.items;
         first += gridDim.x * THREADS * STEPS) {
        Item<Windows, Width> items[STEPS];
#pragma unroll
        for (int s = 0; s < STEPS; ++s)
            if (first + s * THREADS < shape.items) items[s].read_from(x, grad, first + s * THREADS, shape);
#pragma unroll
        for (int s = 0; s < STEPS; ++s)
            if (first + s * THREADS < shape.items) items[s].write_to(out, shape);
    }
}

template <int Windows, int Width>
void launch_spread(const float* x, const float* grad, float* out, int planes, unsigned height, unsigned width,
                   cudaStream_t stream) {
    const unsigned item_rows = (height + 1) / 2, item_columns = (width + 2 * Windows - 1) / (2 * Windows);
    const Shape shape = {height, width, planes * item_rows * item_columns, item_rows, item_columns};
    const unsigned pieces = unsigned(parts_of(shape.items, THREADS * STEPS));
    const unsigned blocks = BLOCKS_PER_SM ? min(pieces, unsigned(BLOCKS_PER_SM * processors())) : pieces;
    spread<Windows, Width><<<blocks, THREADS, 0, stream>>>(x, grad, out, shape);
}

}  // namespace

extern "C" int64_t workspace_floats(int, int, int) { return 0; }

extern "C" int launch(const float* x, const float* grad, float* out, float*, int planes, int height, int width,
                      void* on) {
    const auto stream = static_cast<cudaStream_t>(on);
    constexpr int kWidth = 2 * WINDOWS % 4 ? 2 : 4;
    if (width % (2 * WINDOWS) == 0 && width % kWidth == 0)
        launch_spread<WINDOWS, kWidth>(x, grad, out, planes, height, width, stream);
    else if (width % 4 == 0) launch_spread<2, 4>(x, grad, out, planes, height, width, stream);
    else if (width % 2 == 0) launch_spread<1, 2>(x, grad, out, planes, height, width, stream);
    else launch_spread<1, 1>(x, grad, out, planes, height, width, stream);
    return cudaGetLastError();
}

// ---- torch --------------------------------------------------------------------------------------------------------

// @include torch.inc@
#include <tuple>

torch::Tensor backward(std::tuple<torch::Tensor> inputs, torch::Tensor grad_output) {
    const auto x = std::get<0>(inputs).contiguous(), grad = grad_output.contiguous();
    TORCH_CHECK(x.numel() < (int64_t(1) << 31), "more than 2^31 inputs");
    auto grad_x = torch::empty(x.sizes(), x.options());
    if (x.numel() == 0) return grad_x;
    check(launch(data(x), data(grad), room(grad_x), nullptr, int(x.size(0) * x.size(1)), int(x.size(2)),
                 int(x.size(3)), stream()));
    return grad_x;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
