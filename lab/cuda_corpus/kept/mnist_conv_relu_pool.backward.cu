// Backward of max-pool 2 x 2 over relu over a 3 x 3 convolution: gradients of x, weights and biases.
//
// Bound by its launches for one input channel, by multiply-adds for many. Of four convolution results one gets a
// gradient, so what has to be known of the forward pass is a number from 0 to 4 per window: which one, or that the
// relu was closed. Eager stores the convolution, its relu, 64-bit places and two gradients of that size.
// Work:     `choose`: the convolution again, as in the forward kernel: a thread has one window of 4 or 8 output
//           channels and leaves one byte for each. It also clears the two small results.
//           `gradients`: some blocks make grad_x, a thread 2 x 2 pixels of 1 or 4 input channels: the windows
//           around them give 4 x 4 gradients, 3 zeros in 4, which meet the weights in shared memory. Each of the other
//           blocks makes a part of grad_weights and grad_biases, of one image and 32 output channels, one per lane:
//           a warp walks through windows, and each lane picks the 3 x 3 inputs that its window's place asks for.
//           Images are added up atomically: the last bits of these two results vary between calls.
// Dispatch: channels per thread as the grids need. The second kernel is launched while the first one runs and waits on
//           the device for its end.
// Limits:   float32, contiguous, fewer than 2^31 inputs and results.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

#include <vector>

namespace {

constexpr int kThreads = 64, kTaps = 9, kStagedChannels = 32, kClosed = 4;
constexpr int kProcessors = 132;  // of an H200; only a guide for sizing grids

struct Layer {
    const float *x, *weights, *biases, *grad;
    uint8_t* places;  // of the maximum in each window, in the shape of grad
    float *grad_x, *grad_weights, *grad_biases;
    int images, in_channels, out_channels, height, width, pooled_height, pooled_width;
    __host__ __device__ int plane() const { return height * width; }
    __host__ __device__ int pooled() const { return pooled_height * pooled_width; }
};

template <int Width>
struct alignas(4 * Width) Floats {
    float at[Width];
};

// Adds one channel's share to the 2 x 2 sums of each of the other side's channels.
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

// ---- choose: which result of each window gets the gradient --------------------------------------------------------

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
__device__ void stage_forward(float* staged, const Layer& layer, int channel, int first, int count) {
    const int c = threadIdx.x % Channels, out = channel + c;
    const float* from = layer.weights + (int64_t(out) * layer.in_channels + first) * kTaps;
#pragma unroll 6
    for (int tap = threadIdx.x / Channels; tap < count * kTaps; tap += kThreads / Channels)
        staged[tap * Channels + c] = out < layer.out_channels ? from[tap] : 0.0f;
}

// The first of equal values wins, as in PyTorch.
template <int Channels>
__device__ void write_places(const float (&sums)[4][Channels], const Layer& layer, int channel, int image, int inner) {
    uint8_t* to = layer.places + (int64_t(image) * layer.out_channels + channel) * layer.pooled() + inner;
#pragma unroll
    for (int c = 0; c < Channels; ++c) {
        if (channel + c >= layer.out_channels) return;
        const float bias = layer.biases[channel + c];
        float top = sums[0][c] + bias;
        int place = 0;
        for (int p = 1; p < 4; ++p)
            if (sums[p][c] + bias > top) place = p, top = sums[p][c] + bias;
        to[c * layer.pooled()] = top > 0 ? place : kClosed;
    }
}

__device__ void clear(float* values, int count) {
    const int first = (blockIdx.y * gridDim.x + blockIdx.x) * kThreads + threadIdx.x;
    for (int i = first; i < count; i += gridDim.x * gridDim.y * kThreads) values[i] = 0;
}

template <int Channels, int Width>
__global__ void __launch_bounds__(kThreads, 12) choose(Layer layer) {
    cudaTriggerProgrammaticLaunchCompletion();
    __shared__ alignas(32) float staged[kStagedChannels * kTaps * Channels];
    clear(layer.grad_weights, layer.out_channels * layer.in_channels * kTaps);
    clear(layer.grad_biases, layer.out_channels);
    const int place = blockIdx.x * kThreads + threadIdx.x, channel = blockIdx.y * Channels, pooled = layer.pooled();
    const int valid = min(place, layer.images * pooled - 1), image = valid / pooled, inner = valid - image * pooled;
    const int row = inner / layer.pooled_width, column = inner - row * layer.pooled_width;
    const float* from = layer.x + image * layer.in_channels * layer.plane() + 2 * row * layer.width + 2 * column;
    float patch[16], sums[4][Channels] = {};
    for (int first = 0; first < layer.in_channels; first += kStagedChannels) {
        const int count = min(kStagedChannels, layer.in_channels - first);
        __syncthreads();  // the weights staged before are no longer needed
        stage_forward<Channels>(staged, layer, channel, first, count);
        __syncthreads();
        for (int k = 0; k < count; ++k) {
            load_patch<Width>(patch, from + (first + k) * layer.plane(), layer.width);
            convolve<Channels>(sums, patch, staged + k * kTaps * Channels);
        }
    }
    if (place == valid) write_places<Channels>(sums, layer, channel, image, inner);
}

// ---- gradients: of x ----------------------------------------------------------------------------------------------

// staged[output channel][tap][input channel], the taps in reverse: a gradient moves against the convolution.
template <int Channels>
__device__ void stage_backward(float* staged, const Layer& layer, int channel, int first, int count) {
    const int values = Channels * kTaps;
    for (int i = threadIdx.x; i < count * values; i += kThreads) {
        const int out = i / values, c = i / kTaps % Channels, tap = i % kTaps, in = channel + c;
        const float* from = layer.weights + ((int64_t(first) + out) * layer.in_channels + in) * kTaps + tap;
        staged[out * values + (kTaps - 1 - tap) * Channels + c] = in < layer.in_channels ? *from : 0.0f;
    }
}

// The gradients of the 4 x 4 convolution results in the windows (row - 1 to row) x (column - 1 to column).
__device__ void load_gradients(float (&patch)[16], const Layer& layer, int64_t plane, int row, int column) {
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        const int r = row - 1 + w / 2, c = column - 1 + w % 2;
        const bool inside = r >= 0 && r < layer.pooled_height && c >= 0 && c < layer.pooled_width;
        const int64_t at = plane * layer.pooled() + r * layer.pooled_width + c;
        const int place = inside ? layer.places[at] : kClosed;
        const float grad = inside ? layer.grad[at] : 0.0f;
        for (int p = 0; p < 4; ++p) patch[(w / 2 * 2 + p / 2) * 4 + w % 2 * 2 + p % 2] = place == p ? grad : 0.0f;
    }
}

