// 3 x 3 convolution with stride and padding: y = conv(x, W) + b.
//
// Bound by arithmetic.
// Work:   PATH plain: a thread makes one result. PATH tensor: the products run on the tensor cores as 3xTF32: each
//         float is cut into a TF32 head and a TF32 rest, and a b = head head + head rest + rest head, which is short of
//         float32 by about 2^-21. Tensor cores round sums towards zero, so a sum in them covers 72 terms only; those
//         are added up in float32 registers. A block of 8 warps makes 64 output channels of a tile of pixels,
//         TILE_WIDTH across. Eight input channels at a time it copies, asynchronously and STAGES deep, their weights
//         and the patch of the image under all nine taps; padding arrives as zeros. A warp makes 32 channels by some
//         groups of 8 neighbouring pixels. Weight rows are 76 floats apart and planes of the patch 8 modulo 32, so that
//         the threads of a fragment hit every bank once (stride 2: twice).
// Dispatch: tiles of SMALL or LARGE groups per warp, whichever leaves less to the busiest multiprocessor, a large one
//         counting LARGE_COST percent of what its pixels would. Small ones where the weights of a channel are not
//         aligned, which are then copied float by float.
// Limits: float32, contiguous, 3 x 3; subnormal rests are lost. PATH tensor: stride 1 or 2, else plain.
// @genes@
// @include prelude.inc@
// @only PATH tensor@
#include <cuda_pipeline_primitives.h>
// @end@

namespace {

constexpr int kTaps = 9;

struct Convolution {
    const float *x, *w, *bias;
    float* y;
    int images, in, height, width, out, out_height, out_width, stride, padding, tiles_across, tiles_down;
};

// ---- plain --------------------------------------------------------------------------------------------------------

__global__ void __launch_bounds__(128) one_by_one(const Convolution p) {
    const int64_t at = int64_t(blockIdx.x) * 128 + threadIdx.x, pixels = int64_t(p.out_height) * p.out_width;
    if (at >= p.images * p.out * pixels) return;
    const int column = int(at % p.out_width), row = int(at / p.out_width % p.out_height);
    const int channel = int(at / pixels % p.out), image = int(at / pixels / p.out);
    float sum = 0;
    for (int in = 0; in < p.in; ++in)
        for (int tap = 0; tap < kTaps; ++tap) {
            const int r = row * p.stride - p.padding + tap / 3, c = column * p.stride - p.padding + tap % 3;
            if (r < 0 || r >= p.height || c < 0 || c >= p.width) continue;
            sum = fmaf(p.x[((int64_t(image) * p.in + in) * p.height + r) * p.width + c],
                       p.w[(int64_t(channel) * p.in + in) * kTaps + tap], sum);
        }
    p.y[at] = sum + p.bias[channel];
}

void launch_plain(const Convolution& p, cudaStream_t stream) {
    const int64_t results = int64_t(p.images) * p.out * p.out_height * p.out_width;
    one_by_one<<<unsigned(parts_of(results, 128)), 128, 0, stream>>>(p);
}

// @only PATH tensor@
// ---- tensor -------------------------------------------------------------------------------------------------------

constexpr int kThreads = 256, kOut = 64, kIn = 8;  // channels per block, per stage
constexpr int kTerms = kIn * kTaps, kWeightStride = kTerms + 4;
constexpr int kAcross = TILE_WIDTH / 8;  // groups of 8 pixels beside each other
constexpr int kTapUnroll = TAP_ROWS;

template <int Stride, int Groups>  // Groups groups of 8 pixels per warp, four warps beside each other
struct Patch {
    static constexpr int kHeight = 4 * Groups / kAcross;  // of the pixel tile
    static constexpr int kRows = (kHeight - 1) * Stride + 3, kColumns = (TILE_WIDTH - 1) * Stride + 3;
    static constexpr int kPlane = (kRows * kColumns + 23) / 32 * 32 + 8;
    static constexpr int kStageFloats = kOut * kWeightStride + kIn * kPlane;
    static constexpr int kSharedBytes = STAGES * kStageFloats * int(sizeof(float));
    static constexpr int kBlocks = MIN_BLOCKS * kSharedBytes <= 220 * 1024 ? MIN_BLOCKS : 1;
};

template <int Bytes>
__device__ void copy_async(float* to, const float* from, bool inside) {
    __pipeline_memcpy_async(to, from, Bytes, inside ? 0 : Bytes);
}

__device__ void multiply_add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
#ifdef __CUDACC__
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
    emulated_mma_tf32(d, a, b);
#endif
}

__device__ void cut(float v, unsigned& head, unsigned& rest) {
    head = __float_as_uint(v) & 0xffffe000u;
    rest = __float_as_uint(v - __uint_as_float(head));
}

