// Max-pool with a window of 2 x 2 and a stride of 2: y[r][c] = the largest of four neighbours.
//
// Bound by memory: sixteen bytes in and four out per window, three comparisons. Eager also writes where each maximum
// was, as 64-bit numbers; nobody asks for that here.
// Work:     a thread takes neighbouring windows of one row: two float4, one from each input row, become a float2. Every
//           load of a warp is 512 contiguous bytes, and what is read once may be replaced first in the caches. The
//           row is found by a multiplication: a division by a number that the compiler does not know would stand
//           before the first load, some 60 cycles in a call of 5 us.
// Dispatch: two windows per thread where rows keep 16-byte alignment (width a multiple of 4), else one window, in
//           float2 for an even width and in single floats for an odd one. Rows of all planes are numbered through, so
//           there is no plane too small to fill a block.
// Why:      of 376 settings of the template on an H200 (docs/results/sweeps/easy) one step per thread, streaming loads
//           and no limit of blocks lead, all within the noise.
// Limits:   float32, contiguous, fewer than 2^31 inputs; an odd last row or column is dropped and a NaN wins, as in
//           PyTorch.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

namespace {

constexpr int kThreads = 256;

// Division by a number that the host knows, exact for dividends below 2^31.
struct Divisor {
    unsigned factor, shift = 0;
    explicit Divisor(unsigned by) {
        while (1u << shift < by) ++shift;
        factor = unsigned(((uint64_t(1) << (31 + shift)) + by - 1) / by);
    }
    __device__ unsigned divide(unsigned n) const { return unsigned(uint64_t(n) * factor >> 31 >> shift); }
};

__device__ float larger(float a, float b) { return b > a || b != b ? b : a; }

// The inputs of a thread in one row: one window or two.
struct Pair {
    float left, right;
    __device__ Pair(float2 v) : left(v.x), right(v.y) {}
    __device__ Pair(float left, float right) : left(left), right(right) {}
};
__device__ float pool_windows(Pair top, Pair low) {
    return larger(larger(larger(top.left, top.right), low.left), low.right);
}
__device__ float2 pool_windows(float4 top, float4 low) {
    return {pool_windows(Pair{top.x, top.y}, Pair{low.x, low.y}), pool_windows(Pair{top.z, top.w}, Pair{low.z, low.w})};
}

template <typename V>
__device__ V load(const float* from) {
    return __ldcs(reinterpret_cast<const V*>(from));
}
template <>
__device__ Pair load<Pair>(const float* from) {
    return {__ldcs(from), __ldcs(from + 1)};  // aligned to four bytes only
}

struct Shape {
    unsigned items, height, width;
    Divisor items_per_row, results_high;
};

// Item i is the i-th group of `Windows` results. Twice as many input rows lie above a result row, and one more for
// every plane passed if the height is odd.
template <typename Inputs, int Windows>
__global__ void __launch_bounds__(kThreads) pool(const float* __restrict__ x, float* __restrict__ y, const Shape p) {
    const unsigned item = blockIdx.x * kThreads + threadIdx.x;
    if (item >= p.items) return;
    const unsigned row = p.items_per_row.divide(item), column = item - row * (p.width / 2 / Windows);
    const unsigned above = 2 * row + (p.height % 2 ? p.results_high.divide(row) : 0);
    const float* from = x + above * p.width + 2 * Windows * column;
    const auto top = load<Inputs>(from), low = load<Inputs>(from + p.width);
    auto best = pool_windows(top, low);
    reinterpret_cast<decltype(best)*>(y)[item] = best;
}

template <typename Inputs, int Windows>
void launch(const float* x, float* y, unsigned results, unsigned height, unsigned width) {
    const unsigned items = results / Windows, blocks = (items + kThreads - 1) / kThreads;
    const Shape shape{items, height, width, Divisor(width / 2 / Windows), Divisor(height / 2)};
    pool<Inputs, Windows><<<blocks, kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(x, y, shape);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

torch::Tensor forward(torch::Tensor x) {
    x = x.contiguous();
    TORCH_CHECK(x.numel() < (int64_t(1) << 31), "more than 2^31 inputs");
    const int64_t height = x.size(2), width = x.size(3);
    auto y = torch::empty({x.size(0), x.size(1), height / 2, width / 2}, x.options());
    if (y.numel() == 0) return y;
    const float* from = x.const_data_ptr<float>();
    float* to = y.mutable_data_ptr<float>();
    if (width % 4 == 0) launch<float4, 2>(from, to, y.numel(), height, width);
    else if (width % 2 == 0) launch<float2, 1>(from, to, y.numel(), height, width);
    else launch<Pair, 1>(from, to, y.numel(), height, width);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