// 2 x 2 pixels of some input channels; block numbers first, then channels.
template <int Channels>
__device__ void make_grad_x(const Layer& layer, int block, int channel) {
    __shared__ alignas(16) float staged[kStagedChannels * kTaps * Channels];
    const int rows = (layer.height + 1) / 2, columns = (layer.width + 1) / 2, all = layer.images * rows * columns;
    const int place = block * kThreads + threadIdx.x, valid = min(place, all - 1);
    const int image = valid / (rows * columns), row = valid / columns % rows, column = valid % columns;
    float patch[16], sums[4][Channels] = {};
    for (int first = 0; first < layer.out_channels; first += kStagedChannels) {
        const int count = min(kStagedChannels, layer.out_channels - first);
        __syncthreads();  // the weights staged before are no longer needed
        stage_backward<Channels>(staged, layer, channel, first, count);
        __syncthreads();
#pragma unroll(Channels == 1 ? 8 : 2)
        for (int k = 0; k < count; ++k) {
            load_gradients(patch, layer, int64_t(image) * layer.out_channels + first + k, row, column);
            convolve<Channels>(sums, patch, staged + k * kTaps * Channels);
        }
    }
    for (int p = 0; p < 4 && place == valid; ++p) {
        const int r = 2 * row + p / 2, c = 2 * column + p % 2;
        for (int i = 0; i < Channels && channel + i < layer.in_channels; ++i)
            if (r < layer.height && c < layer.width)
                layer.grad_x[(image * layer.in_channels + channel + i) * layer.plane() + r * layer.width + c] =
                    sums[p][i];
    }
}

