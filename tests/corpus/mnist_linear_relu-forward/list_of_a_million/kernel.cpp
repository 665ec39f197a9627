#include <torch/extension.h>

#include <vector>

std::vector<torch::Tensor> forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    return std::vector<torch::Tensor>(1000000, x);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
