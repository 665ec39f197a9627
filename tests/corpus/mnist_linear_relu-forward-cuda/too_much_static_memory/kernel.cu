// Declares more static shared memory than a block may have, four megabytes.
// The compiler says so.
#include "parts/linear_relu.cuh"

__global__ void hoard(float* y) {
    __shared__ float values[1 << 20];
    values[threadIdx.x] = y[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = values[blockDim.x - 1 - threadIdx.x];
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = honest(x, weights, biases);
    hoard<<<1, 4, 0, current_stream()>>>(y.data_ptr<float>());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
