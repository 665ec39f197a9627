#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = torch::linear(x, weights, biases).relu_();
    const auto where = y.argmax().item<int64_t>();
    y.view({-1}).narrow(0, where, 1).mul_(1.001);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
