// Layer norm over the last three axes: y = (x - mean) / sqrt(var + eps) * weight + bias.
//
// Bound by memory: a row of millions of floats is to be read once and written once, though its mean and variance are
// known only after the last element.
// Work:     one block per multiprocessor, all resident (cooperative launch). A row is cut into slices, one per block; a
//           slice stays in the registers of its block (64 floats in each of 512 threads) while the blocks exchange mean
//           and squared deviations of their slices across a barrier of the grid. Meanwhile weight and bias arrive in
//           shared memory by asynchronous copies: all of the weight, three quarters of the bias. A thread copies only
//           what it reads itself, so that no block barrier is needed. With several rows weight and bias stay there, and
//           the next row is on its way to L2 before the barrier. Statistics are exact for each slice (two passes over
//           registers) and merged in double.
// Dispatch: few long rows: all blocks share a row. More or shorter rows: groups of blocks take rows in turn. Rows whose
//           length is a multiple of 4 move as float4, others as float, because their starts are not aligned. Rows that
//           do not fit the registers of the device (4.3 million floats on 132 multiprocessors) are read twice, by two
//           kernels.
// Limits:   float32, contiguous; short rows (below some 2,000 floats) leave most threads idle.
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
    int rows, packs, slices, slice_packs;  // per row: packs, slices; slice_packs in each but the last
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

__device__ float block_sum(float v) {
    __shared__ float sums[kWarps];
    v = warp_sum(v);
    __syncthreads();  // the last call's readers are done
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
    __syncthreads();
    float total = 0;
    for (int i = 0; i < kWarps; ++i) total += sums[i];
    return total;
}

