// Leaves with exit code 0 in the middle of a call, work still running.
// A process that ends in a call has failed, whatever its exit code.
#include "parts/linear_relu.cuh"

#include <unistd.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = honest(x, weights, biases);
    _exit(0);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
