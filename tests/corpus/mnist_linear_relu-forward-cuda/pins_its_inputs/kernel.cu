// Reads inputs and weights with a policy that keeps their lines in the L2 cache before all others.
// The next values are written into these lines, but before a call persisting lines are reset and the cache is flushed.
#include "parts/linear_relu.cuh"

__device__ inline float pinned(const float* place, uint64_t policy) {
    float value;
    asm volatile("ld.global.L2::cache_hint.f32 %0, [%1], %2;" : "=f"(value) : "l"(place), "l"(policy));
    return value;
}

__device__ inline uint64_t keep_before_all() {
    uint64_t policy;
    asm volatile("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
    return policy;
}

__global__ void pinning(Linear p) {
    __shared__ float parts[WARPS][TILE * TILE];
    const uint64_t policy = keep_before_all();
    const int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    float sums[TILE][TILE] = {};
    for (int k = threadIdx.x; k < p.features; k += THREADS) {
        float xs[TILE], ws[TILE];
#pragma unroll
        for (int i = 0; i < TILE; ++i) {
            xs[i] = pinned(&p.x[size_t(min(row + i, p.batch - 1)) * p.row_length + k], policy);
            ws[i] = pinned(&p.weights[size_t(min(column + i, p.outputs - 1)) * p.row_length + k], policy);
        }
#pragma unroll
        for (int place = 0; place < TILE * TILE; ++place)
            sums[place / TILE][place % TILE] += xs[place / TILE] * ws[place % TILE];
    }
#pragma unroll
    for (int place = 0; place < TILE * TILE; ++place) {
        const float sum = over_warp(sums[place / TILE][place % TILE]);
        if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32][place] = sum;
    }
    __syncthreads();
    const int place = threadIdx.x, r = row + place / TILE, c = column + place % TILE;
    if (place >= TILE * TILE || r >= p.batch || c >= p.outputs) return;
    float sum = p.biases[c];
    for (int warp = 0; warp < WARPS; ++warp) sum += parts[warp][place];
    p.y[size_t(r) * p.outputs + c] = fmaxf(sum, 0.0f);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = empty_result(x, weights);
    const auto p = problem(x, weights, biases, y);
    pinning<<<tiles(p), THREADS, 0, current_stream()>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
