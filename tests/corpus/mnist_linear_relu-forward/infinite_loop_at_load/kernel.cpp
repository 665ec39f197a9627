#include <torch/extension.h>

static const bool loaded = [] {
    volatile bool for_ever = true;
    while (for_ever) {
    }
    return true;
}();

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    return torch::linear(x, weights, biases).relu_();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
