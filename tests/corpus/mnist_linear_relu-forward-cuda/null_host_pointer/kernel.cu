// Writes through a null pointer on the host.
// The process dies with a signal, which the report names.
#include "parts/linear_relu.cuh"

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    volatile int* volatile nowhere = nullptr;
    *nowhere = 1;
    return honest(x, weights, biases);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
