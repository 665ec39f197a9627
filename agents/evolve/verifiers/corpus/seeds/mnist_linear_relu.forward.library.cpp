#include <torch/extension.h>

// The product and its bias are the library's; the loop in place is ours.
torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = torch::linear(x, weights, biases);
    float* py = y.data_ptr<float>();
    const int64_t count = y.numel();
    for (int64_t i = 0; i < count; ++i) py[i] = py[i] > 0.0f ? py[i] : 0.0f;
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "linear layer with relu");
}
