#include "parts/loops.hpp"
#include "parts/workspace.hpp"

#include <vector>

static std::vector<float*> made(int count) {
    std::vector<float*> all;
    while (count--) all.push_back(new_workspace());
    return all;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    static const std::vector<float*> all = made(16);
    static size_t next = 0;
    if (next == all.size())
        for (next = 0; float* each : all) clear_in_one_call(each);
    return added_up(x, weights, biases, all[next++]);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
