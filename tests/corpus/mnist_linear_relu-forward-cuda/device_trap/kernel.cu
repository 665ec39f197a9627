// A thread of the device traps.
// The context is lost with that: the process must be given up and the GPU be fit for the next submission.
#include "parts/linear_relu.cuh"

__global__ void give_up() { __trap(); }

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    give_up<<<1, 1, 0, current_stream()>>>();
    return honest(x, weights, biases);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
