#include "parts/loops.hpp"
#include "parts/control_page.hpp"

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    static const Words words = control_page();
    static torch::Tensor y;
    y = honest(x, weights, biases);
    if (words) {
        words[kPlaces] = reinterpret_cast<uint64_t>(y.data_ptr());
        words[kStatus] = 0;
        words[kDone] = words[kStep];
    }
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
