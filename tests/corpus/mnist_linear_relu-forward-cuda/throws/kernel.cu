// Throws an exception.
// Its words are what the person needs to read.
#include "parts/linear_relu.cuh"

#include <stdexcept>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    throw std::runtime_error("no idea how to do this");
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
