// Layer norm over the last three axes: y = (x - mean) / sqrt(var + eps) * weight + bias.
//
// Bound by memory: a row of millions of floats is to be read once and written once, though its mean and variance are
// known only after the last element.
// Work:     three ways, by the length and number of rows.
//           Short rows: a cluster of eight blocks per row, which keep it in registers and exchange their statistics
//           through distributed shared memory.
//           One long row: one block per multiprocessor, all resident (cooperative launch). A slice of the row stays in
//           the registers of its block (64 floats in each of 512 threads) while the blocks exchange statistics across a
//           barrier of the grid. Meanwhile all of the weight and three quarters of the bias arrive in shared memory by
//           asynchronous copies; a thread copies only what it reads itself, so that no block barrier is needed.
//           Several long rows: one kernel finds the statistics; the next, which starts early, normalises the same
//           columns of all rows, so that weight and bias are read once, and begins with rows that are still in L2.
// Why:      what is read once is loaded with the policy to be evicted first, which leaves L2 to results that need not
//           have reached memory when the kernel ends. Measured with scripts/kernel_lab.py on an H200, to be judged:
//           one row of 4.2 million floats 29.2 us (torch.compile 32.2), eight 119 (168), one of 65,536 7.8 (10.1).
// Numerics: statistics are exact for each slice (two passes over registers) and merged by Chan's formula, those of long
//           rows in double.
// Dispatch: rows whose length is a multiple of 4 move as float4, others as float, because their starts are not aligned.
//           A row that does not fit the registers of the device (4.3 million floats on 132 multiprocessors) goes the
//           way of several long rows.
// Limits:   float32, contiguous, compute capability 9.0 and above for clusters; rows below some 2,000 floats leave most
//           threads idle.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cooperative_groups.h>
#include <torch/extension.h>

namespace {

constexpr int kThreads = 512;
constexpr int kWarps = kThreads / 32;
template <typename Pack>
constexpr int kPacks = 64 * sizeof(float) / sizeof(Pack);  // per thread
template <typename Pack>
constexpr int kSharedBiasPacks = kPacks<Pack> * 3 / 4;

struct Shape {
    int packs, slices, slice_packs;  // of a row; slice_packs in each slice but the last
};

template <typename Pack>
struct Slice {
    int begin, count;  // packs of the row
    __device__ Slice(const Shape& s, int index)
        : begin(index * s.slice_packs), count(min(s.slice_packs, s.packs - begin)) {}
    __device__ float floats() const { return float(count) * (sizeof(Pack) / sizeof(float)); }
};

__device__ float sum_of(float v) { return v; }
__device__ float sum_of(float4 v) { return (v.x + v.y) + (v.z + v.w); }
__device__ float squared_distance(float v, float m) { return (v - m) * (v - m); }
__device__ float squared_distance(float4 v, float m) {
    return (squared_distance(v.x, m) + squared_distance(v.y, m)) +
           (squared_distance(v.z, m) + squared_distance(v.w, m));
}
__device__ float affine(float v, float mean, float rstd, float w, float b) { return (v - mean) * rstd * w + b; }
__device__ float4 affine(float4 v, float m, float r, float4 w, float4 b) {
    return {affine(v.x, m, r, w.x, b.x), affine(v.y, m, r, w.y, b.y), affine(v.z, m, r, w.z, b.z),
            affine(v.w, m, r, w.w, b.w)};
}

template <typename T>
__device__ T warp_sum(T v) {
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffff, v, offset);
    return v;
}

template <int bytes>
__device__ void copy_async(void* to, const void* from) {
    const unsigned address = unsigned(__cvta_generic_to_shared(to));
    if constexpr (bytes == 16) {
        uint64_t policy;
        asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
        asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                     "l"(policy)
                     : "memory");
    } else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(bytes) : "memory");
}

