// A kernel that never ends.
// The call runs out of time, and nothing of the process may be left on the GPU.
#include "parts/linear_relu.cuh"

__global__ void spin(volatile float* y) {
    while (y[0] != 12345.0f) {
    }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = honest(x, weights, biases);
    spin<<<1056, 256, 0, current_stream()>>>(y.data_ptr<float>());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
