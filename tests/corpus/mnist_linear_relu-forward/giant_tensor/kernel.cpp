#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto scratch = torch::empty({int64_t(1) << 38}, x.options());
    scratch.fill_(1);
    return torch::linear(x, weights, biases).relu_();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
