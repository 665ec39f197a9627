// A cooperative launch of a million blocks, which no GPU can hold at a time: the driver refuses it.
// The error is raised in the call and is the submission's.
#include "parts/linear_relu.cuh"

#include <cooperative_groups.h>

__global__ void together(Linear p) {
    make_tile<Exact>(p, blockIdx.y * TILE, blockIdx.x * TILE);
    cooperative_groups::this_grid().sync();
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = empty_result(x, weights);
    auto p = problem(x, weights, biases, y);
    void* arguments[] = {&p};
    C10_CUDA_CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(&together), dim3(1 << 20), dim3(THREADS),
                                               arguments, 0, current_stream()));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
