//! t256s2cs -DTHREADS=256 -DSTEPS=2 -DLOADER=__ldcs
//! t256s1cs -DTHREADS=256 -DSTEPS=1 -DLOADER=__ldcs
//! t128s2cs -DTHREADS=128 -DSTEPS=2 -DLOADER=__ldcs
//! t128s1cs -DTHREADS=128 -DSTEPS=1 -DLOADER=__ldcs
//! t512s1cs -DTHREADS=512 -DSTEPS=1 -DLOADER=__ldcs
//! t256s4cs -DTHREADS=256 -DSTEPS=4 -DLOADER=__ldcs
//! t128s4cs -DTHREADS=128 -DSTEPS=4 -DLOADER=__ldcs
//! t256s1g -DTHREADS=256 -DSTEPS=1 -DLOADER=__ldg
//! t128s1g -DTHREADS=128 -DSTEPS=1 -DLOADER=__ldg
//! t512s2cs -DTHREADS=512 -DSTEPS=2 -DLOADER=__ldcs
// 64 x 64 planes of 28 x 28: 7.3 us, torch.compile 7.2; 128 planes of 12 x 12: 5.0, 5.4. Predicted: t128s1 7.0 (more blocks,
// a shorter tail), t512s1 7.3, s4 7.6, __ldg instead of __ldcs no difference.
// Max-pool with a window of 2 x 2 and a stride of 2: y[r][c] = the largest of four neighbours.
//
// Bound by memory: sixteen bytes in and four out per window, three comparisons. Eager also writes where each maximum
// was, as 64-bit numbers; nobody asks for that here.
// Work:     a thread takes neighbouring windows of one row: two float4, one from each input row, become a float2. Every
//           load of a warp is 512 contiguous bytes. A thread does this twice, a block's width apart, and asks for all
//           it needs before it uses any of it.
// Dispatch: two windows per step where rows keep 16-byte alignment (width a multiple of 4), else one window, in float2
//           for an even width and in single floats for an odd one. Rows of all planes are numbered through, so there
//           is no plane too small to fill a block.
// Limits:   float32, contiguous, fewer than 2^31 inputs; an odd last row or column is dropped and a NaN wins, as in
//           PyTorch.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

namespace {

constexpr int kThreads = THREADS, kSteps = STEPS;

template <int Count, int Bytes>
struct alignas(Bytes) Floats {
    float at[Count];
};

template <typename V>
__device__ V fetch(const float* from) {
    V v;
    if constexpr (alignof(V) == 16) {
        const float4 f = LOADER(reinterpret_cast<const float4*>(from));
        v = reinterpret_cast<const V&>(f);
    } else if constexpr (alignof(V) == 8) {
        const float2 f = LOADER(reinterpret_cast<const float2*>(from));
        v = reinterpret_cast<const V&>(f);
    } else {
        for (int i = 0; i < int(sizeof(V) / 4); ++i) v.at[i] = from[i];
    }
    return v;
}

__device__ float larger(float a, float b) { return b > a || b != b ? b : a; }

// Item i is the i-th group of `Windows` results. Twice as many input rows lie above a result row, and one more for
// every plane passed if the height is odd.
template <int Windows>
__device__ unsigned first_input(unsigned item, unsigned items_per_row, unsigned height, unsigned width) {
    const unsigned row = item / items_per_row, column = item - row * items_per_row;
    const unsigned top = 2 * row + (height % 2 ? row / (height / 2) : 0);
    return top * width + 2 * Windows * column;
}

template <int Windows, int Bytes>
__global__ void __launch_bounds__(kThreads)
    pool(const float* __restrict__ x, float* __restrict__ y, unsigned items, unsigned height, unsigned width) {
    using Inputs = Floats<2 * Windows, Bytes>;
    using Results = Floats<Windows, 4 * Windows>;
    const unsigned first = blockIdx.x * kThreads * kSteps + threadIdx.x, items_per_row = width / 2 / Windows;
    Inputs top[kSteps], low[kSteps];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
        const unsigned item = min(first + s * kThreads, items - 1);
        const float* from = x + first_input<Windows>(item, items_per_row, height, width);
        top[s] = fetch<Inputs>(from);
        low[s] = fetch<Inputs>(from + width);
    }
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
        Results best;
        for (int w = 0; w < Windows; ++w)
            best.at[w] = larger(larger(larger(top[s].at[2 * w], top[s].at[2 * w + 1]), low[s].at[2 * w]),
                                low[s].at[2 * w + 1]);
        if (first + s * kThreads < items) reinterpret_cast<Results*>(y)[first + s * kThreads] = best;
    }
}

template <int Windows, int Bytes>
void launch(const float* x, float* y, unsigned results, unsigned height, unsigned width) {
    const unsigned items = results / Windows, blocks = (items + kThreads * kSteps - 1) / (kThreads * kSteps);
    const auto stream = c10::cuda::getCurrentCUDAStream();
    pool<Windows, Bytes><<<blocks, kThreads, 0, stream>>>(x, y, items, height, width);
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
    if (width % 4 == 0) launch<2, 16>(from, to, y.numel(), height, width);
    else if (width % 2 == 0) launch<1, 8>(from, to, y.numel(), height, width);
    else launch<1, 4>(from, to, y.numel(), height, width);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
