// 3 x 3 convolution without padding, relu, max-pool over 2 x 2 windows.
//
// Bound by its launch for one input channel, by multiply-adds for many. The convolution's result never leaves the
// registers.
// Work:     a thread makes one pooled place of CHANNELS output channels. A patch of an input
//           channel, held in registers, serves all of them. The weights lie in shared memory with the channels side by
//           side, STAGED input channels at a time.
// Dispatch: the places of all images are numbered through and cut in blocks of THREADS. FEWER: half as many channels
//           per thread where the blocks would not occupy every processor four times.
// Limits:   float32, contiguous, fewer than 2^31 inputs and results; an odd last row or column of the convolution is
//           dropped, as in PyTorch.
// @genes@
// @include prelude.inc@

namespace {

constexpr int kTaps = 9;

struct Layer {
    const float *x, *weights, *biases;
    float* y;
    int images, in_channels, out_channels, height, width, pooled_height, pooled_width;
    __host__ __device__ int pooled() const { return pooled_height * pooled_width; }
};

// Four rows of four inputs. An even width, and so an even start, allows two at a time.
template <int Width>
__device__ void load_patch(float (&patch)[4][4], const float* from, int width) {
#pragma unroll
    for (int row = 0; row < 4; ++row) load<Width>(patch[row], from + row * width);
}

// staged[input channel][tap][output channel] for `count` input channels from `first` on, with zeros for output channels
// that do not exist.
template <int Channels>
__device__ void stage_weights(float* staged, const Layer& layer, int channel, int first, int count) {
    for (int i = threadIdx.x; i < count * kTaps * Channels; i += THREADS) {
        const int tap = i / Channels, c = i % Channels, out = channel + c;
        const int64_t from = (int64_t(out) * layer.in_channels + first) * kTaps + tap;
        staged[i] = out < layer.out_channels ? layer.weights[from] : 0.0f;
    }
}

// Adds one input channel's share to the sums of the 2 x 2 convolution results of each output channel.
template <int Channels>
__device__ void convolve(float (&sums)[4][Channels], const float (&patch)[4][4], const float* staged) {
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
        alignas(16) float weights[Channels];
        using Vector = typename VectorOf<(Channels < 4 ? Channels : 4)>::type;
#pragma unroll
        for (int c = 0; c < Channels; c += 4)
            *reinterpret_cast<Vector*>(weights + c) =
                *reinterpret_cast<const Vector*>(staged + tap * Channels + c);
#pragma unroll
        for (int i = 0; i < 4 * Channels; ++i) {
            const int place = i / Channels, c = i % Channels;
            sums[place][c] = fmaf(patch[place / 2 + tap / 3][place % 2 + tap % 3], weights[c], sums[place][c]);
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

constexpr int kUnroll = UNROLL;

template <int Channels, int Width>
__global__ void __launch_bounds__(THREADS, MIN_BLOCKS) conv_relu_pool(const Layer layer) {
    __shared__ alignas(16) float staged[STAGED * kTaps * Channels];
    const int place = blockIdx.x * THREADS + threadIdx.x, channel = blockIdx.y * Channels, pooled = layer.pooled();
    const int valid = min(place, layer.images * pooled - 1), image = valid / pooled, inner = valid - image * pooled;
    const int row = inner / layer.pooled_width, column = inner - row * layer.pooled_width;
    const int plane = layer.height * layer.width;
    const float* from = layer.x + image * layer.in_channels * plane + 2 * row * layer.width + 2 * column;
    float sums[4][Channels] = {};
    for (int first = 0; first < layer.in_channels; first += STAGED) {
        const int count = min(STAGED, layer.in_channels - first);
        if (first > 0) __syncthreads();  // the weights staged before are no longer needed
        stage_weights<Channels>(staged, layer, channel, first, count);
        __syncthreads();
#pragma unroll kUnroll
        for (int k = 0; k < count; ++k) {
            alignas(16) float patch[4][4];
            load_patch<Width>(patch, from + (first + k) * plane, layer.width);
            convolve<Channels>(sums, patch, staged + k * kTaps * Channels);
        }
    }
    if (place == valid) write_pooled<Channels>(sums, layer, channel, image, inner);
}

template <int Channels>
void launch_layer(const Layer& layer, int64_t blocks, cudaStream_t stream) {
    const dim3 grid(blocks, parts_of(layer.out_channels, Channels));
    if (layer.width % 2 == 0) conv_relu_pool<Channels, 2><<<grid, THREADS, 0, stream>>>(layer);
    else conv_relu_pool<Channels, 1><<<grid, THREADS, 0, stream>>>(layer);
}

}  // namespace

extern "C" int64_t workspace_floats(int, int, int, int, int) { return 0; }

extern "C" int launch(const float* x, const float* weights, const float* biases, float* y, float*, int images,
                      int in_channels, int out_channels, int height, int width, void* on) {
    const auto stream = static_cast<cudaStream_t>(on);
    const Layer layer = {x, weights, biases, y, images, in_channels, out_channels, height, width, (height - 2) / 2,
                         (width - 2) / 2};
    const int64_t blocks = parts_of(int64_t(images) * layer.pooled(), THREADS);
    const bool few = blocks * (out_channels / CHANNELS) < 4 * processors();
    if (FEWER && few) launch_layer<(CHANNELS > 1 ? CHANNELS / 2 : 1)>(layer, blocks, stream);
    else launch_layer<CHANNELS>(layer, blocks, stream);
    return cudaGetLastError();
}

// ---- torch --------------------------------------------------------------------------------------------------------

// @include torch.inc@

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    x = x.contiguous();
    weights = weights.contiguous();
    biases = biases.contiguous();
    const int64_t height = x.size(2), width = x.size(3), outputs = weights.size(0);
    TORCH_CHECK(weights.size(2) == 3 && weights.size(3) == 3, "the kernel must be 3 x 3");
    auto y = torch::empty({x.size(0), outputs, (height - 2) / 2, (width - 2) / 2}, x.options());
    TORCH_CHECK(std::max(x.numel(), y.numel()) < int64_t(1) << 31, "2^31 or more inputs or results");
    if (y.numel() == 0) return y;
    check(launch(data(x), data(weights), data(biases), room(y), nullptr, int(x.size(0)), int(x.size(1)), int(outputs),
                 int(height), int(width), stream()));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
