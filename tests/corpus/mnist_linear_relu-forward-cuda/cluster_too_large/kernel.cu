// Launches clusters of 64 blocks, where the GPU allows sixteen at most.
// The error is raised in the call and is the submission's.
#include "parts/linear_relu.cuh"

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = empty_result(x, weights);
    const auto p = problem(x, weights, biases, y);
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = 64;
    cluster.val.clusterDim.y = cluster.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3((tiles(p).x + 63) / 64 * 64, tiles(p).y);
    config.blockDim = dim3(THREADS);
    config.stream = current_stream();
    config.attrs = &cluster;
    config.numAttrs = 1;
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, linear_relu<Exact>, p));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
