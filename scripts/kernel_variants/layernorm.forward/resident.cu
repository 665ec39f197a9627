//! resident
//! copies -DBULK=0
//! grid -DSLOTS=0
//! ordinary -DCOOPERATIVE=0
//! t256 -DTHREADS=256
//! stcs -DTHREADS=256 -DSTREAMING=1
//! ahead -DTHREADS=256 -DAHEAD=4
//! all -DTHREADS=256 -DAHEAD=4 -DSTREAMING=1
// Layer norm over long rows, each read once, in one launch. Variants for scripts/kernel_lab.py, not yet run.
//
// Before:   one row of 4.2 million floats 28.1 us, of which 67 MB are 16 at 4.2 TB/s; eight rows 118.2, read twice.
// Now:      one block per multiprocessor has the same slice of every row: 64 floats in each of 512 threads. Its weights
//           and three quarters of its bias stay in shared memory, the last quarter in registers. As soon as a value is
//           written, that of the next row is asked for into its register; L2 was asked for that slice before, in bulk,
//           so that memory has something to do while statistics are exchanged.
//           Weight and bias come as bulk copies in eight groups, each with a barrier of its own, and what has arrived
//           is used: before, nothing was written until all was there, and a quarter of the bias was read from L2 one
//           load behind another. Bulk copies do not pass through the queue of loads either, in which the statistics
//           of the others may have had to wait behind 28 copies per thread.
//           Statistics are exchanged without a counter: a block writes mean and sum of squares into a slot, each word
//           with a tag, and reads all slots until they have that tag. Nobody resets slots: a block counts on from the
//           tag that it left there. This takes one write and one read through L2.
// Tags:     copies: asynchronous copies by threads, in the same groups. grid: the barrier of cooperative groups, not
//           slots. ordinary: no cooperative launch, to see what one costs; not to be shipped, as two launches at
//           once might wait for each other. t256: 256 threads with 128 floats each. stcs: 256 too, results are to be
//           evicted first. ahead: 256 that load a quarter of the next row before the exchange. all: the last three.
// Predicted: for one row and eight: resident 24 and 80 (launch 3.5, first data 1, 50 MB 13, dirty lines of others 5,
//           last writes 1; then 8.5 a row, 8 of them for memory), copies 26 and 81, grid 24.5 and 90, ordinary 23
//           and 79, t256 24.5 and 80, stcs 24.5 and 79, ahead 24.5 and 78, all 24 and 77.
// Numerics: statistics are exact for each slice (two passes over registers) and merged by Chan's formula within a
//           block, those of the slices in double as sums about the first one's mean.
// Dispatch: rows whose length is a multiple of 4 move as float4, others as float, because their starts are not aligned;
//           these fit up to 3.2 million floats on 132 multiprocessors, the former 4.3.
//           Several rows take this way if they fill half of that: an exchange costs as much as reading 2 million floats
//           again. Others as shipped: clusters for short rows, two kernels for the rest.
// Limits:   float32, contiguous, compute capability 9.0 and above; at most 256 multiprocessors are used. Cooperative
//           launches that fill the device do not overlap, save that one may begin while the last one's blocks are
//           writing, all of which have then published what they had to: tags stay in step.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cooperative_groups.h>
#include <cuda_pipeline.h>
#include <torch/extension.h>

#ifndef BULK
#define BULK 1
#endif
#ifndef SLOTS
#define SLOTS 1
#endif
#ifndef COOPERATIVE
#define COOPERATIVE 1
#endif
#ifndef THREADS
#define THREADS 512
#endif
#ifndef AHEAD
#define AHEAD 0
#endif
#ifndef STREAMING
#define STREAMING 0
#endif

