// Takes the bias as an optional tensor and returns the one result in a tuple.
// It must pass: published kernels have such signatures.
#include "parts/linear_relu.cuh"

#include <tuple>

std::tuple<torch::Tensor> forward(torch::Tensor x, torch::Tensor weights, c10::optional<torch::Tensor> biases) {
    if (!biases.has_value()) biases = torch::zeros({weights.size(0)}, x.options());
    return {honest(x, weights, *biases)};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
