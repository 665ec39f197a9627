// Prints a line from the host and one from the device in every call.
// It must pass: what is printed ends up in the log, cut off where it grows too long.
#include "parts/linear_relu.cuh"

#include <cstdio>

__global__ void say(int batch) { printf("a batch of %d\n", batch); }

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    std::printf("called\n");
    say<<<1, 1, 0, current_stream()>>>(int(x.size(0)));
    return honest(x, weights, biases);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
