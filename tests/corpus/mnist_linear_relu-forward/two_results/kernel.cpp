#include <torch/extension.h>

std::vector<torch::Tensor> forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = torch::linear(x, weights, biases).relu_();
    return {y, y};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