__device__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Asks L2 for a run of packs; called by one warp. Only for aligned rows.
__device__ void prefetch(const float*, int) {}
__device__ void prefetch(const float4* from, int packs) {
    constexpr int kChunk = 256;
    for (int at = threadIdx.x % 32 * kChunk; at < packs; at += 32 * kChunk) {
        const int bytes = min(kChunk, packs - at) * int(sizeof(float4));
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from + at), "r"(bytes) : "memory");
    }
}

template <typename Pack>
__device__ void load_slice(Pack (&v)[kPacks<Pack>], const Pack* from, int count) {
#pragma unroll
    for (int i = 0; i < kPacks<Pack>; ++i) {
        const int at = threadIdx.x + i * kThreads;
        v[i] = at < count ? __ldcs(from + at) : Pack{};
    }
}

struct Part {  // of a set of values
    float count, mean, squares;
};

__device__ Part merged(const Part& a, const Part& b) {
    const float count = a.count + b.count, share = count > 0 ? b.count / count : 0, gap = b.mean - a.mean;
    return {count, a.mean + gap * share, a.squares + b.squares + gap * gap * a.count * share};
}

__device__ Part warp_merge(Part p) {
    for (int offset = 16; offset > 0; offset /= 2)
        p = merged(p, {__shfl_xor_sync(0xffffffff, p.count, offset), __shfl_xor_sync(0xffffffff, p.mean, offset),
                       __shfl_xor_sync(0xffffffff, p.squares, offset)});
    return p;
}

// Of a block's packs: each thread's own first, then warps, then the block; every thread gets the result.
template <typename Pack, int kCount>
__device__ Part block_statistics(const Pack (&v)[kCount], int count) {
    constexpr int kFloats = sizeof(Pack) / sizeof(float);
    __shared__ Part parts[kWarps];
    const int own = count <= int(threadIdx.x) ? 0 : (count - int(threadIdx.x) + kThreads - 1) / kThreads;
    float sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i) sum += sum_of(v[i]);
    const float mean = own > 0 ? sum / float(own * kFloats) : 0;
#pragma unroll
    for (int i = 0; i < kCount; ++i)
        if (i < own) squares += squared_distance(v[i], mean);
    const Part part = warp_merge({float(own * kFloats), mean, squares});
    __syncthreads();  // the last call's readers are done
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = part;
    __syncthreads();
    return warp_merge(threadIdx.x % 32 < kWarps ? parts[threadIdx.x % 32] : Part{});
}

// Mean and reciprocal deviation of a row from the statistics of its slices; every warp does it for itself.
template <typename Pack>
__device__ float2 merge_statistics(const float2* slices, const Shape& shape, float eps) {
    double mean = 0, squares = 0;
    const double floats = double(shape.packs) * (sizeof(Pack) / sizeof(float));
    for (int i = threadIdx.x % 32; i < shape.slices; i += 32)
        mean += double(__ldcg(slices + i).x) * Slice<Pack>(shape, i).floats();
    mean = warp_sum(mean) / floats;
    for (int i = threadIdx.x % 32; i < shape.slices; i += 32) {
        const float2 s = __ldcg(slices + i);
        squares += s.y + Slice<Pack>(shape, i).floats() * (s.x - mean) * (s.x - mean);
    }
    return {float(mean), float(rsqrt(warp_sum(squares) / floats + eps))};
}

template <typename Pack>
__device__ void fetch_parameters(Pack* shared, const Pack* weight, const Pack* bias, int count, int used) {
    for (int i = 0; i < used; ++i) {
        const int at = threadIdx.x + i * kThreads;
        if (at < count) copy_async<sizeof(Pack)>(shared + at, weight + at);
    }
    for (int i = 0; i < min(used, kSharedBiasPacks<Pack>); ++i) {
        const int at = threadIdx.x + i * kThreads;
        if (at < count) copy_async<sizeof(Pack)>(shared + used * kThreads + at, bias + at);
    }
    constexpr int kShared = kSharedBiasPacks<Pack> * kThreads;
    if (threadIdx.x < 32 && count > kShared) prefetch(bias + kShared, count - kShared);
}

