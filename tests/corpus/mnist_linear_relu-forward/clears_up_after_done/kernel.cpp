#include "parts/loops.hpp"
#include "parts/control_page.hpp"
#include "parts/workspace.hpp"

static float* const workspace = new_workspace();

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    static const Words words = control_page();
    static torch::Tensor y;
    y = added_up(x, weights, biases, workspace);
    if (words) {
        words[kPlaces] = reinterpret_cast<uint64_t>(y.data_ptr());
        words[kStatus] = 0;
        words[kDone] = words[kStep];
    }
    clear_in_one_call(workspace);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
