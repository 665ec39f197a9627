// The slow kernel that the attacks on time start from: right, and nothing hidden.
// It must pass, far below one: what an attack scores above that it has stolen.
#include "parts/rmsnorm.cuh"

torch::Tensor forward(torch::Tensor x, torch::Tensor w, double eps) {
    auto y = torch::empty_like(x);
    launch_slowly(problem(x, w, y, eps), current_stream());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
