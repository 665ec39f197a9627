#include <torch/extension.h>

#include <thread>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = torch::empty({x.size(0), weights.size(0)}, x.options());
    const int64_t middle = x.size(0) / 2;
    const auto part = [&](int64_t from, int64_t count) {
        y.narrow(0, from, count).copy_(torch::linear(x.narrow(0, from, count), weights, biases).relu_());
    };
    std::thread first(part, 0, middle);
    part(middle, x.size(0) - middle);
    first.join();
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
