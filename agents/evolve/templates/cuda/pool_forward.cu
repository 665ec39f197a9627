// Max-pool with a window of 2 x 2 and a stride of 2: y[r][c] = the largest of four neighbours.
//
// Bound by memory: sixteen bytes in and four out per window, three comparisons.
// Work:   a thread takes WINDOWS neighbouring windows of a row in each of STEPS steps, THREADS items apart, and asks
//         for all it needs before it uses any of it. BLOCKS_PER_SM 0: a block per piece of work; else so many blocks
//         per processor walk over the pieces. Rows of all planes are numbered through.
// Limits: float32, contiguous, fewer than 2^31 inputs; an odd last row or column is dropped and a NaN wins, as in
//         PyTorch. Rows that WINDOWS does not divide fall back to one or two windows.
// @genes@
// @include prelude.inc@

namespace {

struct Shape {
    unsigned items, items_per_row, height, width;
    unsigned magic;  // for dividing by items_per_row; 0: divide
};

__device__ float larger(float a, float b) { return b > a || b != b ? b : a; }

// Item i is the i-th group of windows. Twice as many input rows lie above a result row, and one more for every plane
// passed if the height is odd.
__device__ unsigned first_input(unsigned item, const Shape& shape, unsigned windows) {
    const unsigned row = shape.magic ? __umulhi(item, shape.magic) : item / shape.items_per_row;
    const unsigned top = 2 * row + (shape.height % 2 ? row / (shape.height / 2) : 0);
    return top * shape.width + 2 * windows * (item - row * shape.items_per_row);
}

template <int Windows, int Width>
__global__ void __launch_bounds__(THREADS) pool(const float* __restrict__ x, float* __restrict__ y, Shape shape) {
    constexpr int Written = Windows % 2 ? 1 : Width / 2 > 1 ? 2 : 1;
    for (unsigned first = blockIdx.x * THREADS * STEPS + threadIdx.x; first < shape.items;
         first += gridDim.x * THREADS * STEPS) {
        alignas(16) float top[STEPS][2 * Windows], low[STEPS][2 * Windows];
#pragma unroll
        for (int s = 0; s < STEPS; ++s) {
            const float* from = x + first_input(min(first + s * THREADS, shape.items - 1), shape, Windows);
            load<Width>(top[s], from);
            load<Width>(low[s], from + shape.width);
        }
#pragma unroll
        for (int s = 0; s < STEPS; ++s) {
            alignas(16) float best[Windows];
#pragma unroll
            for (int w = 0; w < Windows; ++w)
                best[w] = larger(larger(larger(top[s][2 * w], top[s][2 * w + 1]), low[s][2 * w]), low[s][2 * w + 1]);
            const unsigned item = first + s * THREADS;
            if (item < shape.items) store<Written>(y + int64_t(item) * Windows, best);
        }
    }
}

// Division by multiplication is exact while dividend and divisor are small enough together.
unsigned magic_for(unsigned items, unsigned divisor) {
    const bool exact = divisor > 1 && uint64_t(items) * divisor < (uint64_t(1) << 32);
    return DIVIDE_BY_MULTIPLYING && exact ? unsigned(((uint64_t(1) << 32) + divisor - 1) / divisor) : 0;
}

template <int Windows, int Width>
void launch_pool(const float* x, float* y, int planes, int height, int width, cudaStream_t stream) {
    const unsigned per_row = width / 2 / Windows, items = unsigned(planes) * (height / 2) * per_row;
    const unsigned pieces = unsigned(parts_of(items, THREADS * STEPS));
    const unsigned blocks = BLOCKS_PER_SM ? min(pieces, unsigned(BLOCKS_PER_SM * processors())) : pieces;
    const Shape shape = {items, per_row, unsigned(height), unsigned(width), magic_for(items, per_row)};
    pool<Windows, Width><<<blocks, THREADS, 0, stream>>>(x, y, shape);
}

}  // namespace

extern "C" int64_t workspace_floats(int, int, int) { return 0; }

extern "C" int launch(const float* x, float* y, float*, int planes, int height, int width, void* on) {
    const auto stream = static_cast<cudaStream_t>(on);
    constexpr int kWidth = 2 * WINDOWS % 4 ? 2 : 4;
    if (width % (2 * WINDOWS) == 0 && width % kWidth == 0)
        launch_pool<WINDOWS, kWidth>(x, y, planes, height, width, stream);
    else if (width % 4 == 0) launch_pool<2, 4>(x, y, planes, height, width, stream);
    else if (width % 2 == 0) launch_pool<1, 2>(x, y, planes, height, width, stream);
    else launch_pool<1, 1>(x, y, planes, height, width, stream);
    return cudaGetLastError();
}

// ---- torch --------------------------------------------------------------------------------------------------------

// @include torch.inc@

torch::Tensor forward(torch::Tensor x) {
    x = x.contiguous();
    TORCH_CHECK(x.numel() < (int64_t(1) << 31), "more than 2^31 inputs");
    const int64_t height = x.size(2), width = x.size(3);
    auto y = torch::empty({x.size(0), x.size(1), height / 2, width / 2}, x.options());
    if (y.numel() > 0) check(launch(data(x), room(y), nullptr, int(x.size(0) * x.size(1)), height, width, stream()));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
