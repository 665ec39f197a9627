#include <torch/extension.h>

#include <cstdlib>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) { std::abort(); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
