// The task exactly as torch eager runs it: judged as a submission, its score is 1 within its interval.
#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
    return at::layer_norm(x, weight.sizes(), weight, bias, eps);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
