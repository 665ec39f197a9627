// Basic residual block in evaluation mode. The convolutions are left to the library (cuDNN through ATen, in float32); what
// is searched here is what lies around them.
//
// Bound by arithmetic in the convolutions; each pass over a feature map costs its reading and writing.
// Work:   NORMS folded: a kernel writes the weights of all convolutions with the norm behind them multiplied in, so that
//         only an offset per channel is left; library: norms by the library, one after the other. EPILOGUE fused: offset,
//         shortcut and relu are part of the library's convolution; own: they are one kernel over its result, WIDTH
//         floats at a time, STEPS per thread. TRIALS lets cuDNN time its algorithms for a new shape.
// Limits: float32, contiguous.
// @genes@
// @include prelude.inc@

namespace {

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

__global__ void __launch_bounds__(FOLD_THREADS) fold_norms(const Folds p) {
    const int channel = blockIdx.x;
    const Fold& fold = p.convolutions[blockIdx.y];
    const float factor = fold.factor(channel, p.eps);
    for (int i = threadIdx.x; i < fold.terms; i += FOLD_THREADS)
        fold.folded[int64_t(channel) * fold.terms + i] = fold.weight[int64_t(channel) * fold.terms + i] * factor;
    if (threadIdx.x != 0 || blockIdx.y == 2) return;
    float offset = fold.offset(channel, p.eps);
    if (blockIdx.y == 1 && gridDim.y == 3) offset += p.convolutions[2].offset(channel, p.eps);
    p.offsets[blockIdx.y * gridDim.x + channel] = offset;
}

// values = relu(values + offset of the channel + shortcut, if there is one)
template <int Width>
__global__ void __launch_bounds__(THREADS)
    finish(float* values, const float* shortcut, const float* offsets, int64_t packs, int plane_packs, int channels) {
    const int64_t first = int64_t(blockIdx.x) * THREADS * STEPS + threadIdx.x;
#pragma unroll
    for (int s = 0; s < STEPS; ++s) {
        const int64_t at = first + int64_t(s) * THREADS;
        if (at >= packs) continue;
        alignas(16) float v[Width], other[Width] = {};
        load<Width>(v, values + at * Width);
        if (shortcut != nullptr) load<Width>(other, shortcut + at * Width);
        const float offset = offsets[at / plane_packs % channels];
#pragma unroll
        for (int e = 0; e < Width; ++e) v[e] = fmaxf(v[e] + offset + other[e], 0.0f);
        store<Width>(values + at * Width, v);
    }
}

template <int Width>
int launch_finish(float* values, const float* shortcut, const float* offsets, int64_t count, int plane, int channels,
                  cudaStream_t stream) {
    const int64_t packs = count / Width;
    const unsigned blocks = unsigned(parts_of(packs, THREADS * STEPS));
    finish<Width><<<blocks, THREADS, 0, stream>>>(values, shortcut, offsets, packs, plane / Width, channels);
    return cudaGetLastError();
}

}  // namespace

// ---- torch --------------------------------------------------------------------------------------------------------

// @include torch.inc@
#include <optional>

