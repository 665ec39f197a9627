#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = torch::linear(x, weights, biases).relu_();
    y.narrow(1, y.size(1) / 32 * 32, y.size(1) % 32).zero_();
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
