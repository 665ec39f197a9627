// Asks for 300 KB of dynamic shared memory for a block, more than a multiprocessor has, and looks at the answer.
// The error is raised in the call and is the submission's.
#include "parts/linear_relu.cuh"

constexpr int SHARED_BYTES = 300 << 10;

__global__ void with_much_memory(Linear p) {
    extern __shared__ float unused[];
    make_tile<Exact>(p, blockIdx.y * TILE, blockIdx.x * TILE);
    if (p.batch < 0) p.y[0] = unused[threadIdx.x];
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = empty_result(x, weights);
    const auto p = problem(x, weights, biases, y);
    C10_CUDA_CHECK(
        cudaFuncSetAttribute(with_much_memory, cudaFuncAttributeMaxDynamicSharedMemorySize, SHARED_BYTES));
    with_much_memory<<<tiles(p), THREADS, SHARED_BYTES, current_stream()>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
