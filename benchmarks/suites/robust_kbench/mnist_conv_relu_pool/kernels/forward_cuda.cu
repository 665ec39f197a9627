// 3 x 3 convolution without padding, relu, max-pool over 2 x 2 windows.
//
// Bound by its launch for one input channel, by multiply-adds for many. Eager stores and reloads the convolution's
// result twice, four times the size of y; here it never leaves the registers.
// Work:     a thread makes one pooled place of 4 or 8 output channels, that is 16 or 32 sums. A 4 x 4 patch of an input
//           channel, held in registers, serves all of them: 288 multiply-adds for 16 inputs and 72 weights. The
//           weights lie in shared memory with the channels side by side, so four come with one load that all threads
//           share. Neighbours' patches overlap, which the cache serves; while a warp waits for one, others multiply.
// Dispatch: the places of all images are numbered through and cut in blocks of 64, small enough to share them out
//           evenly; registers are limited so that twelve blocks run on a processor at once. 8 channels per thread if
//           that gives every processor four blocks, else 4. Rows of even width are read as float2, others as single
//           floats. Weights are staged for 32 input channels at a time.
// Limits:   float32, contiguous, fewer than 2^31 inputs and results; an odd last row or column of the convolution is
//           dropped, as in PyTorch.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

namespace {

constexpr int kThreads = 64, kBlocks = 12, kTaps = 9, kStagedChannels = 32;
constexpr int kProcessors = 132;  // of an H200; only a guide for sizing grids

struct Layer {
    const float *x, *weights, *biases;
    float* y;
    int images, in_channels, out_channels, height, width, pooled_height, pooled_width;
    __host__ __device__ int pooled() const { return pooled_height * pooled_width; }
};

template <int Width>
struct alignas(4 * Width) Floats {
    float at[Width];
};

// Four rows of four inputs. An even width, and so an even start, allows two at a time.
template <int Width>
__device__ void load_patch(float (&patch)[16], const float* from, int width) {
#pragma unroll
    for (int i = 0; i < 16; i += Width) {
        const auto part = *reinterpret_cast<const Floats<Width>*>(from + i / 4 * width + i % 4);
        for (int e = 0; e < Width; ++e) patch[i + e] = part.at[e];
    }
}

// staged[input channel][tap][output channel] for `count` input channels from `first` on, with zeros for output channels
// that do not exist. Neighbouring threads have neighbouring output channels, so that they write side by side.
template <int Channels>
__device__ void stage_weights(float* staged, const Layer& layer, int channel, int first, int count) {
    const int c = threadIdx.x % Channels, out = channel + c;
    const float* from = layer.weights + (int64_t(out) * layer.in_channels + first) * kTaps;
#pragma unroll 6
    for (int tap = threadIdx.x / Channels; tap < count * kTaps; tap += kThreads / Channels)
        staged[tap * Channels + c] = out < layer.out_channels ? from[tap] : 0.0f;
}

// Adds one input channel's share to the sums of the 2 x 2 convolution results of each output channel.
template <int Channels>
__device__ void convolve(float (&sums)[4][Channels], const float (&patch)[16], const float* staged) {
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
        const auto weights = *reinterpret_cast<const Floats<Channels>*>(staged + tap * Channels);
        for (int place = 0; place < 4; ++place) {
            const float value = patch[(place / 2 + tap / 3) * 4 + place % 2 + tap % 3];
            for (int c = 0; c < Channels; ++c) sums[place][c] = fmaf(value, weights.at[c], sums[place][c]);
        }
    }
}

// Bias and relu keep the order of values, so the maximum can go first.
template <int Channels>
__device__ void write_pooled(const float (&sums)[4][Channels], const Layer& layer, int channel, int image, int place) {
    float* to = layer.y + (int64_t(image) * layer.out_channels + channel) * layer.pooled() + place;
#pragma unroll
    for (int c = 0; c < Channels; ++c) {
        if (channel + c >= layer.out_channels) return;
        const float top = fmaxf(fmaxf(sums[0][c], sums[1][c]), fmaxf(sums[2][c], sums[3][c]));
        to[c * layer.pooled()] = fmaxf(top + layer.biases[channel + c], 0.0f);
    }
}

template <int Channels, int Width>
__global__ void __launch_bounds__(kThreads, kBlocks) conv_relu_pool(Layer layer) {
    __shared__ alignas(32) float staged[kStagedChannels * kTaps * Channels];
    const int place = blockIdx.x * kThreads + threadIdx.x, channel = blockIdx.y * Channels, pooled = layer.pooled();
    const int valid = min(place, layer.images * pooled - 1), image = valid / pooled, inner = valid - image * pooled;
    const int row = inner / layer.pooled_width, column = inner - row * layer.pooled_width;
    const int plane = layer.height * layer.width;
    const float* from = layer.x + image * layer.in_channels * plane + 2 * row * layer.width + 2 * column;
    float patch[16], sums[4][Channels] = {};
    for (int first = 0; first < layer.in_channels; first += kStagedChannels) {
        const int count = min(kStagedChannels, layer.in_channels - first);
        __syncthreads();  // the weights staged before are no longer needed
        stage_weights<Channels>(staged, layer, channel, first, count);
        __syncthreads();
        for (int k = 0; k < count; ++k) {
            load_patch<Width>(patch, from + (first + k) * plane, layer.width);
            convolve<Channels>(sums, patch, staged + k * kTaps * Channels);
        }
    }
    if (place == valid) write_pooled<Channels>(sums, layer, channel, image, inner);
}

template <int Channels>
void launch(const Layer& layer, int blocks, cudaStream_t stream) {
    const dim3 grid(blocks, (layer.out_channels + Channels - 1) / Channels);
    if (layer.width % 2 == 0) conv_relu_pool<Channels, 2><<<grid, kThreads, 0, stream>>>(layer);
    else conv_relu_pool<Channels, 1><<<grid, kThreads, 0, stream>>>(layer);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    x = x.contiguous();
    weights = weights.contiguous();
    const int64_t height = x.size(2), width = x.size(3), outputs = weights.size(0);
    TORCH_CHECK(weights.size(2) == 3 && weights.size(3) == 3, "the kernel must be 3 x 3");
    auto y = torch::empty({x.size(0), outputs, (height - 2) / 2, (width - 2) / 2}, x.options());
    TORCH_CHECK(std::max(x.numel(), y.numel()) < int64_t(1) << 31, "2^31 or more inputs or results");
    if (y.numel() == 0) return y;
    const Layer layer = {x.const_data_ptr<float>(), weights.const_data_ptr<float>(), biases.const_data_ptr<float>(),
                         y.mutable_data_ptr<float>(), int(x.size(0)), int(x.size(1)), int(outputs), int(height),
                         int(width), int(y.size(2)), int(y.size(3))};
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    const int blocks = (layer.images * layer.pooled() + kThreads - 1) / kThreads;
    if (blocks * (layer.out_channels / 8) >= 4 * kProcessors) launch<8>(layer, blocks, stream);
    else launch<4>(layer, blocks, stream);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
