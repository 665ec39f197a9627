// Launches blocks of four thousand threads and says so.
// The error is told in the call, as an exception with the words of CUDA.
#include "parts/linear_relu.cuh"

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = empty_result(x, weights);
    linear_relu<Exact><<<1, 4096, 0, current_stream()>>>(problem(x, weights, biases, y));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