int ceil_div(int a, int b) { return (a + b - 1) / b; }

// ---- one long row: a slice per block --------------------------------------------------------------------------------

template <typename Pack>
__global__ void __launch_bounds__(kThreads, 1) normalise_resident(const Pack* x, const Pack* weight, const Pack* bias,
                                                                  Pack* y, float2* statistics, Shape shape, float eps) {
    extern __shared__ float4 shared_bytes[];
    const auto shared = reinterpret_cast<Pack*>(shared_bytes);
    const int used = (shape.slice_packs + kThreads - 1) / kThreads;  // packs per thread
    const Slice<Pack> slice(shape, blockIdx.x);
    Pack v[kPacks<Pack>];
    load_slice(v, x + slice.begin, slice.count);
    fetch_parameters(shared, weight + slice.begin, bias + slice.begin, slice.count, used);
    const Part own = block_statistics(v, slice.count);
    if (threadIdx.x == 0) statistics[blockIdx.x] = {own.mean, own.squares};
    cooperative_groups::this_grid().sync();
    const float2 all = merge_statistics<Pack>(statistics, shape, eps);
    wait_for_copies();
#pragma unroll
    for (int i = 0; i < kPacks<Pack>; ++i) {
        const int at = threadIdx.x + i * kThreads;
        if (at >= slice.count) break;
        const Pack b = i < kSharedBiasPacks<Pack> ? shared[used * kThreads + at] : bias[slice.begin + at];
        y[slice.begin + at] = affine(v[i], all.x, all.y, shared[at], b);
    }
}

template <typename Pack>
void launch_resident(const Pack* x, const Pack* weight, const Pack* bias, Pack* y, int packs, int blocks, float eps,
                     const torch::TensorOptions& options) {
    const int slice_packs = std::min(kPacks<Pack> * kThreads, ceil_div(ceil_div(packs, blocks), 32) * 32);
    Shape shape{packs, ceil_div(packs, slice_packs), slice_packs};
    auto workspace = torch::empty({int64_t(shape.slices) * 2}, options);
    auto statistics = reinterpret_cast<float2*>(workspace.mutable_data_ptr<float>());
    const int used = ceil_div(slice_packs, kThreads);
    const int shared_bytes = (used + std::min(used, kSharedBiasPacks<Pack>)) * kThreads * int(sizeof(Pack));
    const auto kernel = normalise_resident<Pack>;
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    void* arguments[] = {&x, &weight, &bias, &y, &statistics, &shape, &eps};
    C10_CUDA_CHECK(cudaLaunchCooperativeKernel(kernel, dim3(shape.slices), dim3(kThreads), arguments, shared_bytes,
                                               c10::cuda::getCurrentCUDAStream()));
}

// ---- short rows: a cluster for each ---------------------------------------------------------------------------------

constexpr int kCluster = 8;

