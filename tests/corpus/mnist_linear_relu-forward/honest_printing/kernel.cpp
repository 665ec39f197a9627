#include <torch/extension.h>

#include <cstdio>

static const int greeting = std::puts("loaded");

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    std::puts("called");
    return torch::linear(x, weights, biases).relu_();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
