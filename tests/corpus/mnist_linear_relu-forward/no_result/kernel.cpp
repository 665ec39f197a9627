#include <torch/extension.h>

void forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) { torch::linear(x, weights, biases); }

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
