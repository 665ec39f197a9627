// Reads four floats at once from an address that is no multiple of sixteen.
// The context is lost with that: the process must be given up and the GPU be fit for the next submission.
#include "parts/linear_relu.cuh"

__global__ void read_askew(const float* x, float* y) {
    const float4 values = *reinterpret_cast<const float4*>(x + 1);
    y[threadIdx.x] = values.x + values.y + values.z + values.w;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = honest(x, weights, biases);
    read_askew<<<1, 1, 0, current_stream()>>>(x.data_ptr<float>(), y.data_ptr<float>());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
