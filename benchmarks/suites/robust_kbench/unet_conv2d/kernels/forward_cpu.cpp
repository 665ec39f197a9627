// 3x3 convolution with stride and padding.
//
// Bound by arithmetic, and the library's convolution is what there is to beat: this file calls it, as the line on the
// board that a kernel of one's own has to pass. Labelled as calling the library.
#include <torch/extension.h>

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases, int64_t stride, int64_t padding) {
    return at::conv2d(x, weights, biases, stride, padding);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "unet_conv2d/forward"); }
