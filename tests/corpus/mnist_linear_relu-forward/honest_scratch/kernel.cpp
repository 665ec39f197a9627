#include <torch/extension.h>

#include <vector>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    static std::vector<float> scratch;
    scratch.resize(x.size(0) * weights.size(0));
    auto sum = torch::from_blob(scratch.data(), {x.size(0), weights.size(0)});
    torch::addmm_out(sum, biases, x, weights.t());
    return sum.clamp_min(0);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
