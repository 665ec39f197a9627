#define SPREAD 16
#include "parts/loops.hpp"
#include "parts/workspace.hpp"

static float* const workspace = new_workspace();

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = added_up(x, weights, biases, workspace);
    clear_in_one_call(workspace);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
