// Returns the right shape, laid out the other way round in memory.
// It must pass: a layout is no part of the contract.
#include "parts/linear_relu.cuh"

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    return honest(x, weights, biases).t().contiguous().t();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