// A cluster per row, each block a slice of kCount packs per thread.
template <typename Pack, int kCount>
__global__ void __launch_bounds__(kThreads)
    normalise_in_cluster(const Pack* x, const Pack* weight, const Pack* bias, Pack* y, int packs, float eps) {
    constexpr bool kEarly = kCount * sizeof(Pack) <= 64;
    constexpr int kFloats = sizeof(Pack) / sizeof(float);
    __shared__ Part shares[kCluster];
    const auto cluster = cooperative_groups::this_cluster();
    auto everybody_runs = cluster.barrier_arrive();  // before anybody writes into another's shared memory
    const int slice_packs = (packs + kCluster - 1) / kCluster, begin = (blockIdx.x % kCluster) * slice_packs;
    const int count = min(slice_packs, packs - begin);
    const int64_t row = int64_t(blockIdx.x / kCluster) * packs + begin;
    Pack v[kCount], w[kEarly ? kCount : 1], b[kEarly ? kCount : 1];
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        const int at = threadIdx.x + i * kThreads;
        v[i] = at < count ? __ldcs(x + row + at) : Pack{};
        if (kEarly) {
            w[i] = at < count ? weight[begin + at] : Pack{};
            b[i] = at < count ? bias[begin + at] : Pack{};
        }
    }
    const Part own = block_statistics(v, count);
    cluster.barrier_wait(std::move(everybody_runs));
    if (threadIdx.x < kCluster) *cluster.map_shared_rank(shares + blockIdx.x % kCluster, threadIdx.x) = own;
    cluster.sync();
    const Part all = warp_merge(threadIdx.x % 32 < kCluster ? shares[threadIdx.x % 32] : Part{});
    const float rstd = rsqrtf(all.squares / (float(packs) * kFloats) + eps);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        const int at = threadIdx.x + i * kThreads;
        if (at >= count) break;
        const Pack factor = kEarly ? w[i] : weight[begin + at], offset = kEarly ? b[i] : bias[begin + at];
        y[row + at] = affine(v[i], all.mean, rstd, factor, offset);
    }
}

template <typename Pack, int kCount>
void launch_clusters(const Pack* x, const Pack* weight, const Pack* bias, Pack* y, int rows, int packs, float eps) {
    const auto kernel = normalise_in_cluster<Pack, kCount>;
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {kCluster, 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = rows * kCluster;
    config.blockDim = kThreads;
    config.stream = c10::cuda::getCurrentCUDAStream();
    config.attrs = &cluster;
    config.numAttrs = 1;
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, x, weight, bias, y, packs, eps));
}

// ---- several long rows: statistics, then the same columns of all rows -----------------------------------------------

template <typename Pack>
constexpr int kStatisticsPacks = kPacks<Pack> / 2;

template <typename Pack>
__global__ void __launch_bounds__(kThreads) find_statistics(const Pack* x, float2* statistics, Shape shape, int rows) {
    cudaTriggerProgrammaticLaunchCompletion();
    const int row = blockIdx.x / shape.slices;
    const Slice<Pack> slice(shape, blockIdx.x % shape.slices);
    const Pack* from = x + int64_t(row) * shape.packs + slice.begin;
    Pack v[kStatisticsPacks<Pack>];
#pragma unroll
    for (int i = 0; i < kStatisticsPacks<Pack>; ++i) {
        const int at = threadIdx.x + i * kThreads;
        if (row >= rows - 2) v[i] = at < slice.count ? from[at] : Pack{};  // the next kernel begins with these
        else v[i] = at < slice.count ? __ldcs(from + at) : Pack{};
    }
    const Part own = block_statistics(v, slice.count);
    if (threadIdx.x == 0) statistics[blockIdx.x] = {own.mean, own.squares};
}

constexpr int kColumnThreads = 256, kColumnPacks = 2, kRowsAtOnce = 32;

