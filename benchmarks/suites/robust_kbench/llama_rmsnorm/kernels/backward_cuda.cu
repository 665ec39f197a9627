// Backward of RMS norm over the last axis. With h = gy * w, n = x * rstd:  gx = rstd * (h - n * mean(h * n)), gw =
// sum of gy * n over the rows.
//
// Bound by memory: x and gy are read once, gx is written once.
// Work:     two blocks per multiprocessor walk over the rows. A thread owns the same columns in every row, so that w
//           and its part of gw stay in registers. While a row is reduced and written, the loads of the next one are
//           under way. Both sums of a row need one barrier: warps leave their sums in one of two buffers, used in
//           turn. Each block leaves its part of gw in a workspace; a second kernel adds the parts in a fixed order,
//           so the result is the same from run to run. A single block writes gw itself. L2 is to evict last what is
//           read, which presumably lets written lines reach memory earlier and in longer runs.
// Measured: scripts/kernel_lab.py, H200: 16,384 rows of 4,096 199 us, 65,536 rows 769 (with loads that are evicted
//           first 225 and 874; eager 1,698 and 6,568).
// Dispatch: rows whose length is a multiple of 4 move as float4, others as float, because their starts are not
//           aligned. Blocks have 256 threads, or more where a row would need too many registers per thread. Rows of
//           more than 8192 floats (4096 where the length is not a multiple of 4) are read twice and keep their part
//           of gw in memory.
// Limits:   float32, contiguous; many rows are needed to fill the device, a single row uses one block.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

namespace {

__device__ float2 operator+(float2 a, float2 b) { return {a.x + b.x, a.y + b.y}; }

__device__ float elementwise(float a, float b, auto f) { return f(a, b); }
__device__ float4 elementwise(float4 a, float4 b, auto f) {
    return {f(a.x, b.x), f(a.y, b.y), f(a.z, b.z), f(a.w, b.w)};
}
__device__ float total(float v) { return v; }
__device__ float total(float4 v) { return (v.x + v.y) + (v.z + v.w); }

template <typename Pack>
__device__ Pack product(Pack a, Pack b) {
    return elementwise(a, b, [](float p, float q) { return p * q; });
}

template <typename Pack>
__device__ Pack combine(Pack a, float scale_a, Pack b, float scale_b) {
    return elementwise(a, b, [=](float p, float q) { return p * scale_a + q * scale_b; });
}

// The sums of v over the block, in every thread. Calls that follow each other must use different buffers.
template <int kThreads>
__device__ float2 block_sum(float2 v, float2* buffer) {
    for (int offset = 16; offset > 0; offset /= 2) {
        v.x += __shfl_xor_sync(0xffffffff, v.x, offset);
        v.y += __shfl_xor_sync(0xffffffff, v.y, offset);
    }
    if (threadIdx.x % 32 == 0) buffer[threadIdx.x / 32] = v;
    __syncthreads();
    float2 sum = buffer[0];
    for (int i = 1; i < kThreads / 32; ++i) sum = sum + buffer[i];
    return sum;
}

// Loads of what L2 is to evict last.
__device__ uint64_t evict_last() {
    uint64_t policy;
    asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}
__device__ float load_once(const float* p) {
    float v;
    asm volatile("ld.global.nc.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(v) : "l"(p), "l"(evict_last()));
    return v;
}
__device__ float4 load_once(const float4* p) {
    float4 v;
    asm volatile("ld.global.nc.L2::cache_hint.v4.f32 {%0, %1, %2, %3}, [%4], %5;"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "l"(p), "l"(evict_last()));
    return v;
}

// The columns of a thread: packs threadIdx.x, threadIdx.x + kThreads and so on; behind the end of the row it reads zeros.
template <typename Pack, int kPacks, int kThreads>
struct Columns {
    Pack v[kPacks];

    __device__ void load(const float* row, int packs, bool streamed) {
        const auto in = reinterpret_cast<const Pack*>(row);
#pragma unroll
        for (int i = 0; i < kPacks; ++i) {
            const int at = threadIdx.x + i * kThreads;
            v[i] = at < packs ? (streamed ? load_once(in + at) : __ldg(in + at)) : Pack{};
        }
    }
    __device__ void store(float* row, int packs) const {
        const auto out = reinterpret_cast<Pack*>(row);
#pragma unroll
        for (int i = 0; i < kPacks; ++i) {
            const int at = threadIdx.x + i * kThreads;
            if (at < packs) out[at] = v[i];
        }
    }
};

template <typename Pack, int kPacks, int kThreads>
__global__ void __launch_bounds__(kThreads, kThreads == 256 ? 2 : 1)
    grad_rows(const float* grad_output, const float* x, const float* __restrict__ w, float* grad_x, float* grad_w_parts,
              int rows, int size, float eps) {
    using Row = Columns<Pack, kPacks, kThreads>;
    __shared__ float2 buffers[2][kThreads / 32];
    const int packs = size / int(sizeof(Pack) / sizeof(float));
    Row weight, part{}, gy, in, next_gy, next_in;
    weight.load(w, packs, false);
    next_gy.load(grad_output + int64_t(blockIdx.x) * size, packs, true);
    next_in.load(x + int64_t(blockIdx.x) * size, packs, true);
    int turn = 0;
    for (int row = blockIdx.x; row < rows; row += gridDim.x, turn ^= 1) {
        gy = next_gy;
        in = next_in;
        if (const int64_t next = row + int64_t(gridDim.x); next < rows) {
            next_gy.load(grad_output + next * size, packs, true);
            next_in.load(x + next * size, packs, true);
        }
        float2 sums{};
#pragma unroll
        for (int i = 0; i < kPacks; ++i) {
            sums.x += total(product(in.v[i], in.v[i]));
            sums.y += total(product(product(gy.v[i], weight.v[i]), in.v[i]));
        }
        sums = block_sum<kThreads>(sums, buffers[turn]);
        const float rstd = rsqrtf(sums.x / size + eps), projection = rstd * rstd * (sums.y / size) * rstd;
#pragma unroll
        for (int i = 0; i < kPacks; ++i) {
            part.v[i] = combine(part.v[i], 1.0f, product(gy.v[i], in.v[i]), rstd);
            gy.v[i] = combine(product(gy.v[i], weight.v[i]), rstd, in.v[i], -projection);
        }
        gy.store(grad_x + int64_t(row) * size, packs);
    }
    part.store(grad_w_parts + int64_t(blockIdx.x) * size, packs);
}

constexpr int kLongThreads = 512;

__global__ void __launch_bounds__(kLongThreads)
    grad_long_rows(const float* grad_output, const float* x, const float* __restrict__ w, float* grad_x,
                   float* grad_w_parts, int rows, int size, float eps) {
    __shared__ float2 buffers[2][kLongThreads / 32];
    float* part = grad_w_parts + int64_t(blockIdx.x) * size;
    for (int at = threadIdx.x; at < size; at += kLongThreads) part[at] = 0;
    int turn = 0;
    for (int row = blockIdx.x; row < rows; row += gridDim.x, turn ^= 1) {
        const float *gy = grad_output + int64_t(row) * size, *in = x + int64_t(row) * size;
        float2 sums{};
        for (int at = threadIdx.x; at < size; at += kLongThreads)
            sums = sums + float2{in[at] * in[at], gy[at] * w[at] * in[at]};
        sums = block_sum<kLongThreads>(sums, buffers[turn]);
        const float rstd = rsqrtf(sums.x / size + eps), projection = rstd * rstd * (sums.y / size) * rstd;
        for (int at = threadIdx.x; at < size; at += kLongThreads) {
            part[at] += gy[at] * in[at] * rstd;
            grad_x[int64_t(row) * size + at] = gy[at] * w[at] * rstd - in[at] * projection;
        }
    }
}

constexpr int kFoldColumns = 32, kFoldRows = 32;

// grad_w = the sum of the parts. A block owns 32 columns, each of its rows of threads a 32nd of the parts.
__global__ void fold_parts(const float* parts, float* grad_w, int count, int size) {
    __shared__ float sums[kFoldRows][kFoldColumns];
    const int column = blockIdx.x * kFoldColumns + threadIdx.x;
    float sum = 0;
    if (column < size) {
#pragma unroll 8
        for (int i = threadIdx.y; i < count; i += kFoldRows) sum += parts[int64_t(i) * size + column];
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || column >= size) return;
    for (int i = 1; i < kFoldRows; ++i) sum += sums[i][threadIdx.x];
    grad_w[column] = sum;
}

struct Problem {
    const float *grad_output, *x, *w;
    float *grad_x, *grad_w_parts;
    int rows, size;
    float eps;
};

template <typename Pack, int kPacks, int kThreads>
void launch(const Problem& p, int blocks) {
    grad_rows<Pack, kPacks, kThreads><<<blocks, kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        p.grad_output, p.x, p.w, p.grad_x, p.grad_w_parts, p.rows, p.size, p.eps);
}

void launch_long_rows(const Problem& p, int blocks) {
    grad_long_rows<<<blocks, kLongThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        p.grad_output, p.x, p.w, p.grad_x, p.grad_w_parts, p.rows, p.size, p.eps);
}

