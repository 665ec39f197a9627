#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor gates) {
    const int64_t steps = x.size(0), features = x.size(1);
    auto h = torch::empty_like(x);
    const float *px = x.data_ptr<float>(), *pg = gates.data_ptr<float>();
    float* ph = h.data_ptr<float>();
    for (int64_t f = 0; f < features; ++f) {
        float state = 0;
        for (int64_t t = 0; t < steps; ++t) {
            state = pg[t * features + f] * state + px[t * features + f];
            ph[t * features + f] = state;
        }
    }
    return h;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
