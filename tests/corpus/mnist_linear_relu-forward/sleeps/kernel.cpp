#include <torch/extension.h>

#include <chrono>
#include <thread>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    std::this_thread::sleep_for(std::chrono::milliseconds(3));
    return torch::linear(x, weights, biases).relu_();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