// ---- gradients: of weights and biases -----------------------------------------------------------------------------

constexpr int kLanes = 32, kRowPad = kLanes + 1, kWarps = kThreads / kLanes;

// What make_grad_weights shares: [window][output channel].
struct Windows {
    float grads[kThreads * kRowPad];
    int starts[kThreads * kRowPad];  // of the 3 x 3 inputs, in a plane
};

// 64 windows from `first` on. They are read by window and used by channel.
__device__ void stage_windows(Windows& staged, const Layer& layer, int image, int first_out, int first) {
    const int window = first + threadIdx.x, row = window / layer.pooled_width;
    const int corner = 2 * row * layer.width + 2 * (window - row * layer.pooled_width);
#pragma unroll 16
    for (int c = 0; c < kLanes; ++c) {
        const bool inside = window < layer.pooled() && first_out + c < layer.out_channels;
        const int at = (image * layer.out_channels + first_out + c) * layer.pooled() + window;
        const int place = inside ? layer.places[at] : kClosed;
        const float grad = inside ? layer.grad[at] : 0.0f;
        staged.grads[threadIdx.x * kRowPad + c] = place == kClosed ? 0.0f : grad;
        staged.starts[threadIdx.x * kRowPad + c] =
            place == kClosed ? 0 : corner + place / 2 * layer.width + place % 2;
    }
}

// The second warp's sums are added to those of the first, in the first.
template <int Count>
__device__ void add_warps(float (&sums)[Count], float* between) {
    const int lane = threadIdx.x % kLanes;
    __syncthreads();
    for (int i = 0; i < Count && threadIdx.x >= kLanes; ++i) between[i * kLanes + lane] = sums[i];
    __syncthreads();
    for (int i = 0; i < Count && threadIdx.x < kLanes; ++i) sums[i] += between[i * kLanes + lane];
}

// One image, some input channels, 32 output channels: each lane has one of these. Every `step`-th piece of 64 windows.
template <int Channels>
__device__ void make_grad_weights(const Layer& layer, int image, int in, int first_out, int piece, int step) {
    __shared__ Windows staged;
    constexpr int Count = Channels * kTaps + 1;  // the last one is of the bias
    static_assert(kWarps == 2 && Count * kLanes <= kThreads * kRowPad);
    const int lane = threadIdx.x % kLanes, out = first_out + lane, plane = layer.plane();
    const float* x = layer.x + (image * layer.in_channels + in) * plane;
    float sums[Count] = {};
    for (int first = piece * kThreads; first < layer.pooled(); first += step * kThreads) {
        __syncthreads();  // the windows staged before are no longer needed
        stage_windows(staged, layer, image, first_out, first);
        __syncthreads();
#pragma unroll(Channels == 1 ? 4 : 1)
        for (int w = threadIdx.x / kLanes; w < min(kThreads, layer.pooled() - first); w += kWarps) {
            const float grad = staged.grads[w * kRowPad + lane];
            const float* from = x + staged.starts[w * kRowPad + lane];
            for (int i = 0; i < Count - 1; ++i) {
                const int c = min(i / kTaps, layer.in_channels - 1 - in), tap = i % kTaps;
                sums[i] = fmaf(grad, from[c * plane + tap / 3 * layer.width + tap % 3], sums[i]);
            }
            sums[Count - 1] += grad;
        }
    }
    add_warps(sums, staged.grads);
    if (threadIdx.x >= kLanes || out >= layer.out_channels) return;
    float* to = layer.grad_weights + (int64_t(out) * layer.in_channels + in) * kTaps;
    const int count = min(Channels, layer.in_channels - in) * kTaps;
    for (int i = 0; i < Count - 1; ++i)
        if (i < count) atomicAdd(to + i, sums[i]);
    if (in == 0) atomicAdd(layer.grad_biases + out, sums[Count - 1]);
}

