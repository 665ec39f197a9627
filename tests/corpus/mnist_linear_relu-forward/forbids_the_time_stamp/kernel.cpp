#include "parts/loops.hpp"

#include <sys/prctl.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    static bool forbidden = prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0) == 0;
    (void)forbidden;
    return honest(x, weights, biases);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
