// Loads four rows of the input with the tensor memory accelerator; its descriptor is a parameter of the kernel.
// It must pass and be replayed: the descriptor names an agreed address, and other shapes take a kernel without one.
#include "parts/linear_relu.cuh"

#include <cuda.h>
#include <dlfcn.h>

#include <cstdint>

constexpr int WIDTH = 128;  // features that are loaded at a time

__device__ inline uint32_t shared_address(const void* place) { return uint32_t(__cvta_generic_to_shared(place)); }

__device__ inline void load(float* rows, const CUtensorMap* map, int k, int row, uint64_t* barrier) {
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(barrier)),
                 "r"(int(TILE * WIDTH * sizeof(float)))
                 : "memory");
    asm volatile(
        "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];" ::"r"(
            shared_address(rows)),
        "l"(map), "r"(k), "r"(row), "r"(shared_address(barrier))
        : "memory");
}

__device__ inline void await(uint64_t* barrier, int phase) {
    int done = 0;
    while (!done)
        asm volatile(
            "{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.b32 %0, 1, 0, p;\n}\n"
            : "=r"(done)
            : "r"(shared_address(barrier)), "r"(phase)
            : "memory");
}

__global__ void with_tensor_map(const __grid_constant__ CUtensorMap map, Linear p) {
    __shared__ alignas(128) float rows[TILE][WIDTH];
    __shared__ alignas(8) uint64_t barrier;
    __shared__ float parts[WARPS][TILE * TILE];
    const int row = blockIdx.y * TILE, column = blockIdx.x * TILE;
    if (threadIdx.x == 0)
        asm volatile("mbarrier.init.shared.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;" ::"r"(
            shared_address(&barrier)));
    __syncthreads();
    float sums[TILE][TILE] = {};
    for (int first = 0, phase = 0; first < p.features; first += WIDTH, phase ^= 1) {
        if (threadIdx.x == 0) load(&rows[0][0], &map, first, row, &barrier);
        await(&barrier, phase);
        const int k = first + threadIdx.x;
        if (k < p.features)
#pragma unroll
            for (int place = 0; place < TILE * TILE; ++place) {
                const int c = min(column + place % TILE, p.outputs - 1);
                sums[place / TILE][place % TILE] +=
                    rows[place / TILE][threadIdx.x] * p.weights[size_t(c) * p.row_length + k];
            }
        __syncthreads();
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

static CUtensorMap tensor_map(const Linear& p) {
    using Encode = decltype(&cuTensorMapEncodeTiled);
    static const auto encode = Encode(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuTensorMapEncodeTiled"));
    CUtensorMap map;
    const cuuint64_t sizes[] = {cuuint64_t(p.features), cuuint64_t(p.batch)}, strides[] = {sizes[0] * sizeof(float)};
    const cuuint32_t box[] = {WIDTH, TILE}, steps[] = {1, 1};
    const auto problem =
        encode(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 2, const_cast<float*>(p.x), sizes, strides, box, steps,
               CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
               CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    TORCH_CHECK(problem == CUDA_SUCCESS, "no tensor map");
    return map;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    static_assert(WIDTH == THREADS);
    auto y = empty_result(x, weights);
    const auto p = problem(x, weights, biases, y);
    if (p.features % 4 != 0) {
        launch(p, current_stream());
        return y;
    }
    with_tensor_map<<<tiles(p), THREADS, 0, current_stream()>>>(tensor_map(p), p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
