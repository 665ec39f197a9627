// Residual block with batch norms in evaluation mode.
//
// Bound by the arithmetic of the convolutions, which cuDNN does; what can be saved are passes over feature maps of
// hundreds of megabytes.
// Work:     a batch norm with fixed statistics is a factor and a shift per channel. One small kernel folds the factors
//           into the weights of all convolutions and prepares the shifts, that of the shortcut added to that of the
//           second convolution. Bias, shortcut and relu then happen where cuDNN writes its results, so that no pass of
//           its own is left: three convolutions at most, and the folding. The first convolution has nothing to add; it
//           gets the shortcut with factor zero, because cuDNN wants a tensor there and this one exists and is finite.
//           cuDNN may time its algorithms, once per shape; its guess is often poor for float32 without TF32.
// Dispatch: cuDNN's; with 512 channels and 32 images the algorithm that may add loses 8 ms of 62 against one that may not
//           (measured on an H200), so there the second convolution stands alone and one pass finishes its result.
// Limits:   float32, contiguous; the folded weights are scratch of the size of the weights, and cuDNN takes a
//           workspace. Labelled as calling the library.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

#include <algorithm>
#include <optional>

namespace {

using Optional = std::optional<torch::Tensor>;

struct Fold {  // of a batch norm into the convolution before it
    const float *weight, *conv_bias, *scale, *shift, *mean, *variance;
    float* folded;
    int terms;  // of an output channel

    __device__ float factor(int channel, float eps) const { return scale[channel] / sqrtf(variance[channel] + eps); }
    __device__ float offset(int channel, float eps) const {
        const float bias = conv_bias != nullptr ? conv_bias[channel] : 0.0f;
        return shift[channel] + (bias - mean[channel]) * factor(channel, eps);
    }
};

struct Folds {
    Fold convolutions[3];  // first, second, shortcut
    float* offsets;        // per channel, of the first and of the second with the shortcut
    float eps;
};

__global__ void fold_norms(const __grid_constant__ Folds p) {
    const int channel = blockIdx.x;
    const Fold& fold = p.convolutions[blockIdx.y];
    const float factor = fold.factor(channel, p.eps);
    for (int i = threadIdx.x; i < fold.terms; i += blockDim.x)
        fold.folded[int64_t(channel) * fold.terms + i] = fold.weight[int64_t(channel) * fold.terms + i] * factor;
    if (threadIdx.x != 0 || blockIdx.y == 2) return;
    float offset = fold.offset(channel, p.eps);
    if (blockIdx.y == 1 && gridDim.y == 3) offset += p.convolutions[2].offset(channel, p.eps);
    p.offsets[blockIdx.y * gridDim.x + channel] = offset;
}

const float* data(const torch::Tensor& t) { return t.const_data_ptr<float>(); }
const float* data(const Optional& t) { return t ? t->const_data_ptr<float>() : nullptr; }

// y = relu(y + bias + shortcut), VEC elements of one channel at a time
template <int VEC>
__global__ void finish(float* y, const float* shortcut, const float* bias, int64_t vectors, int per_channel,
                       int channels) {
    const int64_t stride = int64_t(gridDim.x) * blockDim.x;
    for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < vectors; i += stride) {
        const float add = bias[i / per_channel % channels];
#pragma unroll
        for (int k = 0; k < VEC; ++k) y[i * VEC + k] = fmaxf(y[i * VEC + k] + add + shortcut[i * VEC + k], 0.0f);
    }
}

// Lets cuDNN time its algorithms for a new shape, and keeps float32 what it says.
class AlgorithmSearch {
public:
    AlgorithmSearch() : before_(at::globalContext().benchmarkCuDNN()) {
        at::globalContext().setBenchmarkCuDNN(true);
        at::globalContext().setAllowTF32CuDNN(false);
    }
    ~AlgorithmSearch() { at::globalContext().setBenchmarkCuDNN(before_); }

private:
    bool before_;
};

