// Blocks that happen to run on the first multiprocessor do nothing: under one in a hundred, and other ones every time.
// Every element of a result is compared.
#include "parts/linear_relu.cuh"

__global__ void elsewhere(Linear p) {
    unsigned multiprocessor;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(multiprocessor));
    if (multiprocessor != 0) make_tile<Exact>(p, blockIdx.y * TILE, blockIdx.x * TILE);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = empty_result(x, weights);
    const auto p = problem(x, weights, biases, y);
    elsewhere<<<tiles(p), THREADS, 0, current_stream()>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
