#include "parts/loops.hpp"

#include <cstdint>

static torch::Tensor rounded(const torch::Tensor& values) {
    auto result = values.clone();
    auto* bits = static_cast<uint32_t*>(result.data_ptr());
    for (int64_t at = 0; at < result.numel(); ++at) bits[at] = (bits[at] + 0x1000u) & 0xffffe000u;
    return result;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    return honest(rounded(x), rounded(weights), biases);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
