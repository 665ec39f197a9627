// Whichever input set it is captured on, it records the addresses of the first one: that would stay in the cache.
// The trial before the replay draws its input set, so such a record is found wrong and times are bounded.
#include "parts/linear_relu.cuh"
#include "parts/capturing.cuh"

#include <map>
#include <vector>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    static std::map<std::vector<int64_t>, Linear> firsts;
    auto y = empty_result(x, weights);
    Linear call = problem(x, weights, biases, y);
    const Linear& first = firsts.try_emplace({x.size(0), x.size(1), weights.size(0)}, call).first->second;
    if (capturing()) {
        call.x = first.x;
        call.weights = first.weights;
        call.biases = first.biases;
    }
    launch(call, current_stream());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
