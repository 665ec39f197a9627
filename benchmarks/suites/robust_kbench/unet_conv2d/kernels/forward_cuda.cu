// 3x3 convolution with stride and padding: y = conv(x, W) + b.
//
// Bound by arithmetic. The products run on the tensor cores as 3xTF32: each float is cut into a TF32 head and a TF32
// rest, and a b = head head + head rest + rest head, which is short of float32 by about 2^-21. Tensor cores round sums
// towards zero, so a sum in them covers 72 terms only; those are added up in float32 registers with rounding to
// nearest.
// Work:     one block of 8 warps computes 64 output channels of 16 x 8 or 16 x 4 pixels of one image. Eight input
//           channels at a time it copies, asynchronously and three stages deep, their weights and the patch of the
//           image under all nine taps; padding arrives as zeros. The patch is the operand of nine products, shifted by
//           the tap, so nothing is unrolled in memory. A warp computes 32 channels by four or two groups of 8
//           neighbouring pixels. Weight rows are 76 floats apart and planes of the patch 8 modulo 32, so that the 32
//           threads of a fragment hit every bank once (stride 2: twice).
// Dispatch: large or small pixel tiles, whichever leaves less to the busiest multiprocessor. Weights are copied 16
//           bytes at a time where the number of input channels is a multiple of 4, otherwise float by float.
// Limits:   float32, contiguous, 3x3, stride 1 or 2; subnormal rests are lost.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

namespace {

constexpr int kThreads = 256, kStages = 3, kTaps = 9;
constexpr int kOut = 64, kIn = 8;  // channels per block, per stage
constexpr int kWidth = 16;         // of the pixel tile
constexpr int kTerms = kIn * kTaps, kWeightStride = kTerms + 4;

struct Convolution {
    const float *x, *w, *bias;
    float* y;
    int in, height, width, out, out_height, out_width, padding, tiles_across, tiles_down;
};

template <int stride, int kGroups>  // kGroups groups of 8 pixels per warp, four warps beside each other
struct Patch {
    static constexpr int kHeight = kGroups * 2;  // of the pixel tile
    static constexpr int kRows = (kHeight - 1) * stride + 3, kColumns = (kWidth - 1) * stride + 3;
    static constexpr int kPlane = (kRows * kColumns + 23) / 32 * 32 + 8;
    static constexpr int kStageFloats = kOut * kWeightStride + kIn * kPlane;
    static constexpr int kSharedBytes = kStages * kStageFloats * int(sizeof(float));
    static constexpr int kBlocks = stride == 1 || kGroups == 2 ? 2 : 1;  // per multiprocessor, for registers
};

template <int bytes>
__device__ void copy_async(void* to, const void* from, bool inside) {
    const unsigned address = unsigned(__cvta_generic_to_shared(to));
    const int valid = inside ? bytes : 0;  // what is not valid becomes zero
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from), "n"(bytes), "r"(valid)
                 : "memory");
}

__device__ void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int pending>
__device__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(pending) : "memory");
}

__device__ void multiply_add(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

__device__ void cut(float v, unsigned& head, unsigned& rest) {
    head = __float_as_uint(v) & 0xffffe000u;
    rest = __float_as_uint(v - __uint_as_float(head));
}

// Weights of kOut output channels and kIn input channels; rows of kTerms floats, contiguous in memory.
template <int kCopyBytes>
__device__ void fetch_weights(float* to, const Convolution& p, int first_out, int first_in) {
    constexpr int kFloats = kCopyBytes / 4, kCopies = kTerms / kFloats;
    const int terms = p.in * kTaps;
    for (int index = threadIdx.x; index < kOut * kCopies; index += kThreads) {
        const int row = index / kCopies, at = index % kCopies * kFloats, term = first_in * kTaps + at;
        const bool inside = first_out + row < p.out && term < terms;
        copy_async<kCopyBytes>(to + row * kWeightStride + at,
                               inside ? p.w + int64_t(first_out + row) * terms + term : p.w, inside);
    }
}

template <typename P>
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

template <int kGroups>
using Sums = float[2][kGroups][4];  // [16 output channels][8 pixels][element of the thread]

// Adds the products of one stage: 32 output channels, kGroups groups of pixels, 8 input channels, 9 taps.
template <int stride, int kGroups>
__device__ void accumulate(Sums<kGroups>& sums, const float* weights, const float* patch, int first_group) {
    using P = Patch<stride, kGroups>;
    const int group = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
    Sums<kGroups> part{};
#pragma unroll 1
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
            for (int pair = 0; pair < kGroups; pair += 2) {
                unsigned b_head[2][2], b_rest[2][2];
#pragma unroll
                for (int j = 0; j < 2; ++j) {
                    const int row = (first_group + pair + j) / 2 * stride + tap_row;
                    const int column = ((first_group + pair + j) % 2 * 8 + group) * stride + tap_column;
                    const float* from = patch + quad * P::kPlane + row * P::kColumns + column;
                    cut(from[0], b_head[j][0], b_rest[j][0]);
                    cut(from[4 * P::kPlane], b_head[j][1], b_rest[j][1]);
                }
#pragma unroll
                for (int i = 0; i < 4; ++i) multiply_add(part[i / 2][pair + i % 2], rest[i / 2], b_head[i % 2]);
#pragma unroll
                for (int i = 0; i < 4; ++i) multiply_add(part[i / 2][pair + i % 2], head[i / 2], b_rest[i % 2]);
#pragma unroll
                for (int i = 0; i < 4; ++i) multiply_add(part[i / 2][pair + i % 2], head[i / 2], b_head[i % 2]);
            }
        }
#pragma unroll
    for (int i = 0; i < 2 * kGroups * 4; ++i)
        sums[i / 4 / kGroups][i / 4 % kGroups][i % 4] += part[i / 4 / kGroups][i / 4 % kGroups][i % 4];
}