// Weights of kOut output channels and kIn input channels; rows of kTerms floats, contiguous in memory.
template <int CopyBytes>
__device__ void fetch_weights(float* to, const Convolution& p, int first_out, int first_in) {
    constexpr int kFloats = CopyBytes / 4, kCopies = kTerms / kFloats;
    const int terms = p.in * kTaps;
    for (int index = threadIdx.x; index < kOut * kCopies; index += kThreads) {
        const int row = index / kCopies, at = index % kCopies * kFloats, term = first_in * kTaps + at;
        const bool inside = first_out + row < p.out && term < terms;
        copy_async<CopyBytes>(to + row * kWeightStride + at,
                              inside ? p.w + int64_t(first_out + row) * terms + term : p.w, inside);
    }
}

template <class P>
__device__ void fetch_patch(float* to, const Convolution& p, const float* image, int first_in, int first_row,
                            int first_column) {
    constexpr int kFloats = P::kRows * P::kColumns;
#pragma unroll 1  // more would keep addresses in registers that the products need
    for (int index = threadIdx.x; index < kIn * kFloats; index += kThreads) {
        const int plane = index / kFloats, at = index % kFloats;
        const int row = first_row + at / P::kColumns, column = first_column + at % P::kColumns;
        const bool inside =
            first_in + plane < p.in && unsigned(row) < unsigned(p.height) && unsigned(column) < unsigned(p.width);
        const float* from = image + (int64_t(first_in + plane) * p.height + row) * p.width + column;
        copy_async<4>(to + plane * P::kPlane + at, inside ? from : p.x, inside);
    }
}

template <int Groups>
struct Sums {
    float at[2][Groups][4];  // [16 output channels][8 pixels][element of the thread]
};

// Adds the products of one stage: 32 output channels, Groups groups of pixels, 8 input channels, 9 taps.
template <int Stride, int Groups>
__device__ void accumulate(Sums<Groups>& sums, const float* weights, const float* patch, int first_group) {
    using P = Patch<Stride, Groups>;
    const int group = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
    Sums<Groups> part = {};
#pragma unroll kTapUnroll
    for (int tap_row = 0; tap_row < 3; ++tap_row)
#pragma unroll
        for (int tap_column = 0; tap_column < 3; ++tap_column) {
            unsigned head[2][4], rest[2][4];
#pragma unroll
            for (int i = 0; i < 8; ++i) {
                const int row = i / 4 * 16 + i % 2 * 8 + group, channel = i / 2 % 2 * 4 + quad;
                cut(weights[row * kWeightStride + channel * kTaps + tap_row * 3 + tap_column], head[i / 4][i % 4],
                    rest[i / 4][i % 4]);
            }
#pragma unroll
            for (int pair = 0; pair < Groups; pair += 2) {
                unsigned b_head[2][2], b_rest[2][2];
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    const int number = first_group + pair + j;
                    const int row = number / kAcross * Stride + tap_row;
                    const int column = (number % kAcross * 8 + group) * Stride + tap_column;
                    const float* from = patch + quad * P::kPlane + row * P::kColumns + column;
                    cut(from[0], b_head[j][0], b_rest[j][0]);
                    cut(from[4 * P::kPlane], b_head[j][1], b_rest[j][1]);
                }
#pragma unroll
                for (int i = 0; i < 4; ++i) multiply_add(part.at[i / 2][pair + i % 2], rest[i / 2], b_head[i % 2]);
#pragma unroll
                for (int i = 0; i < 4; ++i) multiply_add(part.at[i / 2][pair + i % 2], head[i / 2], b_rest[i % 2]);
#pragma unroll
                for (int i = 0; i < 4; ++i) multiply_add(part.at[i / 2][pair + i % 2], head[i / 2], b_head[i % 2]);
            }
        }
#pragma unroll
    for (int i = 0; i < 2 * Groups * 4; ++i)
        sums.at[i / 4 / Groups][i / 4 % Groups][i % 4] += part.at[i / 4 / Groups][i / 4 % Groups][i % 4];
}

// The thread holds two neighbouring pixels of a channel.
__device__ void store_pair(const Convolution& p, int image, int channel, int row, int column, float2 v) {
    if (channel >= p.out || row >= p.out_height || column >= p.out_width) return;
    const float bias = p.bias[channel];
    float* to = p.y + ((int64_t(image) * p.out + channel) * p.out_height + row) * p.out_width + column;
    if (p.out_width % 2 == 0) {
        write(reinterpret_cast<float2*>(to), float2{v.x + bias, v.y + bias});
    } else {
        to[0] = v.x + bias;
        if (column + 1 < p.out_width) to[1] = v.y + bias;
    }
}

