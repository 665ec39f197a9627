// RMS norm to float8: n = x / sqrt(mean(x^2) + eps) * w, a = max |n| of each row, y = 448 n / a.
//
// Bound by memory: x is read once, y is written once; w stays in the caches.
// Work:     one block of 128 threads per row. The row stays in registers, as bfloat16, while its sum of squares and its
//           largest |x w| are found in one go: y = 448 x w / max |x w|, the root of the mean cancels out and is in a only.
// Dispatch: rows whose length is a multiple of 8 are read 16 bytes at a time and written 8 at a time, others one value at
//           a time, because their starts are not aligned. The number of packs per thread is a template argument, up to
//           32. Longer rows are read twice.
// Numerics: float32 throughout, rounded once at the end. A row of zeros stays one.
// Limits:   bfloat16, contiguous, compute capability 8.9 and later; a single row uses one block. Not measured yet.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

#include <utility>
#include <vector>

namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / 32;
constexpr float kLargest = 448;  // of e4m3

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

// Two values as float8, the first one in the lower half.
__device__ unsigned rounded(float low, float high) {
    unsigned short both;
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(high), "f"(low));
    return both;
}
__device__ uint2 narrowed(const float (&v)[8]) {
    return {rounded(v[0], v[1]) | rounded(v[2], v[3]) << 16, rounded(v[4], v[5]) | rounded(v[6], v[7]) << 16};
}
__device__ unsigned char narrowed(const float (&v)[1]) { return (unsigned char)(rounded(v[0], 0.0f)); }
template <typename Pack>
using Narrow = decltype(narrowed(std::declval<const float (&)[kWidth<Pack>]>()));

struct Found {
    float square_sum = 0, largest = 0;  // the largest |x w|

    __device__ void add(float sum, float most) { square_sum += sum, largest = fmaxf(largest, most); }
    template <typename Pack>
    __device__ void add_pack(Pack pack, Pack weights) {
        float v[kWidth<Pack>], w[kWidth<Pack>];
        widen(pack, v), widen(weights, w);
#pragma unroll
        for (int i = 0; i < kWidth<Pack>; ++i) add(v[i] * v[i], fabsf(v[i] * w[i]));
    }
};

template <typename Pack>
__device__ Narrow<Pack> scaled(Pack pack, float scale, Pack weights) {
    float v[kWidth<Pack>], w[kWidth<Pack>];
    widen(pack, v), widen(weights, w);
#pragma unroll
    for (int i = 0; i < kWidth<Pack>; ++i) v[i] = v[i] * w[i] * scale;
    return narrowed(v);
}

// What all threads of the block have found, in every thread. Called once per kernel: the buffer is not protected against
// reuse.
__device__ Found of_block(Found mine) {
    __shared__ float sums[kWarps], most[kWarps];
    for (int offset = 16; offset > 0; offset /= 2)
        mine.add(__shfl_xor_sync(0xffffffff, mine.square_sum, offset), __shfl_xor_sync(0xffffffff, mine.largest, offset));
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = mine.square_sum, most[threadIdx.x / 32] = mine.largest;
    __syncthreads();
    Found all;
    for (int i = 0; i < kWarps; ++i) all.add(sums[i], most[i]);
    return all;
}

// Writes the largest n of the row and returns what x w is multiplied by.
__device__ float quantised(const Found& all, int size, float eps, float* a) {
    if (threadIdx.x == 0) a[blockIdx.x] = all.largest * rsqrtf(all.square_sum / size + eps);
    return all.largest > 0 ? kLargest / all.largest : 0;
}

template <typename Pack, int kPacks>
__global__ void __launch_bounds__(kThreads)
    normalise_rows(const Pack* __restrict__ x, const Pack* __restrict__ w, Narrow<Pack>* __restrict__ y, float* __restrict__ a,
                   int size, float eps) {
    const int packs = size / kWidth<Pack>;
    const Pack* in = x + int64_t(blockIdx.x) * packs;
    Narrow<Pack>* out = y + int64_t(blockIdx.x) * packs;
    Pack row[kPacks];
    Found found;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
        const int at = threadIdx.x + i * kThreads;
        row[i] = at < packs ? in[at] : Pack{};
    }
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
        const int at = threadIdx.x + i * kThreads;
        if (at < packs) found.add_pack(row[i], w[at]);
    }
    const float scale = quantised(of_block(found), size, eps, a);
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
        const int at = threadIdx.x + i * kThreads;
        if (at < packs) out[at] = scaled(row[i], scale, w[at]);
    }
}

template <typename Pack>
__global__ void __launch_bounds__(kThreads)
    normalise_long_rows(const Pack* __restrict__ x, const Pack* __restrict__ w, Narrow<Pack>* __restrict__ y,
                        float* __restrict__ a, int size, float eps) {
    const int packs = size / kWidth<Pack>;
    const Pack* in = x + int64_t(blockIdx.x) * packs;
    Narrow<Pack>* out = y + int64_t(blockIdx.x) * packs;
    Found found;
#pragma unroll 8
    for (int at = threadIdx.x; at < packs; at += kThreads) found.add_pack(in[at], w[at]);
    const float scale = quantised(of_block(found), size, eps, a);
#pragma unroll 8
    for (int at = threadIdx.x; at < packs; at += kThreads) out[at] = scaled(in[at], scale, w[at]);
}

template <typename Pack>
void launch(const void* x, const void* w, void* y, float* a, int64_t rows, int size, float eps) {
    const int packs_per_thread = (size / kWidth<Pack> + kThreads - 1) / kThreads;
    const auto kernel = packs_per_thread <= 1    ? normalise_rows<Pack, 1>
                        : packs_per_thread <= 2  ? normalise_rows<Pack, 2>
                        : packs_per_thread <= 4  ? normalise_rows<Pack, 4>
                        : packs_per_thread <= 8  ? normalise_rows<Pack, 8>
                        : packs_per_thread <= 16 ? normalise_rows<Pack, 16>
                        : packs_per_thread <= 32 ? normalise_rows<Pack, 32>
                                                 : normalise_long_rows<Pack>;
    kernel<<<unsigned(rows), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        static_cast<const Pack*>(x), static_cast<const Pack*>(w), static_cast<Narrow<Pack>*>(y), a, size, eps);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

std::vector<torch::Tensor> forward(torch::Tensor x, torch::Tensor w, double eps) {
    x = x.contiguous(), w = w.contiguous();
    const int64_t size = w.numel(), rows = x.numel() / size;
    auto y = torch::empty(x.sizes(), x.options().dtype(torch::kFloat8_e4m3fn));
    auto a = torch::empty({rows}, x.options().dtype(torch::kFloat32));
    const void *from = x.const_data_ptr(), *weights = w.const_data_ptr();
    const bool aligned = (reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(weights)) % 16 == 0;
    const auto run = size % 8 == 0 && aligned ? launch<Vector> : launch<Single>;
    run(from, weights, y.mutable_data_ptr(), a.mutable_data_ptr<float>(), rows, int(size), float(eps));
    return {y, a};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
