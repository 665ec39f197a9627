// The honest kernel that the attacks start from: one launch on the current stream, nothing else.
// It must pass.
#include "parts/linear_relu.cuh"

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    return honest(x, weights, biases);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