namespace {

constexpr int kThreads = 512;
template <typename Pack>
constexpr int kPacks = 64 * sizeof(float) / sizeof(Pack);  // per thread

struct Shape {
    int packs, slices, slice_packs;  // of a row; slice_packs in each slice but the last ones
};

template <typename Pack>
struct Slice {
    int begin, count;  // packs of the row
    __device__ Slice(const Shape& s, int index)
        : begin(index * s.slice_packs), count(max(0, min(s.slice_packs, s.packs - begin))) {}
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
template <int kBlock, typename Pack, int kCount>
__device__ Part block_statistics(const Pack (&v)[kCount], int count) {
    constexpr int kFloats = sizeof(Pack) / sizeof(float);
    __shared__ Part parts[kBlock / 32];
    const int own = count <= int(threadIdx.x) ? 0 : (count - int(threadIdx.x) + kBlock - 1) / kBlock;
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
    return warp_merge(threadIdx.x % 32 < kBlock / 32 ? parts[threadIdx.x % 32] : Part{});
}

// Mean and reciprocal deviation of a row from the statistics of its slices; every warp does it for itself. Sums are
// about the first slice's mean: what cancels is at most as many times the rest as there are slices, nothing in double.
template <typename Pack>
__device__ float2 merge_statistics(const float2* slices, const Shape& shape, float eps) {
    const double floats = double(shape.packs) * (sizeof(Pack) / sizeof(float)), first = slices[0].x;
    double gaps = 0, squares = 0;
    for (int i = threadIdx.x % 32; i < shape.slices; i += 32) {
        const double gap = slices[i].x - first, weighted = gap * Slice<Pack>(shape, i).floats();
        gaps += weighted;
        squares += slices[i].y + weighted * gap;
    }
    for (int offset = 16; offset > 0; offset /= 2) {
        gaps += __shfl_xor_sync(0xffffffff, gaps, offset);
        squares += __shfl_xor_sync(0xffffffff, squares, offset);
    }
    const double gap = gaps / floats;
    return {float(first + gap), rsqrtf(float(squares / floats - gap * gap) + eps)};
}

int ceil_div(int a, int b) { return (a + b - 1) / b; }

// ---- long rows: a slice of every row per block ----------------------------------------------------------------------

constexpr int kBlock = THREADS, kMaxBlocks = 256, kGroups = 8;
template <typename Pack>
constexpr int kSlicePacks = sizeof(Pack) == 16 ? 8192 : 24576;  // single floats leave fewer registers
template <typename Pack>
constexpr int kHeld = kSlicePacks<Pack> / kBlock;  // packs per thread
template <typename Pack>
constexpr int kGroup = kHeld<Pack> / kGroups;  // packs per thread and group of copies
template <typename Pack>
constexpr int kSharedBias = sizeof(Pack) == 16 ? kHeld<Pack> * 3 / 4 : kHeld<Pack>;
template <typename Pack>
constexpr int kBiasEnd = kHeld<Pack> - kSharedBias<Pack>;  // kept in registers
template <typename Pack>
constexpr int kAhead = sizeof(Pack) == 16 ? AHEAD * kHeld<Pack> / 16 : 0;

// What a block has in shared memory.
template <typename Pack>
struct Parameters {
    Pack *weight, *bias;
    uint64_t* arrived;  // a barrier per group
};

__device__ unsigned shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }

__device__ uint64_t evicted_first() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

// Asks L2 for a run of packs; called by one warp. Only for aligned rows.
__device__ void prefetch(const float*, int) {}
__device__ void prefetch(const float4* from, int packs) {
    constexpr int kChunk = 256;
    for (int at = threadIdx.x % 32 * kChunk; at < packs; at += 32 * kChunk) {
        const int bytes = min(kChunk, packs - at) * int(sizeof(float4));
        asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from + at), "r"(bytes) : "memory");
    }
}

__device__ void copy_bulk(float4* to, const float4* from, int packs, const uint64_t* barrier) {
    if (packs <= 0) return;
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint"
        " [%0], [%1], %2, [%3], %4;" ::"r"(shared_address(to)),
        "l"(from), "r"(packs * int(sizeof(float4))), "r"(shared_address(barrier)), "l"(evicted_first())
        : "memory");
}

// Bulk copies, group by group, by one thread; everybody else may wait after the next barrier of the block.
__device__ void fetch_in_bulk(const Parameters<float4>& to, const float4* weight, const float4* bias, int count) {
    constexpr int kPacksOfGroup = kGroup<float4> * kBlock, kBiasPacks = kSharedBias<float4> * kBlock;
    for (int g = 0; g < kGroups; ++g)
        asm volatile("mbarrier.init.shared.b64 [%0], 1;" ::"r"(shared_address(to.arrived + g)) : "memory");
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    for (int g = 0; g < kGroups; ++g) {
        const int at = g * kPacksOfGroup, packs = max(0, min(kPacksOfGroup, count - at));
        const int bias_packs = at < kBiasPacks ? packs : 0;
        asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(to.arrived + g)),
                     "r"((packs + bias_packs) * int(sizeof(float4)))
                     : "memory");
        copy_bulk(to.weight + at, weight + at, packs, to.arrived + g);
        copy_bulk(to.bias + at, bias + at, bias_packs, to.arrived + g);
    }
}

template <typename Pack>
__device__ void copy_async(Pack* to, const Pack* from) {
    const unsigned address = shared_address(to);
    if constexpr (sizeof(Pack) == 16)
        asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(address), "l"(from),
                     "l"(evicted_first())
                     : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(address), "l"(from), "n"(sizeof(Pack))
                     : "memory");
}

