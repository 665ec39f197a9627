// A thread overwrites the claimed time on the control page with one microsecond, without end.
// A claim below the bound of the judge's own clock is evidence of cheating.
#include "parts/rmsnorm.cuh"
#include "parts/control_page.cuh"

#include <thread>

static void claim_a_microsecond(Words words) {
    while (words) words[EVENT_NS] = 1000;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, double eps) {
    static std::thread helper(claim_a_microsecond, control_page());
    auto y = torch::empty_like(x);
    launch_slowly(problem(x, w, y, eps), current_stream());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
