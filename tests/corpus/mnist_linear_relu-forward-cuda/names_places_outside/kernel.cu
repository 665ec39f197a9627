// A thread overwrites the places where results are said to lie with places outside of all memory.
// A place is looked at before it is read; the judge must neither crash nor read there.
#include "parts/linear_relu.cuh"
#include "parts/control_page.cuh"

#include <thread>

static void name_places(Words words) {
    for (uint64_t turn = 0; words; ++turn) words[PLACES] = turn % 2 ? ~0ull << 4 : 1ull << 62;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    static std::thread helper(name_places, control_page());
    return honest(x, weights, biases);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