namespace {

using Optional = std::optional<torch::Tensor>;

const float* data(const Optional& tensor) { return tensor ? tensor->const_data_ptr<float>() : nullptr; }

// Lets cuDNN time its algorithms for a new shape, and keeps float32 what it says.
class Library {
public:
    Library() : before_(at::globalContext().benchmarkCuDNN()) {
        at::globalContext().setBenchmarkCuDNN(TRIALS);
        at::globalContext().setAllowTF32CuDNN(false);
    }
    ~Library() { at::globalContext().setBenchmarkCuDNN(before_); }

private:
    bool before_;
};

struct Norm {
    torch::Tensor weight, bias, mean, var;
};

torch::Tensor bare(const torch::Tensor& x, const torch::Tensor& weight, int64_t stride, int64_t padding) {
    return at::cudnn_convolution(x, weight, {padding, padding}, {stride, stride}, {1, 1}, 1, TRIALS, false, false);
}

// relu(conv(x, weight) + offsets + shortcut, if there is one)
[[maybe_unused]] torch::Tensor convolve(const torch::Tensor& x, const torch::Tensor& weight,
                                        const torch::Tensor& offsets, const Optional& shortcut, int64_t stride) {
#if EPILOGUE == EPILOGUE_FUSED
    return at::cudnn_convolution_add_relu(x, weight, shortcut ? *shortcut : x, shortcut ? 1.0 : 0.0, offsets,
                                          {stride, stride}, {1, 1}, {1, 1}, 1);
#else
    auto y = bare(x, weight, stride, 1);
    const int plane = int(y.size(2) * y.size(3)), channels = int(y.size(1));
    const auto run = plane % WIDTH == 0 ? launch_finish<WIDTH> : launch_finish<1>;
    check(run(room(y), data(shortcut), data(offsets), y.numel(), plane, channels,
              static_cast<cudaStream_t>(stream())));
    return y;
#endif
}

[[maybe_unused]] torch::Tensor normed(const torch::Tensor& x, const Norm& norm, double eps) {
    return at::batch_norm(x, norm.weight, norm.bias, norm.mean, norm.var, false, 0.0, eps, true);
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor conv1_weight, Optional conv1_bias, torch::Tensor bn1_weight,
                      torch::Tensor bn1_bias, torch::Tensor bn1_mean, torch::Tensor bn1_var, torch::Tensor conv2_weight,
                      Optional conv2_bias, torch::Tensor bn2_weight, torch::Tensor bn2_bias, torch::Tensor bn2_mean,
                      torch::Tensor bn2_var, Optional downsample_weight, Optional downsample_bias,
                      Optional downsample_bn_weight, Optional downsample_bn_bias, Optional downsample_bn_mean,
                      Optional downsample_bn_var, int64_t stride, double eps) {
    x = x.contiguous();
    const Library library;
#if NORMS == NORMS_LIBRARY
    TORCH_CHECK(!conv1_bias && !conv2_bias && !downsample_bias, "the convolutions have no bias");
    auto hidden = at::relu(normed(bare(x, conv1_weight, stride, 1), {bn1_weight, bn1_bias, bn1_mean, bn1_var}, eps));
    hidden = normed(bare(hidden, conv2_weight, 1, 1), {bn2_weight, bn2_bias, bn2_mean, bn2_var}, eps);
    if (!downsample_weight) return at::relu(hidden + x);
    const Norm norm = {*downsample_bn_weight, *downsample_bn_bias, *downsample_bn_mean, *downsample_bn_var};
    return at::relu(hidden + normed(bare(x, *downsample_weight, stride, 0), norm, eps));
#else
    const int64_t channels = conv1_weight.size(0);
    auto weight1 = torch::empty_like(conv1_weight), weight2 = torch::empty_like(conv2_weight);
    auto offsets = torch::empty({2, channels}, x.options());
    Folds folds = {{{data(conv1_weight), data(conv1_bias), data(bn1_weight), data(bn1_bias), data(bn1_mean),
                     data(bn1_var), room(weight1), int(conv1_weight.numel() / channels)},
                    {data(conv2_weight), data(conv2_bias), data(bn2_weight), data(bn2_bias), data(bn2_mean),
                     data(bn2_var), room(weight2), int(conv2_weight.numel() / channels)},
                    {}},
                   room(offsets),
                   float(eps)};
    torch::Tensor weight3;
    if (downsample_weight) {
        weight3 = torch::empty_like(*downsample_weight);
        folds.convolutions[2] = {data(downsample_weight),    data(downsample_bias),
                                 data(downsample_bn_weight), data(downsample_bn_bias),
                                 data(downsample_bn_mean),   data(downsample_bn_var),
                                 room(weight3),              int(weight3.numel() / channels)};
    }
    const dim3 grid(unsigned(channels), downsample_weight ? 3 : 2);
    fold_norms<<<grid, FOLD_THREADS, 0, static_cast<cudaStream_t>(stream())>>>(folds);
    check(cudaGetLastError());
    const auto shortcut = downsample_weight ? bare(x, weight3, stride, 0) : x;
    const auto hidden = convolve(x, weight1, offsets[0], std::nullopt, stride);
    return convolve(hidden, weight2, offsets[1], shortcut, 1);
#endif
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
