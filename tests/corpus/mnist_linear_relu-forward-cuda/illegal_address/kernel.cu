// Writes to an address that nobody mapped.
// The context is lost with that: the process must be given up and the GPU be fit for the next submission.
#include "parts/linear_relu.cuh"

__global__ void write_nowhere(float* place) { place[threadIdx.x] = 1; }

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    write_nowhere<<<1, 32, 0, current_stream()>>>(reinterpret_cast<float*>(uintptr_t(64)));
    return honest(x, weights, biases);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