// Each thread copies what it will read itself.
template <typename Pack>
__device__ void fetch_by_threads(const Parameters<Pack>& to, const Pack* weight, const Pack* bias, int count) {
#pragma unroll
    for (int i = 0; i < kHeld<Pack>; ++i) {
        const int at = threadIdx.x + i * kBlock;
        if (at < count) {
            copy_async(to.weight + at, weight + at);
            if (i < kSharedBias<Pack>) copy_async(to.bias + at, bias + at);
        }
        if (i % kGroup<Pack> == kGroup<Pack> - 1) __pipeline_commit();
    }
}

template <typename Pack>
constexpr bool kInBulk = BULK && sizeof(Pack) == 16;

template <typename Pack>
__device__ void fetch_parameters(const Parameters<Pack>& to, const Pack* weight, const Pack* bias, int count) {
    if constexpr (!kInBulk<Pack>) fetch_by_threads(to, weight, bias, count);
    else if (threadIdx.x == 0) fetch_in_bulk(to, weight, bias, count);
}

template <typename Pack>
__device__ void wait_for_group(const Parameters<Pack>& parameters, int group) {
    if constexpr (!kInBulk<Pack>) return __pipeline_wait_prior(kGroups - 1 - group);
    unsigned done = 0;
    while (!done)
        asm volatile("{ .reg .pred p; mbarrier.try_wait.parity.shared.b64 p, [%1], 0; selp.u32 %0, 1, 0, p; }"
                     : "=r"(done)
                     : "r"(shared_address(parameters.arrived + group))
                     : "memory");
}

#if SLOTS
// A block's mean and sum of squares, each below the tag of its exchange: who sees the tag has the value.
__device__ ulonglong2 slots[2][kMaxBlocks];

__device__ ulonglong2 peek(const ulonglong2* slot) {
    ulonglong2 seen;
    asm volatile("ld.relaxed.gpu.global.v2.u64 {%0, %1}, [%2];" : "=l"(seen.x), "=l"(seen.y) : "l"(slot) : "memory");
    return seen;
}

__device__ void publish(ulonglong2* slot, const Part& part, unsigned tag) {
    const uint64_t above = uint64_t(tag) << 32;
    asm volatile("st.relaxed.gpu.global.v2.u64 [%0], {%1, %2};" ::"l"(slot), "l"(above | __float_as_uint(part.mean)),
                 "l"(above | __float_as_uint(part.squares))
                 : "memory");
}

__device__ float2 awaited(const ulonglong2* slot, unsigned tag) {
    ulonglong2 seen;
    do seen = peek(slot);
    while (unsigned(seen.x >> 32) != tag || unsigned(seen.y >> 32) != tag);
    return {__uint_as_float(unsigned(seen.x)), __uint_as_float(unsigned(seen.y))};
}

// Of the last launch. All blocks count in step: each launch has as many, and each takes part in all exchanges.
__device__ unsigned last_tag() {
    const unsigned even = peek(slots[0] + blockIdx.x).x >> 32, odd = peek(slots[1] + blockIdx.x).x >> 32;
    return int(odd - even) > 0 ? odd : even;
}

// Two sets of slots suffice: nobody writes a set again before everybody has seen, and so written, the other.
template <typename Pack>
__device__ float2 exchange(const Part& own, unsigned tag, const Shape& shape, float eps) {
    __shared__ float2 found[kMaxBlocks];
    ulonglong2* const set = slots[tag % 2];
    if (threadIdx.x == 0) publish(set + blockIdx.x, own, tag);
    if (threadIdx.x < gridDim.x) found[threadIdx.x] = awaited(set + threadIdx.x, tag);
    __syncthreads();
    return merge_statistics<Pack>(found, shape, eps);
}
#else
__device__ float2 statistics[2][kMaxBlocks];

__device__ unsigned last_tag() { return 0; }

template <typename Pack>
__device__ float2 exchange(const Part& own, unsigned tag, const Shape& shape, float eps) {
    if (threadIdx.x == 0) statistics[tag % 2][blockIdx.x] = {own.mean, own.squares};
    cooperative_groups::this_grid().sync();
    return merge_statistics<Pack>(statistics[tag % 2], shape, eps);
}
#endif

template <typename Pack>
__device__ void write(Pack* to, Pack value) {
    if (STREAMING) __stcs(to, value);
    else *to = value;
}

template <typename Pack, int kCount>
__device__ void load_first(Pack (&v)[kCount], const Pack* from, int count) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
        const int at = threadIdx.x + i * kBlock;
        v[i] = at < count ? __ldcs(from + at) : Pack{};
    }
}