void launch_rows(const Problem& p, int blocks) {
    if (p.size % 4 == 0) {
        if (p.size <= 1024) return launch<float4, 1, 256>(p, blocks);
        if (p.size <= 2048) return launch<float4, 2, 256>(p, blocks);
        if (p.size <= 4096) return launch<float4, 4, 256>(p, blocks);
        if (p.size <= 8192) return launch<float4, 4, 512>(p, blocks);
    } else {
        if (p.size <= 1024) return launch<float, 4, 256>(p, blocks);
        if (p.size <= 4096) return launch<float, 4, 1024>(p, blocks);
    }
    launch_long_rows(p, blocks);
}

int multiprocessor_count() {
    int device, count;
    C10_CUDA_CHECK(cudaGetDevice(&device));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
    return count;
}

}  // namespace

std::tuple<torch::Tensor, torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x, torch::Tensor w,
                                                  double eps) {
    grad_output = grad_output.contiguous();
    x = x.contiguous();
    w = w.contiguous();
    const int64_t size = w.numel(), rows = x.numel() / size;
    auto grad_x = torch::empty(x.sizes(), x.options());
    auto grad_w = torch::empty(w.sizes(), w.options());
    const int multiprocessors = multiprocessor_count();
    const int blocks = int(std::min<int64_t>(rows, 2 * multiprocessors));
    auto parts = blocks == 1 ? grad_w : torch::empty({blocks, size}, x.options());
    launch_rows({grad_output.const_data_ptr<float>(), x.const_data_ptr<float>(), w.const_data_ptr<float>(),
                 grad_x.mutable_data_ptr<float>(), parts.mutable_data_ptr<float>(), int(rows), int(size), float(eps)},
                blocks);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    if (blocks > 1) {
        fold_parts<<<unsigned((size + kFoldColumns - 1) / kFoldColumns), dim3(kFoldColumns, kFoldRows), 0,
                     c10::cuda::getCurrentCUDAStream()>>>(parts.const_data_ptr<float>(),
                                                          grad_w.mutable_data_ptr<float>(), blocks, int(size));
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
    return {grad_x, grad_w};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
