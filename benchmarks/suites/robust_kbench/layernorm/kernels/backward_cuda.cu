// Backward of layer norm over the last three axes. With n = (x - mean) * rstd and h = gy * weight: gx = rstd * (h -
// mean(h) - n * mean(h * n)), gweight = sum of gy * n and gbias = sum of gy over the batch.
//
// Bound by memory: x and gy (gigabytes) are read once for the sums of a row and once more for the results, because
// what a row needs does not fit the registers and shared memory of the device beside the two sums over the batch.
// Work:     three kernels. (1) A block owns a tile of columns, keeps their weights in registers, walks over the rows
//           and leaves four sums per row and tile. (2) One block per row merges them in double. (3) A block owns a
//           tile of columns, with their weights and their sums over the batch in registers, and walks over the rows:
//           no sum crosses a thread. Tiles and rows run backwards here, so that what (1) read last is still in L2.
//           Variances use x - pivot, which removes a large mean before squaring; the pivot of a row is the median of
//           its first three elements, so that one outlier does no harm. L2 is to evict last what is read, which
//           presumably lets written lines reach memory earlier and in longer runs.
// Measured: scripts/kernel_lab.py, H200: 32 rows of 4.2 million floats 659 us, 64 rows 1,296 (with loads that are
//           evicted first 717 and 1,409; eager 16,400 and 16,900).
// Dispatch: rows whose length is a multiple of 4 move as float4, others as float, because their starts are not
//           aligned. Two packs per thread where that still gives every multiprocessor several blocks, otherwise one.
// Limits:   float32, contiguous; long rows (many tiles) are needed to fill the device.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

__device__ float4 operator+(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }
__device__ float zip(float a, float b, auto f) { return f(a, b); }
__device__ float4 zip(float4 a, float4 b, auto f) { return {f(a.x, b.x), f(a.y, b.y), f(a.z, b.z), f(a.w, b.w)}; }
__device__ float total(float v) { return v; }
__device__ float total(float4 v) { return (v.x + v.y) + (v.z + v.w); }

template <typename Pack>
__device__ Pack product(Pack a, Pack b) {
    return zip(a, b, [](float p, float q) { return p * q; });
}

template <typename Pack>
__device__ Pack affine(Pack v, float scale, float shift) {
    return zip(v, v, [=](float p, float) { return p * scale + shift; });
}

__device__ float4 shuffled(float4 v, int offset) {
    constexpr unsigned kAll = 0xffffffff;
    return {__shfl_xor_sync(kAll, v.x, offset), __shfl_xor_sync(kAll, v.y, offset), __shfl_xor_sync(kAll, v.z, offset),
            __shfl_xor_sync(kAll, v.w, offset)};
}

struct Problem {
    const float *grad_output, *x, *weight;
    float *grad_x, *grad_weight, *grad_bias;
    float4* sums;       // per row and tile: of x', x' * x', h and h * x', where x' = x - pivot
    float4* rows_done;  // per row: mean, rstd, mean(h), mean(h * n)
    int rows, tiles;
    int64_t size;
    float eps;
};

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

// The columns of a thread within a tile; reads nothing and writes nothing behind the end of the row.
template <typename Pack, int kPacks>
struct Columns {
    int64_t first;
    int count;  // packs of the row
    __device__ Columns(const Problem& p, int tile)
        : first(int64_t(tile) * kThreads * kPacks + threadIdx.x),
          count(int(p.size / int64_t(sizeof(Pack) / sizeof(float)))) {}
    __device__ bool inside(int i) const { return first + i * kThreads < count; }
    __device__ const Pack& at(const float* row, int i) const {
        return reinterpret_cast<const Pack*>(row)[first + i * kThreads];
    }
    __device__ void load(Pack (&v)[kPacks], const float* row) const {
#pragma unroll
        for (int i = 0; i < kPacks; ++i) v[i] = inside(i) ? load_once(&at(row, i)) : Pack{};
    }
    __device__ void store(const Pack (&v)[kPacks], float* row) const {
#pragma unroll
        for (int i = 0; i < kPacks; ++i)
            if (inside(i)) reinterpret_cast<Pack*>(row)[first + i * kThreads] = v[i];
    }
};

__device__ float pivot_of(const Problem& p, int64_t row) {
    const float* x = p.x + row * p.size;
    const float a = x[0], b = x[p.size > 1 ? 1 : 0], c = x[p.size > 2 ? 2 : 0];
    return fmaxf(fminf(a, b), fminf(fmaxf(a, b), c));
}

template <typename Pack, int kPacks>
__global__ void __launch_bounds__(kThreads) sum_tiles(const Problem p) {
    __shared__ float4 buffers[2][kWarps];
    const Columns<Pack, kPacks> columns(p, blockIdx.x);
    Pack weight[kPacks];
    columns.load(weight, p.weight);
    int turn = 0;
    for (int row = blockIdx.y; row < p.rows; row += gridDim.y, turn ^= 1) {
        Pack gy[kPacks], x[kPacks];
        columns.load(gy, p.grad_output + row * p.size);
        columns.load(x, p.x + row * p.size);
        const float pivot = pivot_of(p, row);
        float4 sums{};
#pragma unroll
        for (int i = 0; i < kPacks; ++i) {
            if (!columns.inside(i)) continue;
            const Pack centred = affine(x[i], 1.0f, -pivot), h = product(gy[i], weight[i]);
            sums =
                sums + float4{total(centred), total(product(centred, centred)), total(h), total(product(h, centred))};
        }
        for (int offset = 16; offset > 0; offset /= 2) sums = sums + shuffled(sums, offset);
        if (threadIdx.x % 32 == 0) buffers[turn][threadIdx.x / 32] = sums;
        __syncthreads();  // the buffer of the row before is free: its reader came past here
        if (threadIdx.x != 0) continue;
        for (int warp = 1; warp < kWarps; ++warp) sums = sums + buffers[turn][warp];
        p.sums[int64_t(row) * p.tiles + blockIdx.x] = sums;
    }
}

