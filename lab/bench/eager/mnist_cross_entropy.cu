// The task exactly as torch eager runs it: judged as a submission, its score is 1 within its interval.
#include <torch/extension.h>

torch::Tensor forward(torch::Tensor predictions, torch::Tensor targets) {
    return at::cross_entropy_loss(predictions, targets);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
