// Keeps a tensor between calls and writes through it in every call, as scratch only.
// It must pass: nothing of an earlier call is read.
#include "parts/linear_relu.cuh"

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    static torch::Tensor workspace;
    const auto needed = x.size(0) * weights.size(0);
    if (!workspace.defined() || workspace.numel() < needed) workspace = torch::empty({needed}, x.options());
    auto sums = workspace.narrow(0, 0, needed).view({x.size(0), weights.size(0)});
    launch(problem(x, weights, biases, sums), current_stream());
    return sums.clone();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
