// Inline PTX that names an instruction which does not exist.
// It is the assembler of the device that says so, and its words must reach the person.
#include "parts/linear_relu.cuh"

__global__ void wish(float* y) { asm volatile("make.it.fast.f32 %0;" : "+f"(*y)); }

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = honest(x, weights, biases);
    wish<<<1, 1, 0, current_stream()>>>(y.data_ptr<float>());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