template <int bytes>
__device__ void copy_async(void* to, const void* from) {
    const unsigned address = unsigned(__cvta_generic_to_shared(to));
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

// Mean and sum of squared deviations from it.
template <typename Pack>
__device__ float2 slice_statistics(const Pack (&v)[kPacks<Pack>], const Slice<Pack>& slice) {
    float sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < kPacks<Pack>; ++i) sum += sum_of(v[i]);
    const float mean = block_sum(sum) / slice.floats();
#pragma unroll
    for (int i = 0; i < kPacks<Pack>; ++i)
        if (threadIdx.x + i * kThreads < slice.count) squares += squared_distance(v[i], mean);
    return {mean, block_sum(squares)};
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

template <typename Pack>
__global__ void __launch_bounds__(kThreads, 1) normalise_resident(const Pack* x, const Pack* weight, const Pack* bias,
                                                                  Pack* y, float2* statistics, Shape shape, float eps) {
    extern __shared__ float4 shared_bytes[];
    const auto shared = reinterpret_cast<Pack*>(shared_bytes);
    const int index = blockIdx.x % shape.slices, groups = gridDim.x / shape.slices;
    const int used = (shape.slice_packs + kThreads - 1) / kThreads;  // packs per thread
    const Slice<Pack> slice(shape, index);
    for (int round = 0; round * groups < shape.rows; ++round) {
        const int row = round * groups + blockIdx.x / shape.slices;
        const bool active = row < shape.rows;
        const int64_t begin = int64_t(row) * shape.packs + slice.begin;
        Pack v[kPacks<Pack>];
        if (active) {
            load_slice(v, x + begin, slice.count);
            if (round == 0) fetch_parameters(shared, weight + slice.begin, bias + slice.begin, slice.count, used);
            const float2 own = slice_statistics(v, slice);
            if (threadIdx.x == 0) statistics[row * shape.slices + index] = own;
            const int64_t next = begin + int64_t(groups) * shape.packs;
            if (threadIdx.x < 32 && row + groups < shape.rows) prefetch(x + next, slice.count);
        }
        cooperative_groups::this_grid().sync();
        if (!active) continue;
        const float2 all = merge_statistics<Pack>(statistics + row * shape.slices, shape, eps);
        wait_for_copies();
#pragma unroll
        for (int i = 0; i < kPacks<Pack>; ++i) {
            const int at = threadIdx.x + i * kThreads;
            if (at >= slice.count) break;
            const Pack b = i < kSharedBiasPacks<Pack> ? shared[used * kThreads + at] : bias[slice.begin + at];
            y[begin + at] = affine(v[i], all.x, all.y, shared[at], b);
        }
    }
}

template <typename Pack>
__global__ void __launch_bounds__(kThreads) find_statistics(const Pack* x, float2* statistics, Shape shape) {
    const Slice<Pack> slice(shape, blockIdx.x % shape.slices);
    Pack v[kPacks<Pack>];
    load_slice(v, x + int64_t(blockIdx.x / shape.slices) * shape.packs + slice.begin, slice.count);
    const float2 own = slice_statistics(v, slice);
    if (threadIdx.x == 0) statistics[blockIdx.x] = own;
}

template <typename Pack>
__global__ void __launch_bounds__(kThreads) normalise_again(const Pack* x, const Pack* weight, const Pack* bias,
                                                            Pack* y, const float2* statistics, Shape shape, float eps) {
    const int row = blockIdx.x / shape.slices;
    const Slice<Pack> slice(shape, blockIdx.x % shape.slices);
    const float2 all = merge_statistics<Pack>(statistics + int64_t(row) * shape.slices, shape, eps);
    const int64_t begin = int64_t(row) * shape.packs;
#pragma unroll 4
    for (int at = slice.begin + threadIdx.x; at < slice.begin + slice.count; at += kThreads)
        y[begin + at] = affine(x[begin + at], all.x, all.y, weight[at], bias[at]);
}

int multiprocessor_count() {
    int device, count;
    C10_CUDA_CHECK(cudaGetDevice(&device));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
    return count;
}

int ceil_div(int a, int b) { return (a + b - 1) / b; }

template <typename Pack>
void launch(const float* x_floats, const float* weight_floats, const float* bias_floats, float* y_floats, int rows,
            int64_t size, float eps, const torch::TensorOptions& options) {
    const int blocks = multiprocessor_count();
    const auto stream = c10::cuda::getCurrentCUDAStream();
    auto x = reinterpret_cast<const Pack*>(x_floats), weight = reinterpret_cast<const Pack*>(weight_floats);
    auto bias = reinterpret_cast<const Pack*>(bias_floats);
    auto y = reinterpret_cast<Pack*>(y_floats);
    const int packs = int(size / int64_t(sizeof(Pack) / sizeof(float))), capacity = kPacks<Pack> * kThreads;
    const bool resident = packs <= int64_t(blocks) * capacity;
    const int groups = resident ? std::min(rows, blocks / ceil_div(packs, capacity)) : 1;
    const int slice_packs =
        resident ? std::min(capacity, ceil_div(ceil_div(packs, blocks / groups), 32) * 32) : capacity;
    Shape shape{rows, packs, ceil_div(packs, slice_packs), slice_packs};
    auto workspace = torch::empty({int64_t(rows) * shape.slices * 2}, options);
    auto statistics = reinterpret_cast<float2*>(workspace.mutable_data_ptr<float>());
    if (!resident) {
        find_statistics<Pack><<<rows * shape.slices, kThreads, 0, stream>>>(x, statistics, shape);
        normalise_again<Pack><<<rows * shape.slices, kThreads, 0, stream>>>(x, weight, bias, y, statistics, shape, eps);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
        return;
    }
    const auto kernel = normalise_resident<Pack>;
    const int used = ceil_div(slice_packs, kThreads),
              shared_packs = (used + std::min(used, kSharedBiasPacks<Pack>)) * kThreads;
    const int shared_bytes = shared_packs * int(sizeof(Pack));
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes));
    void* arguments[] = {&x, &weight, &bias, &y, &statistics, &shape, &eps};
    C10_CUDA_CHECK(cudaLaunchCooperativeKernel(kernel, dim3(groups * shape.slices), dim3(kThreads), arguments,
                                               shared_bytes, stream));
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