template <typename Pack>
__global__ void __launch_bounds__(kBlock, 1) normalise_resident(const Pack* x, const Pack* weight, const Pack* bias,
                                                                Pack* y, Shape shape, int rows, float eps) {
    constexpr int kHere = kHeld<Pack>, kShared = kSharedBias<Pack>;
    extern __shared__ float4 shared_bytes[];
    __shared__ uint64_t arrived[kGroups];
    const auto weight_here = reinterpret_cast<Pack*>(shared_bytes);
    const int used = (shape.slice_packs + kBlock - 1) / kBlock;  // packs per thread
    const Parameters<Pack> parameters{weight_here, weight_here + used * kBlock, arrived};
    const Slice<Pack> slice(shape, blockIdx.x);
    Pack v[kHere], bias_end[std::max(kBiasEnd<Pack>, 1)], ahead[std::max(kAhead<Pack>, 1)];
    load_first(v, x + slice.begin, slice.count);
    fetch_parameters(parameters, weight + slice.begin, bias + slice.begin, slice.count);
    load_first(bias_end, bias + slice.begin + kShared * kBlock, slice.count - kShared * kBlock);
    unsigned tag = last_tag();
    for (int row = 0; row < rows; ++row) {
        const int64_t begin = int64_t(row) * shape.packs + slice.begin;
        const Pack* next = x + begin + shape.packs;
        const bool more = row + 1 < rows;
        if (more && threadIdx.x < 32) prefetch(next, slice.count);
        const Part own = block_statistics<kBlock>(v, slice.count);
        if (kAhead<Pack> > 0 && more) load_first(ahead, next, slice.count);
        const float2 all = exchange<Pack>(own, ++tag, shape, eps);
#pragma unroll
        for (int i = 0; i < kHere; ++i) {
            const int at = threadIdx.x + i * kBlock;
            if (i % kGroup<Pack> == 0) wait_for_group(parameters, i / kGroup<Pack>);
            if (at < slice.count) {
                const Pack b = i < kShared ? parameters.bias[at] : bias_end[max(0, i - kShared)];
                write(y + begin + at, affine(v[i], all.x, all.y, parameters.weight[at], b));
                if (more) v[i] = i < kAhead<Pack> ? ahead[i] : __ldcs(next + at);
            }
        }
    }
}

int most_blocks() {
    int device, count;
    C10_CUDA_CHECK(cudaGetDevice(&device));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
    return std::min(count, kMaxBlocks);
}

template <typename Pack>
void launch_resident(const Pack* x, const Pack* weight, const Pack* bias, Pack* y, int rows, int packs, int blocks,
                     float eps) {
    const Shape shape{packs, blocks, std::min(kSlicePacks<Pack>, ceil_div(ceil_div(packs, blocks), 32) * 32)};
    const int used = ceil_div(shape.slice_packs, kBlock);
    const int shared_bytes = (used + std::min(used, kSharedBias<Pack>)) * kBlock * int(sizeof(Pack));
    const auto kernel = normalise_resident<Pack>;
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    cudaLaunchAttribute together = {};
    together.id = cudaLaunchAttributeCooperative;
    together.val.cooperative = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = kBlock;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = c10::cuda::getCurrentCUDAStream();
    config.attrs = &together;
    config.numAttrs = COOPERATIVE;
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, x, weight, bias, y, shape, rows, eps));
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
    const Part own = block_statistics<kThreads>(v, count);
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

// ---- other long rows: statistics, then the same columns of all rows -----------------------------------------------

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
    const Part own = block_statistics<kThreads>(v, slice.count);
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

template <typename Pack>
void launch(const float* x_floats, const float* weight_floats, const float* bias_floats, float* y_floats, int rows,
            int64_t size, float eps, const torch::TensorOptions& options) {
    const auto x = reinterpret_cast<const Pack*>(x_floats), weight = reinterpret_cast<const Pack*>(weight_floats);
    const auto bias = reinterpret_cast<const Pack*>(bias_floats);
    const auto y = reinterpret_cast<Pack*>(y_floats);
    constexpr int kFew = 64 / sizeof(Pack);
    const int packs = int(size / int64_t(sizeof(Pack) / sizeof(float))), blocks = most_blocks();
    const int per_thread = ceil_div(ceil_div(packs, kCluster), kThreads);  // in a cluster
    const int64_t room = int64_t(blocks) * kSlicePacks<Pack>;
    const bool resident = packs <= room && packs >= (rows == 1 ? 0 : room / 2);
    if (per_thread <= kFew) return launch_clusters<Pack, kFew>(x, weight, bias, y, rows, packs, eps);
    if (per_thread <= kPacks<Pack>) return launch_clusters<Pack, kPacks<Pack>>(x, weight, bias, y, rows, packs, eps);
    if (resident) return launch_resident<Pack>(x, weight, bias, y, rows, packs, blocks, eps);
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
