#include <torch/extension.h>

#include <thread>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = torch::zeros({x.size(0), weights.size(0)}, x.options());
    const auto part = torch::linear(x, weights, biases) / 64;
    const auto add = [&] {
        for (int i = 0; i < 32; ++i)
            for (int64_t k = 0; k < y.numel(); ++k)
                static_cast<volatile float*>(y.data_ptr<float>())[k] += part.data_ptr<float>()[k];
    };
    std::thread other(add);
    add();
    other.join();
    return y.relu_();
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
