// Calls abort on the host.
// The process dies with a signal, which the report names.
#include "parts/linear_relu.cuh"

#include <cstdlib>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) { std::abort(); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