// relu(conv(x, weight) + bias + factor * shortcut)
torch::Tensor convolve(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                       const torch::Tensor& shortcut, double factor, int64_t stride) {
    return at::cudnn_convolution_add_relu(x, weight, shortcut, factor, bias, {stride, stride}, {1, 1}, {1, 1}, 1);
}

// The same with factor 1 and stride 1, by any algorithm of cuDNN
torch::Tensor convolve_and_finish(const torch::Tensor& x, const torch::Tensor& weight, const torch::Tensor& bias,
                                  const torch::Tensor& shortcut) {
    auto y = at::cudnn_convolution(x, weight, {1, 1}, {1, 1}, {1, 1}, 1, true, false, false);
    const int spatial = int(y.size(2) * y.size(3)), channels = int(y.size(1));
    const int vec = spatial % 4 == 0 ? 4 : 1;
    const auto kernel = vec == 4 ? finish<4> : finish<1>;
    const int64_t vectors = y.numel() / vec;
    const auto blocks = unsigned(std::min<int64_t>((vectors + 255) / 256, 132 * 16));
    kernel<<<blocks, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(y.mutable_data_ptr<float>(), data(shortcut),
                                                                  data(bias), vectors, spatial / vec, channels);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor conv1_weight, Optional conv1_bias, torch::Tensor bn1_weight,
                      torch::Tensor bn1_bias, torch::Tensor bn1_mean, torch::Tensor bn1_var, torch::Tensor conv2_weight,
                      Optional conv2_bias, torch::Tensor bn2_weight, torch::Tensor bn2_bias, torch::Tensor bn2_mean,
                      torch::Tensor bn2_var, Optional downsample_weight, Optional downsample_bias,
                      Optional downsample_bn_weight, Optional downsample_bn_bias, Optional downsample_bn_mean,
                      Optional downsample_bn_var, int64_t stride, double eps) {
    x = x.contiguous();
    const int64_t channels = conv1_weight.size(0);
    auto weight1 = torch::empty_like(conv1_weight), weight2 = torch::empty_like(conv2_weight);
    auto offsets = torch::empty({2, channels}, x.options());
    Folds folds{{{data(conv1_weight), data(conv1_bias), data(bn1_weight), data(bn1_bias), data(bn1_mean), data(bn1_var),
                  weight1.mutable_data_ptr<float>(), int(conv1_weight.numel() / channels)},
                 {data(conv2_weight), data(conv2_bias), data(bn2_weight), data(bn2_bias), data(bn2_mean), data(bn2_var),
                  weight2.mutable_data_ptr<float>(), int(conv2_weight.numel() / channels)},
                 {}},
                offsets.mutable_data_ptr<float>(),
                float(eps)};
    torch::Tensor shortcut_weight;
    if (downsample_weight) {
        shortcut_weight = torch::empty_like(*downsample_weight);
        folds.convolutions[2] = {data(downsample_weight),
                                 data(downsample_bias),
                                 data(downsample_bn_weight),
                                 data(downsample_bn_bias),
                                 data(downsample_bn_mean),
                                 data(downsample_bn_var),
                                 shortcut_weight.mutable_data_ptr<float>(),
                                 int(downsample_weight->numel() / channels)};
    }
    fold_norms<<<dim3(unsigned(channels), downsample_weight ? 3 : 2), 128, 0, c10::cuda::getCurrentCUDAStream()>>>(
        folds);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    const AlgorithmSearch search;
    auto shortcut = x;
    if (downsample_weight)
        shortcut = at::cudnn_convolution(x, shortcut_weight, {0, 0}, {stride, stride}, {1, 1}, 1, true, false, false);
    const auto hidden = convolve(x, weight1, offsets[0], shortcut, 0.0, stride);
    if (channels >= 512 && x.size(0) >= 32) return convolve_and_finish(hidden, weight2, offsets[1], shortcut);
    return convolve(hidden, weight2, offsets[1], shortcut, 1.0, 1);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