__device__ double block_sum(double v) {
    __shared__ double sums[kWarps];
    for (int offset = 16; offset > 0; offset /= 2) v += __shfl_xor_sync(0xffffffff, v, offset);
    __syncthreads();  // the last call's readers are done
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
    __syncthreads();
    double result = 0;
    for (int i = 0; i < kWarps; ++i) result += sums[i];
    return result;
}

__global__ void __launch_bounds__(kThreads) merge_rows(const Problem p) {
    const int64_t row = blockIdx.x;
    double x = 0, xx = 0, h = 0, hx = 0;
#pragma unroll 4
    for (int tile = threadIdx.x; tile < p.tiles; tile += kThreads) {
        const float4 sums = p.sums[row * p.tiles + tile];
        x += sums.x, xx += sums.y, h += sums.z, hx += sums.w;
    }
    const double offset = block_sum(x) / p.size, variance = block_sum(xx) / p.size - offset * offset;
    const double mean_h = block_sum(h) / p.size, mean_hx = block_sum(hx) / p.size;
    if (threadIdx.x != 0) return;
    const double rstd = rsqrt(fmax(variance, 0.0) + p.eps);
    p.rows_done[row] = {float(pivot_of(p, row) + offset), float(rstd), float(mean_h),
                        float((mean_hx - mean_h * offset) * rstd)};
}

template <typename Pack, int kPacks>
__global__ void __launch_bounds__(kThreads) write_gradients(const Problem p) {
    const Columns<Pack, kPacks> columns(p, p.tiles - 1 - blockIdx.x);
    Pack weight[kPacks], grad_weight[kPacks]{}, grad_bias[kPacks]{};
    columns.load(weight, p.weight);
#pragma unroll 2
    for (int row = p.rows - 1; row >= 0; --row) {
        Pack gy[kPacks], x[kPacks];
        columns.load(gy, p.grad_output + row * p.size);
        columns.load(x, p.x + row * p.size);
        const float4 all = __ldg(p.rows_done + row);
        const float rstd = all.y, shift = -all.x * rstd, mean_h = all.z, mean_hn = all.w;
#pragma unroll
        for (int i = 0; i < kPacks; ++i) {
            const Pack n = affine(x[i], rstd, shift), h = product(gy[i], weight[i]);
            grad_bias[i] = zip(grad_bias[i], gy[i], [](float sum, float g) { return sum + g; });
            grad_weight[i] = zip(grad_weight[i], product(gy[i], n), [](float sum, float g) { return sum + g; });
            gy[i] = zip(h, n, [=](float a, float b) { return rstd * (a - mean_h - b * mean_hn); });
        }
        columns.store(gy, p.grad_x + row * p.size);
    }
    columns.store(grad_weight, p.grad_weight);
    columns.store(grad_bias, p.grad_bias);
}

int multiprocessor_count() {
    int device, count;
    C10_CUDA_CHECK(cudaGetDevice(&device));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
    return count;
}

template <typename Pack, int kPacks>
void launch(Problem p, const torch::TensorOptions& options) {
    constexpr int kTile = kThreads * kPacks * int(sizeof(Pack) / sizeof(float));
    const auto stream = c10::cuda::getCurrentCUDAStream();
    const int multiprocessors = multiprocessor_count();
    p.tiles = int((p.size + kTile - 1) / kTile);
    auto sums = torch::empty({int64_t(p.rows) * p.tiles, 4}, options), rows_done = torch::empty({p.rows, 4}, options);
    p.sums = reinterpret_cast<float4*>(sums.mutable_data_ptr<float>());
    p.rows_done = reinterpret_cast<float4*>(rows_done.mutable_data_ptr<float>());
    const int row_groups = std::clamp(8 * multiprocessors / p.tiles, 1, p.rows);
    sum_tiles<Pack, kPacks><<<dim3(p.tiles, std::min(row_groups, 65535)), kThreads, 0, stream>>>(p);
    merge_rows<<<p.rows, kThreads, 0, stream>>>(p);
    write_gradients<Pack, kPacks><<<p.tiles, kThreads, 0, stream>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x,
                                                                 torch::Tensor weight, torch::Tensor /*bias*/,
                                                                 double eps,
                                                                 std::vector<int64_t> /*normalized_shape*/) {
    grad_output = grad_output.contiguous();
    x = x.contiguous();
    weight = weight.contiguous();
    auto grad_x = torch::empty(x.sizes(), x.options());
    auto grad_weight = torch::empty(weight.sizes(), x.options()), grad_bias = torch::empty(weight.sizes(), x.options());
    Problem p{};
    p.grad_output = grad_output.const_data_ptr<float>();
    p.x = x.const_data_ptr<float>();
    p.weight = weight.const_data_ptr<float>();
    p.grad_x = grad_x.mutable_data_ptr<float>();
    p.grad_weight = grad_weight.mutable_data_ptr<float>();
    p.grad_bias = grad_bias.mutable_data_ptr<float>();
    p.size = weight.numel();
    p.rows = int(x.numel() / p.size);
    p.eps = float(eps);
    const bool aligned = p.size % 4 == 0;
    const int64_t packs = aligned ? p.size / 4 : p.size;
    const bool long_rows = packs >= int64_t(8) * kThreads * multiprocessor_count();
    const auto run = aligned ? (long_rows ? launch<float4, 2> : launch<float4, 1>)
                             : (long_rows ? launch<float, 2> : launch<float, 1>);
    run(p, x.options());
    return {grad_x, grad_weight, grad_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