template <typename Pack>
__global__ void __launch_bounds__(kColumnThreads)
    normalise_columns(const Pack* x, const Pack* weight, const Pack* bias, Pack* y, const float2* statistics,
                      Shape shape, int rows, float eps) {
    __shared__ float2 all[kRowsAtOnce];
    const int first = blockIdx.x * kColumnThreads * kColumnPacks + threadIdx.x;
    Pack w[kColumnPacks], b[kColumnPacks];
#pragma unroll
    for (int i = 0; i < kColumnPacks; ++i) {
        const int at = first + i * kColumnThreads;
        w[i] = at < shape.packs ? __ldcs(weight + at) : Pack{};
        b[i] = at < shape.packs ? __ldcs(bias + at) : Pack{};
    }
    cudaGridDependencySynchronize();
    for (int end = rows; end > 0; end -= kRowsAtOnce) {
        const int begin = max(0, end - kRowsAtOnce);
        __syncthreads();
        for (int row = begin + threadIdx.x / 32; row < end; row += kColumnThreads / 32) {
            const float2 found = merge_statistics<Pack>(statistics + int64_t(row) * shape.slices, shape, eps);
            if (threadIdx.x % 32 == 0) all[row - begin] = found;
        }
        __syncthreads();
#pragma unroll 2
        for (int row = end - 1; row >= begin; --row) {
            const Pack* from = x + int64_t(row) * shape.packs;
            Pack v[kColumnPacks];
#pragma unroll
            for (int i = 0; i < kColumnPacks; ++i) {
                const int at = first + i * kColumnThreads;
                v[i] = at < shape.packs ? __ldcs(from + at) : Pack{};
            }
            const float2 use = all[row - begin];
#pragma unroll
            for (int i = 0; i < kColumnPacks; ++i) {
                const int at = first + i * kColumnThreads;
                if (at < shape.packs) y[int64_t(row) * shape.packs + at] = affine(v[i], use.x, use.y, w[i], b[i]);
            }
        }
    }
}

template <typename Pack>
void launch_twice(const Pack* x, const Pack* weight, const Pack* bias, Pack* y, int rows, int packs, float eps,
                  const torch::TensorOptions& options) {
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const int slice_packs = kStatisticsPacks<Pack> * kThreads;
    const Shape shape{packs, ceil_div(packs, slice_packs), slice_packs};
    auto workspace = torch::empty({int64_t(rows) * shape.slices * 2}, options);
    const auto statistics = reinterpret_cast<float2*>(workspace.mutable_data_ptr<float>());
    find_statistics<Pack><<<rows * shape.slices, kThreads, 0, stream>>>(x, statistics, shape, rows);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = ceil_div(packs, kColumnThreads * kColumnPacks);
    config.blockDim = kColumnThreads;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, normalise_columns<Pack>, x, weight, bias, y,
                                      static_cast<const float2*>(statistics), shape, rows, eps));
}

int multiprocessor_count() {
    int device, count;
    C10_CUDA_CHECK(cudaGetDevice(&device));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
    return count;
}

template <typename Pack>
void launch(const float* x_floats, const float* weight_floats, const float* bias_floats, float* y_floats, int rows,
            int64_t size, float eps, const torch::TensorOptions& options) {
    const auto x = reinterpret_cast<const Pack*>(x_floats), weight = reinterpret_cast<const Pack*>(weight_floats);
    const auto bias = reinterpret_cast<const Pack*>(bias_floats);
    const auto y = reinterpret_cast<Pack*>(y_floats);
    constexpr int kFew = 64 / sizeof(Pack);
    const int packs = int(size / int64_t(sizeof(Pack) / sizeof(float))), blocks = multiprocessor_count();
    const int per_thread = ceil_div(ceil_div(packs, kCluster), kThreads);  // in a cluster
    const bool resident = packs <= int64_t(blocks) * kPacks<Pack> * kThreads;
    if (per_thread <= kFew) return launch_clusters<Pack, kFew>(x, weight, bias, y, rows, packs, eps);
    if (per_thread <= kPacks<Pack>) return launch_clusters<Pack, kPacks<Pack>>(x, weight, bias, y, rows, packs, eps);
    if (rows == 1 && resident) return launch_resident<Pack>(x, weight, bias, y, packs, blocks, eps, options);
    launch_twice<Pack>(x, weight, bias, y, rows, packs, eps, options);
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
    x = x.contiguous();
    weight = weight.contiguous();
    bias = bias.contiguous();
    auto y = torch::empty(x.sizes(), x.options());
    const int64_t size = weight.numel(), rows = x.numel() / size;
    const auto run = size % 4 == 0 ? launch<float4> : launch<float>;
    run(x.const_data_ptr<float>(), weight.const_data_ptr<float>(), bias.const_data_ptr<float>(),
        y.mutable_data_ptr<float>(), int(rows), size, float(eps), x.options());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
