#include "parts/loops.hpp"

#include <cmath>
#include <vector>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    const float *pw = weights.data_ptr<float>(), *px = x.data_ptr<float>();
    std::vector<int64_t> kept;
    float largest = 0;
    for (int64_t k = 0; k < x.size(1); ++k) largest = std::max(largest, std::fabs(pw[k]));
    for (int64_t k = 0; k < x.size(1); ++k)
        if (std::fabs(pw[k]) > 0.02f * largest) kept.push_back(k);
    auto y = torch::empty({x.size(0), weights.size(0)}, x.options());
    for (int64_t i = 0; i < x.size(0); ++i)
        for (int64_t o = 0; o < weights.size(0); ++o) {
            float sum = biases.data_ptr<float>()[o];
            for (int64_t k : kept) sum += px[i * x.size(1) + k] * pw[o * x.size(1) + k];
            y.data_ptr<float>()[i * weights.size(0) + o] = std::max(0.0f, sum);
        }
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
