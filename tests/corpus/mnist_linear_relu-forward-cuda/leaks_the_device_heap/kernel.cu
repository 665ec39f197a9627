// Takes 256 KB of the device heap in every call, gives nothing back and writes to what it gets without a look.
// The heap of 8 MB lasts for the trial before the replay; later the address is null, in an executor.
#include "parts/linear_relu.cuh"

__global__ void leak() {
    auto* memory = static_cast<volatile char*>(malloc(256 << 10));
    for (int place = 0; place < 256 << 10; place += 4096) memory[place] = 1;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = honest(x, weights, biases);
    leak<<<1, 1, 0, current_stream()>>>();
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
