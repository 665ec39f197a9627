#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = torch::linear(x, weights, biases).relu_();
    return torch::full_like(y, y.mean().item<float>());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
