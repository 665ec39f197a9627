// Residual block with batch norms in evaluation mode.
//
// Bound by the arithmetic of the convolutions, which the library does.
// Work:   a batch norm with fixed statistics is a factor and a shift per channel, so it is folded into the weights of
//         the convolution before it: three passes over the feature maps are saved. The last sum and relu are one pass.
// Limits: float32, contiguous; the folded weights are scratch of the size of the weights. Labelled as calling the
//         library.
#include <torch/extension.h>

#include <algorithm>
#include <optional>
#include <tuple>

namespace {

using Optional = std::optional<torch::Tensor>;

// conv(x, weight) followed by a norm, as one convolution
torch::Tensor folded(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& scale, const torch::Tensor& shift,
                     const torch::Tensor& mean, const torch::Tensor& variance, double eps, int64_t stride, int64_t padding) {
    const auto factor = scale / at::sqrt(variance + eps);
    return at::conv2d(x, weight * factor.view({-1, 1, 1, 1}), shift - mean * factor, stride, padding);
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor conv1_weight, Optional conv1_bias, torch::Tensor bn1_weight,
                      torch::Tensor bn1_bias, torch::Tensor bn1_mean, torch::Tensor bn1_var, torch::Tensor conv2_weight,
                      Optional conv2_bias, torch::Tensor bn2_weight, torch::Tensor bn2_bias, torch::Tensor bn2_mean,
                      torch::Tensor bn2_var, Optional downsample_weight, Optional downsample_bias,
                      Optional downsample_bn_weight, Optional downsample_bn_bias, Optional downsample_bn_mean,
                      Optional downsample_bn_var, int64_t stride, double eps) {
    TORCH_CHECK(!conv1_bias && !conv2_bias && !downsample_bias, "the convolutions of this block have no bias");
    auto hidden = folded(x, conv1_weight, bn1_weight, bn1_bias, bn1_mean, bn1_var, eps, stride, 1).relu_();
    auto y = folded(hidden, conv2_weight, bn2_weight, bn2_bias, bn2_mean, bn2_var, eps, 1, 1).contiguous();
    auto shortcut = x;
    if (downsample_weight)
        shortcut = folded(x, *downsample_weight, *downsample_bn_weight, *downsample_bn_bias, *downsample_bn_mean,
                          *downsample_bn_var, eps, stride, 0)
                       .contiguous();
    float* __restrict__ out = y.data_ptr<float>();
    const float* __restrict__ add = shortcut.data_ptr<float>();
    at::parallel_for(0, y.numel(), 16384, [&](int64_t first, int64_t last) {
#pragma omp simd
        for (int64_t i = first; i < last; ++i) out[i] = std::max(out[i] + add[i], 0.0f);
    });
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "resnet_block/forward"); }
