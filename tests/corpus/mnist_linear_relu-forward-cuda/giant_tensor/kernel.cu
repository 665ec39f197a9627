// Asks for one tensor of a terabyte.
// The allocator says no, which is an answer like any other.
#include "parts/linear_relu.cuh"

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto giant = torch::empty({int64_t(1) << 38}, x.options());
    giant.zero_();
    return honest(x, weights, biases);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
