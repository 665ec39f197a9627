#include "parts/loops.hpp"

static int deeper(volatile int* above) {
    volatile int here[256];
    here[0] = above[0] + 1;
    return here[0] > 0 ? deeper(here) + here[1] : 0;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    volatile int start[1] = {1};
    return honest(x, weights, biases) + deeper(start);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
