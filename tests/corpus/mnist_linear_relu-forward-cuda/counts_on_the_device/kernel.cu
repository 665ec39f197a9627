// A counter on the device lets the kernel work in every second call only; no host code is needed for that.
// Every replayed call is compared, so the calls between are found whichever they are.
#include "parts/linear_relu.cuh"

__device__ unsigned calls;

__global__ void every_second(Linear p) {
    if (calls % 2 == 0) make_tile<Exact>(p, blockIdx.y * TILE, blockIdx.x * TILE);
}

__global__ void count() { ++calls; }

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = empty_result(x, weights);
    const auto p = problem(x, weights, biases, y);
    every_second<<<tiles(p), THREADS, 0, current_stream()>>>(p);
    count<<<1, 1, 0, current_stream()>>>();
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