// The thread holds two neighbouring pixels of a channel.
__device__ void store_pair(const Convolution& p, int image, int channel, int row, int column, float2 v) {
    if (channel >= p.out || row >= p.out_height || column >= p.out_width) return;
    const float bias = __ldg(p.bias + channel);
    float* to = p.y + ((int64_t(image) * p.out + channel) * p.out_height + row) * p.out_width + column;
    if (p.out_width % 2 == 0) {
        *reinterpret_cast<float2*>(to) = {v.x + bias, v.y + bias};
    } else {
        to[0] = v.x + bias;
        if (column + 1 < p.out_width) to[1] = v.y + bias;
    }
}

template <int stride, int kGroups, int kCopyBytes>
__global__ void __launch_bounds__(kThreads, Patch<stride, kGroups>::kBlocks) convolve(const Convolution p) {
    using P = Patch<stride, kGroups>;
    extern __shared__ float stages[];
    const int tile = blockIdx.x, image = tile / (p.tiles_across * p.tiles_down), first_out = blockIdx.y * kOut;
    const int first_row = tile / p.tiles_across % p.tiles_down * P::kHeight,
              first_column = tile % p.tiles_across * kWidth;
    const float* planes = p.x + int64_t(image) * p.in * p.height * p.width;
    const int steps = (p.in + kIn - 1) / kIn, warp = threadIdx.x / 32;
    const auto fetch = [&](int step) {
        float* stage = stages + step % kStages * P::kStageFloats;
        if (step < steps) {
            fetch_weights<kCopyBytes>(stage, p, first_out, step * kIn);
            fetch_patch<P>(stage + kOut * kWeightStride, p, planes, step * kIn, first_row * stride - p.padding,
                           first_column * stride - p.padding);
        }
        commit_copies();
    };
    for (int step = 0; step < kStages - 1; ++step) fetch(step);
    Sums<kGroups> sums{};
    const int warp_out = warp / 4 * 32, first_group = warp % 4 * kGroups;
    for (int step = 0; step < steps; ++step) {
        wait_for_copies<kStages - 2>();
        __syncthreads();  // the stage is there, and everybody is done with the one before, which is filled now
        fetch(step + kStages - 1);
        const float* stage = stages + step % kStages * P::kStageFloats;
        accumulate<stride, kGroups>(sums, stage + warp_out * kWeightStride, stage + kOut * kWeightStride, first_group);
    }
    const int group = threadIdx.x % 32 / 4, quad = threadIdx.x % 4;
#pragma unroll
    for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < kGroups; ++j) {
            const int row = first_row + (first_group + j) / 2,
                      column = first_column + (first_group + j) % 2 * 8 + quad * 2;
            const float* pair = &sums[i / 2][j][i % 2 * 2];
            store_pair(p, image, first_out + warp_out + i * 8 + group, row, column, {pair[0], pair[1]});
        }
}

int multiprocessor_count() {
    int device, count;
    C10_CUDA_CHECK(cudaGetDevice(&device));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
    return count;
}

int ceil_div(int a, int b) { return (a + b - 1) / b; }

template <int stride, int kGroups>
void launch(Convolution p, int batch) {
    using P = Patch<stride, kGroups>;
    p.tiles_across = ceil_div(p.out_width, kWidth);
    p.tiles_down = ceil_div(p.out_height, P::kHeight);
    const auto kernel = p.in % 4 == 0 ? convolve<stride, kGroups, 16> : convolve<stride, kGroups, 4>;
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, P::kSharedBytes));
    const dim3 grid(batch * p.tiles_across * p.tiles_down, ceil_div(p.out, kOut));
    kernel<<<grid, kThreads, P::kSharedBytes, c10::cuda::getCurrentCUDAStream()>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// The work of the busiest multiprocessor, in small tiles; a large tile counts a little less than two.
float cost(const Convolution& p, int batch, int height, float weight) {
    const int tiles = batch * ceil_div(p.out_width, kWidth) * ceil_div(p.out_height, height) * ceil_div(p.out, kOut);
    return float(ceil_div(tiles, multiprocessor_count())) * weight;
}

template <int stride>
void launch_tiles(const Convolution& p, int batch) {
    if (cost(p, batch, Patch<stride, 4>::kHeight, 1.8f) < cost(p, batch, Patch<stride, 2>::kHeight, 1.0f)) {
        launch<stride, 4>(p, batch);
    } else {
        launch<stride, 2>(p, batch);
    }
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases, int64_t stride, int64_t padding) {
    TORCH_CHECK(stride == 1 || stride == 2, "stride ", stride, " is not 1 or 2");
    TORCH_CHECK(weights.size(2) == 3 && weights.size(3) == 3, "the filter is not 3x3");
    x = x.contiguous();
    weights = weights.contiguous();
    biases = biases.contiguous();
    const int64_t out_height = (x.size(2) + 2 * padding - 3) / stride + 1,
                  out_width = (x.size(3) + 2 * padding - 3) / stride + 1;
    auto y = torch::empty({x.size(0), weights.size(0), out_height, out_width}, x.options());
    const Convolution p{x.const_data_ptr<float>(),
                        weights.const_data_ptr<float>(),
                        biases.const_data_ptr<float>(),
                        y.mutable_data_ptr<float>(),
                        int(x.size(1)),
                        int(x.size(2)),
                        int(x.size(3)),
                        int(weights.size(0)),
                        int(out_height),
                        int(out_width),
                        int(padding),
                        0,
                        0};
    if (stride == 1) {
        launch_tiles<1>(p, int(x.size(0)));
    } else {
        launch_tiles<2>(p, int(x.size(0)));
    }
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