template <int Stride, int Groups, int CopyBytes>
__global__ void __launch_bounds__(kThreads, (Patch<Stride, Groups>::kBlocks)) convolve(const Convolution p) {
    using P = Patch<Stride, Groups>;
    extern __shared__ float stages[];
    const int tile = blockIdx.x, image = tile / (p.tiles_across * p.tiles_down), first_out = blockIdx.y * kOut;
    const int first_row = tile / p.tiles_across % p.tiles_down * P::kHeight;
    const int first_column = tile % p.tiles_across * TILE_WIDTH;
    const float* planes = p.x + int64_t(image) * p.in * p.height * p.width;
    const int steps = (p.in + kIn - 1) / kIn, warp = threadIdx.x / 32;
    const auto fetch = [&](int step) {
        float* stage = stages + step % STAGES * P::kStageFloats;
        if (step < steps) {
            fetch_weights<CopyBytes>(stage, p, first_out, step * kIn);
            fetch_patch<P>(stage + kOut * kWeightStride, p, planes, step * kIn, first_row * Stride - p.padding,
                           first_column * Stride - p.padding);
        }
        __pipeline_commit();
    };
    for (int step = 0; step < STAGES - 1; ++step) fetch(step);
    Sums<Groups> sums = {};
    const int warp_out = warp / 4 * 32, first_group = warp % 4 * Groups;
    for (int step = 0; step < steps; ++step) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();  // the stage is there, and everybody is done with the one before, which is filled now
        fetch(step + STAGES - 1);
        const float* stage = stages + step % STAGES * P::kStageFloats;
        accumulate<Stride, Groups>(sums, stage + warp_out * kWeightStride, stage + kOut * kWeightStride, first_group);
    }
    const int group = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < Groups; ++j) {
            const int row = first_row + (first_group + j) / kAcross;
            const int column = first_column + (first_group + j) % kAcross * 8 + quad * 2;
            const float* pair = &sums.at[i / 2][j][i % 2 * 2];
            store_pair(p, image, first_out + warp_out + i * 8 + group, row, column, {pair[0], pair[1]});
        }
}

template <int Stride, int Groups, int CopyBytes>
void launch_tiles(Convolution p, cudaStream_t stream) {
    using P = Patch<Stride, Groups>;
    p.tiles_across = int(parts_of(p.out_width, TILE_WIDTH));
    p.tiles_down = int(parts_of(p.out_height, P::kHeight));
    const auto kernel = convolve<Stride, Groups, CopyBytes>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, P::kSharedBytes);
    const dim3 grid(p.images * p.tiles_across * p.tiles_down, parts_of(p.out, kOut));
    kernel<<<grid, kThreads, P::kSharedBytes, stream>>>(p);
}

// The work of the busiest multiprocessor in tiles of a height, in hundredths of groups.
int64_t cost(const Convolution& p, int height, int64_t percent) {
    const int64_t tiles = p.images * parts_of(p.out_width, TILE_WIDTH) * parts_of(p.out_height, height);
    return parts_of(tiles * parts_of(p.out, kOut), processors()) * height * percent;
}

template <int Stride>
void launch_tensor(const Convolution& p, cudaStream_t stream) {
    const bool large = cost(p, Patch<Stride, LARGE>::kHeight, LARGE_COST) < cost(p, Patch<Stride, SMALL>::kHeight, 100);
    if (p.in % 4 != 0) launch_tiles<Stride, SMALL, 4>(p, stream);
    else if (large) launch_tiles<Stride, LARGE, 16>(p, stream);
    else launch_tiles<Stride, SMALL, 16>(p, stream);
}

// @end@
void launch_convolution(const Convolution& p, cudaStream_t stream) {
#if PATH == PATH_TENSOR
    if (p.stride == 1) return launch_tensor<1>(p, stream);
    if (p.stride == 2) return launch_tensor<2>(p, stream);
#endif
    launch_plain(p, stream);
}

}  // namespace

extern "C" int64_t workspace_floats(int, int, int, int, int, int, int) { return 0; }

extern "C" int launch(const float* x, const float* w, const float* bias, float* y, float*, int images, int in, int out,
                      int height, int width, int stride, int padding, void* on) {
    const int out_height = (height + 2 * padding - 3) / stride + 1, out_width = (width + 2 * padding - 3) / stride + 1;
    launch_convolution({x, w, bias, y, images, in, height, width, out, out_height, out_width, stride, padding, 0, 0},
                       static_cast<cudaStream_t>(on));
    return cudaGetLastError();
}

// ---- torch --------------------------------------------------------------------------------------------------------

// @include torch.inc@

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases, int64_t stride, int64_t padding) {
    TORCH_CHECK(weights.size(2) == 3 && weights.size(3) == 3, "the filter is not 3x3");
    x = x.contiguous();
    weights = weights.contiguous();
    biases = biases.contiguous();
    const int64_t out_height = (x.size(2) + 2 * padding - 3) / stride + 1;
    const int64_t out_width = (x.size(3) + 2 * padding - 3) / stride + 1;
    auto y = torch::empty({x.size(0), weights.size(0), out_height, out_width}, x.options());
    check(launch(data(x), data(weights), data(biases), room(y), nullptr, int(x.size(0)), int(x.size(1)),
                 int(weights.size(0)), int(x.size(2)), int(x.size(3)), int(stride), int(padding), stream()));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