// How the blocks of `gradients` are numbered: first those of grad_x, then images, pieces, input channels, output
// channels of grad_weights.
struct Grid {
    int x_blocks, in_groups, pieces;
};

template <int Channels>
__global__ void __launch_bounds__(kThreads) gradients(Layer layer, Grid grid) {
    cudaGridDependencySynchronize();
    const int block = blockIdx.x;
    if (block < grid.x_blocks)
        return make_grad_x<Channels>(layer, block / grid.in_groups, block % grid.in_groups * Channels);
    int rest = block - grid.x_blocks;
    const int image = rest % layer.images, piece = (rest /= layer.images) % grid.pieces;
    const int in = (rest /= grid.pieces) % grid.in_groups * Channels, out = rest / grid.in_groups * kLanes;
    make_grad_weights<Channels>(layer, image, in, out, piece, grid.pieces);
}

// ---- launches -----------------------------------------------------------------------------------------------------

int blocks_for(int64_t count, int size) { return int((count + size - 1) / size); }

template <int Channels>
void launch_choose(const Layer& layer, int blocks) {
    const dim3 grid(blocks, blocks_for(layer.out_channels, Channels));
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    if (layer.width % 2 == 0) choose<Channels, 2><<<grid, kThreads, 0, stream>>>(layer);
    else choose<Channels, 1><<<grid, kThreads, 0, stream>>>(layer);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// Pieces of an image's windows get blocks of their own where there are few blocks else: each adds to all its results.
template <int Channels>
void launch_gradients(const Layer& layer) {
    const int quads = layer.images * ((layer.height + 1) / 2) * ((layer.width + 1) / 2);
    const int groups = blocks_for(layer.in_channels, Channels), x_blocks = blocks_for(quads, kThreads) * groups;
    const int units = layer.images * groups * blocks_for(layer.out_channels, kLanes);
    const int pieces = units < 2 * kProcessors ? blocks_for(layer.pooled(), kThreads) : 1;
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = x_blocks + units * pieces;
    config.blockDim = kThreads;
    config.stream = c10::cuda::getCurrentCUDAStream();
    config.attrs = &early;
    config.numAttrs = 1;
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, gradients<Channels>, layer, Grid{x_blocks, groups, pieces}));
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases,
                                    torch::Tensor grad_output) {
    x = x.contiguous();
    weights = weights.contiguous();
    grad_output = grad_output.contiguous();
    TORCH_CHECK(weights.size(2) == 3 && weights.size(3) == 3, "the kernel must be 3 x 3");
    TORCH_CHECK(std::max(x.numel(), grad_output.numel()) < int64_t(1) << 31, "2^31 or more inputs or results");
    TORCH_CHECK(grad_output.numel() > 0, "nothing to do");
    auto grad_x = torch::empty(x.sizes(), x.options()), grad_weights = torch::empty(weights.sizes(), x.options());
    auto grad_biases = torch::empty({weights.size(0)}, x.options());
    auto places = torch::empty(grad_output.sizes(), x.options().dtype(torch::kUInt8));
    const Layer layer = {x.const_data_ptr<float>(), weights.const_data_ptr<float>(), biases.const_data_ptr<float>(),
                         grad_output.const_data_ptr<float>(), places.mutable_data_ptr<uint8_t>(),
                         grad_x.mutable_data_ptr<float>(), grad_weights.mutable_data_ptr<float>(),
                         grad_biases.mutable_data_ptr<float>(), int(x.size(0)), int(x.size(1)), int(weights.size(0)),
                         int(x.size(2)), int(x.size(3)), int(grad_output.size(2)), int(grad_output.size(3))};
    const int blocks = blocks_for(int64_t(layer.images) * layer.pooled(), kThreads);
    if (blocks * (layer.out_channels / 8) >= 4 * kProcessors) launch_choose<8>(layer, blocks);
    else launch_choose<4>(layer, blocks);
    if (layer.in_channels == 1) launch_gradients<1>(layer);
    else launch_gradients<4>(layer);
    return {grad_x, grad_weights, grad_biases};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
