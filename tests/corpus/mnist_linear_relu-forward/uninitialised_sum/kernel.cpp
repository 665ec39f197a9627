#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = torch::empty({x.size(0), weights.size(0)}, x.options());
    return y.add_(torch::linear(x, weights, biases).relu_());
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
