#include "parts/loops.hpp"

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) { return honest(x, weights, biases); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
