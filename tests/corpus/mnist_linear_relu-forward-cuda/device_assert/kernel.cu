// An assertion fails on the device.
// The context is lost with that: the process must be given up and the GPU be fit for the next submission.
#undef NDEBUG
#include <cassert>

#include "parts/linear_relu.cuh"

__global__ void demand(int value) { assert(value == 0); }

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    demand<<<1, 1, 0, current_stream()>>>(1);
    return honest(x, weights, biases);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
