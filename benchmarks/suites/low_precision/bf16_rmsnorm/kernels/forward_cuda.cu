// RMS norm over the last axis in bfloat16: y = x / sqrt(mean(x^2) + eps) * w.
//
// Bound by memory: x is read once, y is written once; w stays in the caches.
// Work:     one block of 128 threads per row. The row stays in registers, as bfloat16, between the sum of squares and the
//           scaling. All loads of a thread are issued before the first is used.
// Dispatch: rows whose length is a multiple of 8 move 16 bytes at a time, others one value at a time, because their
//           starts are not aligned. The number of packs per thread is a template argument, up to 32. Longer rows are
//           read twice.
// Numerics: float32 throughout, rounded once at the end.
// Limits:   bfloat16, contiguous; many rows are needed to fill the device, a single row uses one block. Not measured yet.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_bf16.h>
#include <torch/extension.h>

namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;

// Eight values or one, as they lie in memory.
using Vector = uint4;
using Single = unsigned short;
template <typename Pack>
constexpr int kWidth = int(sizeof(Pack) / 2);

__device__ void widen(Vector v, float (&to)[8]) {
    const unsigned words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        to[2 * i] = __uint_as_float(words[i] << 16);
        to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
}
__device__ void widen(Single v, float (&to)[1]) { to[0] = __uint_as_float(unsigned(v) << 16); }

__device__ unsigned rounded(float low, float high) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const unsigned&>(both);
}
__device__ Vector narrowed(const float (&v)[8]) {
    return {rounded(v[0], v[1]), rounded(v[2], v[3]), rounded(v[4], v[5]), rounded(v[6], v[7])};
}
__device__ Single narrowed(const float (&v)[1]) { return Single(rounded(v[0], 0.0f)); }

template <typename Pack>
__device__ float square_sum(Pack pack) {
    float v[kWidth<Pack>], sum = 0;
    widen(pack, v);
#pragma unroll
    for (int i = 0; i < kWidth<Pack>; ++i) sum += v[i] * v[i];
    return sum;
}

template <typename Pack>
__device__ Pack scaled(Pack pack, float scale, Pack weights) {
    float v[kWidth<Pack>], w[kWidth<Pack>];
    widen(pack, v), widen(weights, w);
#pragma unroll
    for (int i = 0; i < kWidth<Pack>; ++i) v[i] *= scale * w[i];
    return narrowed(v);
}

// The sum of v over the block, in every thread. Called once per kernel: the buffer is not protected against reuse.
__device__ float block_sum(float v) {
    __shared__ float sums[kWarps];
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffff, v, offset);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
    __syncthreads();
    float total = 0;
    for (int i = 0; i < kWarps; ++i) total += sums[i];
    return total;
}

template <typename Pack, int kPacks>
__global__ void __launch_bounds__(kThreads)
    normalise_rows(const Pack* __restrict__ x, const Pack* __restrict__ w, Pack* __restrict__ y, int size, float eps) {
    const int packs = size / kWidth<Pack>;
    const Pack* in = x + int64_t(blockIdx.x) * packs;
    Pack* out = y + int64_t(blockIdx.x) * packs;
    Pack row[kPacks];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
        const int at = threadIdx.x + i * kThreads;
        row[i] = at < packs ? in[at] : Pack{};
    }
#pragma unroll
    for (int i = 0; i < kPacks; ++i) sum += square_sum(row[i]);
    const float scale = rsqrtf(block_sum(sum) / size + eps);
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
        const int at = threadIdx.x + i * kThreads;
        if (at < packs) out[at] = scaled(row[i], scale, w[at]);
    }
}

template <typename Pack>
__global__ void __launch_bounds__(kThreads)
    normalise_long_rows(const Pack* __restrict__ x, const Pack* __restrict__ w, Pack* __restrict__ y, int size,
                        float eps) {
    const int packs = size / kWidth<Pack>;
    const Pack* in = x + int64_t(blockIdx.x) * packs;
    Pack* out = y + int64_t(blockIdx.x) * packs;
    float sum = 0;
#pragma unroll 8
    for (int at = threadIdx.x; at < packs; at += kThreads) sum += square_sum(in[at]);
    const float scale = rsqrtf(block_sum(sum) / size + eps);
#pragma unroll 8
    for (int at = threadIdx.x; at < packs; at += kThreads) out[at] = scaled(in[at], scale, w[at]);
}

template <typename Pack>
void launch(const void* x, const void* w, void* y, int64_t rows, int size, float eps) {
    const int packs_per_thread = (size / kWidth<Pack> + kThreads - 1) / kThreads;
    const auto kernel = packs_per_thread <= 1    ? normalise_rows<Pack, 1>
                        : packs_per_thread <= 2  ? normalise_rows<Pack, 2>
                        : packs_per_thread <= 4  ? normalise_rows<Pack, 4>
                        : packs_per_thread <= 8  ? normalise_rows<Pack, 8>
                        : packs_per_thread <= 16 ? normalise_rows<Pack, 16>
                        : packs_per_thread <= 32 ? normalise_rows<Pack, 32>
                                                 : normalise_long_rows<Pack>;
    kernel<<<unsigned(rows), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        static_cast<const Pack*>(x), static_cast<const Pack*>(w), static_cast<Pack*>(y), size, eps);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor w, double eps) {
    x = x.contiguous(), w = w.contiguous();
    auto y = torch::empty(x.sizes(), x.options());
    const int64_t size = w.numel(), rows = x.numel() / size;
    const void *from = x.const_data_ptr(), *weights = w.const_data_ptr();
    const bool aligned = (reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(weights)) % 16 == 0;
    const auto run = size % 8 == 0 && aligned ? launch<Vector> : launch<Single>;
    run(from, weights, y.mutable_data_ptr(), rows, int(size), float(eps));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
