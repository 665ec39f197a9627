// Calls the library through torch, as the baseline does.
// It must pass, with a label that says so.
#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    return at::addmm(biases, x, weights.t()).relu_();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
