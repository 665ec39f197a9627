// Residual block with batch norms in evaluation mode: two 3x3 convolutions, and one of 1x1 in the shortcut.
//
// Bound by arithmetic with many channels, with 64 also by passes over feature maps of hundreds of megabytes.
// Work:     the products run on the tensor cores as float16 with compensation (see numerics). One kernel writes the
//           input as an image in halves, channels last in chunks of 32, zeros around, head and rest apart; the first
//           convolution writes its results in the same form, so no pass lies between the convolutions. Another
//           prepares the weights in the order in which they are used. Norm, shortcut and relu happen in registers.
//           A convolution is one persistent kernel with a block per multiprocessor: a warp copies patches of the image
//           (one for all nine taps) and weights (tap by tap, up to six stages) into shared memory; two warpgroups
//           multiply 128 or 256 pixels by 128 or 64 channels. Pixels come from shared memory by ldmatrix, shifted by
//           the tap, weights go to wgmma where they lie. Rows of 64 bytes are swizzled, so banks do not conflict.
// Numerics: x / 16 = head + rest / 2048, both float16; weights are scaled by a power of two per output channel and cut
//           in the same way; w x = head head + rest head + head rest, which leaves out 2^-22 of a product, as against
//           2^-24 of float32. Tensor cores round sums towards zero, so a sum in them covers 96 terms only; those are
//           added up in float32 registers. Error at most 0.10 of what the task allows on all its configurations.
// Measured: scripts/kernel_lab.py, H200: 32 images of 64 channels 2,397 us (eager 6,873), 256 to 512 channels 18.0 ms
//           (90.1). Loads of the shortcut that each wait behind a store: 3,190; pixels of the next tap loaded ahead:
//           2,667, as registers spill.
// Dispatch: 128 channels per tile if there are more than 64; tall tiles where there are enough for all multiprocessors.
// Limits:   float32, contiguous; values above 10^6 overflow, those below 10^-5 lose digits; scratch of 1.3 times the
//           input and the hidden map. Compute capability 9.0 only: elsewhere it raises an error that says so.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <optional>

using Optional = std::optional<torch::Tensor>;

namespace {

constexpr int kIn = 32, kWide = 16;  // channels of a chunk; pixels of a tile beside each other
constexpr int kConsumers = 256, kThreads = kConsumers + 128;
constexpr float kScale = 1.0f / 16;  // of the image: heads stay finite up to a million

// ---- shared memory and its barriers ---------------------------------------------------------------------------------

__device__ unsigned shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }
__device__ void wait_for(unsigned barrier, unsigned parity) {
    asm volatile(
        "{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
        "@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}
__device__ void begin_barrier(unsigned barrier, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}
__device__ void arrive(unsigned barrier) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ void expect(unsigned barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ void copy_bulk(unsigned to, const void* from, int bytes, unsigned barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}

// ---- matrix products ------------------------------------------------------------------------------------------------

#define OF_4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define OF_16(d, i) OF_4(d, i), OF_4(d, i + 4), OF_4(d, i + 8), OF_4(d, i + 12)

// d = a b, or d += a b, for 64 pixels and 128 or 64 channels; a thread's share of the results is d.
__device__ void multiply_async(float (&d)[64], const unsigned (&a)[4], uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
        " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
        " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "{%64, %65, %66, %67}, %68, p, 1, 1, 0;\n}"
        : OF_16(d, 0), OF_16(d, 16), OF_16(d, 32), OF_16(d, 48)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(add)));
}

__device__ void multiply_async(float (&d)[32], const unsigned (&a)[4], uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
        "{%32, %33, %34, %35}, %36, p, 1, 1, 0;\n}"
        : OF_16(d, 0), OF_16(d, 16)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(add)));
}

// Rows of 64 bytes in the swizzle of 64 bytes.
__device__ uint64_t descriptor(unsigned address) {
    return uint64_t((address & 0x3ffff) >> 4) | uint64_t(1) << 16 | uint64_t(512 >> 4) << 32 | uint64_t(2) << 62;
}

__device__ void load_fragment(unsigned (&a)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(address)
                 : "memory");
}

// ---- layouts --------------------------------------------------------------------------------------------------------

// A feature map in halves, with zeros around: [image][chunk of 32 channels][head, rest * 2048][row][column][channel].
struct Image {
    char* data;
    int chunks, rows, columns, margin;  // rows and columns with everything around
    __host__ __device__ int64_t plane() const { return int64_t(rows) * columns * 64; }  // bytes
    __device__ char* at(int image, int chunk, int rest, int row, int column) const {
        return data + ((int64_t(image) * chunks + chunk) * 2 + rest) * plane() + (int64_t(row) * columns + column) * 64;
    }
};

__device__ int swizzled(int chunk16, int row) { return (chunk16 ^ (row >> 1 & 3)) * 16; }

__device__ void split(float x, float y, unsigned& head, unsigned& rest) {
    const __half2 h = __floats2half2_rn(x * kScale, y * kScale);
    const float2 f = __half22float2(h);
    const __half2 r = __floats2half2_rn((x * kScale - f.x) * 2048, (y * kScale - f.y) * 2048);
    head = reinterpret_cast<const unsigned&>(h);
    rest = reinterpret_cast<const unsigned&>(r);
}

// One warp: 8 columns of a row, all of a chunk's channels.
__global__ void __launch_bounds__(256) make_image(const float* x, Image to, int channels, int height, int width) {
    const int lane = threadIdx.x % 32, column = (blockIdx.x * 8 + threadIdx.x / 32) * 8 + lane % 8, part = lane / 8;
    const int row = blockIdx.y, chunk = blockIdx.z % to.chunks, image = blockIdx.z / to.chunks;
    if (column >= to.columns) return;
    const int y = row - to.margin, x0 = column - to.margin;
    const bool inside = unsigned(y) < unsigned(height) && unsigned(x0) < unsigned(width);
    const int first = chunk * kIn + part * 8;
    const float* from = x + ((int64_t(image) * channels + first) * height + y) * width + x0;
    float v[8];
#pragma unroll
    for (int i = 0; i < 8; ++i)
        v[i] = inside && first + i < channels ? __ldcs(from + int64_t(i) * height * width) : 0.0f;
    uint4 head, rest;
    split(v[0], v[1], head.x, rest.x);
    split(v[2], v[3], head.y, rest.y);
    split(v[4], v[5], head.z, rest.z);
    split(v[6], v[7], head.w, rest.w);
    const int place = swizzled(part, column);
    *reinterpret_cast<uint4*>(to.at(image, chunk, 0, row, column) + place) = head;
    *reinterpret_cast<uint4*>(to.at(image, chunk, 1, row, column) + place) = rest;
}

// Zeros around a feature map whose inner part is written by a convolution.
__global__ void __launch_bounds__(256) clear_margin(Image to, int height, int width) {
    const int row = blockIdx.y;
    const bool whole = row < to.margin || row >= to.margin + height;
    char* line = to.data + int64_t(blockIdx.z) * to.plane() + int64_t(row) * to.columns * 64;
    for (int i = threadIdx.x; i < to.columns * 4; i += 256) {
        const int column = i / 4;
        if (whole || column < to.margin || column >= to.margin + width) reinterpret_cast<uint4*>(line)[i] = {};
    }
}

struct Norm {  // after a convolution; null pointers where there is none
    const float *scale, *shift, *mean, *variance, *bias;
    float eps;
};

// The largest of some values, by size; called once per block of 256 threads.
__device__ float largest(const float* values, int count) {
    __shared__ float tops[8];
    float top = 0;
    for (int i = threadIdx.x; i < count; i += 256) top = fmaxf(top, fabsf(values[i]));
    for (int offset = 16; offset > 0; offset /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, offset));
    if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = top;
    __syncthreads();
    for (int i = 0; i < 8; ++i) top = fmaxf(top, tops[i]);
    return top;
}

// Weights of one output channel: [tile of kN][chunk][tap][head, rest, weight / 2048][channel of the tile][32], each
// channel scaled by a power of two. The factor and the offset of its results take that back and apply the norm.
__global__ void __launch_bounds__(256)
    make_weights(const float* w, char* to, float2* finish, Norm norm, int out, int in, int taps, int tile) {
    const int channel = blockIdx.x, chunks = (in + kIn - 1) / kIn, terms = in * taps;
    const float* from = w + int64_t(channel) * terms;
    const bool exists = channel < out;
    const float top = largest(from, exists ? terms : 0);
    const float scale = exp2f(float(top > 0 ? max(-100, min(100, 13 - ilogbf(top))) : 0));
    const int row = channel % tile;
    char* base = to + int64_t(channel / tile) * chunks * taps * 3 * tile * 64 + row * 64;
    for (int i = threadIdx.x; i < chunks * taps * kIn; i += 256) {
        const int c = i % kIn, tap = i / kIn % taps, chunk = i / kIn / taps;
        const float v = exists && chunk * kIn + c < in ? from[(chunk * kIn + c) * taps + tap] * scale : 0.0f;
        const __half head = __float2half_rn(v);
        char* at = base + (int64_t(chunk) * taps + tap) * 3 * tile * 64 + swizzled(c / 8, row) + c % 8 * 2;
        *reinterpret_cast<__half*>(at) = head;
        *reinterpret_cast<__half*>(at + tile * 64) = __float2half_rn(v - __half2float(head));
        *reinterpret_cast<__half*>(at + 2 * tile * 64) = __float2half_rn(v / 2048);
    }
    if (threadIdx.x != 0 || !exists) return;
    float factor = 1, offset = norm.bias != nullptr ? norm.bias[channel] : 0.0f;
    if (norm.scale != nullptr) {
        factor = norm.scale[channel] / sqrtf(norm.variance[channel] + norm.eps);
        offset = norm.shift[channel] + (offset - norm.mean[channel]) * factor;
    }
    finish[channel] = {factor / scale / kScale, offset};
}

// ---- the convolution ------------------------------------------------------------------------------------------------

struct Convolution {
    Image x;
    const char* weights;
    const float2* finish;   // factor and offset per output channel
    const float* shortcut;  // added before relu, or null
    float* y;               // results as floats, or null:
    Image hidden;           // results for the next convolution
    int out, height, width, batch;  // of the results
    int taps, relu;                 // 9, or 1 in the middle
    int across, down, out_tiles;
};

template <int kStride, int kN, int kBlocks>  // kBlocks times 64 pixels per warpgroup
struct Plan {
    static constexpr int kHigh = kBlocks * 8;
    static constexpr int kPatchRows = (kHigh - 1) * kStride + 3, kPatchColumns = (kWide - 1) * kStride + 3;
    static constexpr int kRowBytes = kPatchColumns * 64, kHalfBytes = (kPatchRows * kRowBytes + 127) / 128 * 128;
    static constexpr int kPatchBytes = 2 * kHalfBytes, kWeightBytes = 3 * kN * 64;
    static constexpr int kRoom = (232448 - 2048 - 2 * kPatchBytes) / kWeightBytes, kStages = kRoom < 6 ? kRoom : 6;
    static constexpr int kSharedBytes = kStages * kWeightBytes + 2 * kPatchBytes + 1024;
    static_assert(kStages >= 2 && kN * kBlocks <= 128);
};

struct Place {  // of a tile
    int image, row, column, out_tile;
    __device__ Place(const Convolution& p, int tile, int high) : out_tile(tile % p.out_tiles) {
        const int rest = tile / p.out_tiles;
        column = rest % p.across * kWide;
        row = rest / p.across % p.down * high;
        image = rest / p.across / p.down;
    }
};

template <class P, int kStride>
__device__ void produce(const Convolution& p, unsigned weights, unsigned patches, unsigned barriers, int tiles) {
    const int lane = threadIdx.x % 32;
    unsigned stage = 0, stage_turn = 0, patch = 0, patch_turn = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const Place place(p, tile, P::kHigh);
        const char* from = p.weights + int64_t(place.out_tile) * p.x.chunks * p.taps * P::kWeightBytes;
        for (int chunk = 0; chunk < p.x.chunks; ++chunk) {
            const unsigned full = barriers + patch * 8, to = patches + patch * P::kPatchBytes;
            wait_for(full + 16, (patch_turn & 1) ^ 1);
            if (lane == 0) expect(full, 2 * P::kPatchRows * P::kRowBytes);
            __syncwarp();
            for (int i = lane; i < 2 * P::kPatchRows; i += 32) {
                const int rest = i / P::kPatchRows, row = i % P::kPatchRows;
                const char* line = p.x.at(place.image, chunk, rest, place.row * kStride + row, place.column * kStride);
                copy_bulk(to + rest * P::kHalfBytes + row * P::kRowBytes, line, P::kRowBytes, full);
            }
            if (++patch == 2) patch = 0, ++patch_turn;
            for (int tap = 0; tap < p.taps; ++tap) {
                const unsigned filled = barriers + 32 + stage * 8;
                wait_for(filled + P::kStages * 8, (stage_turn & 1) ^ 1);
                if (lane == 0) {
                    expect(filled, P::kWeightBytes);
                    copy_bulk(weights + stage * P::kWeightBytes, from, P::kWeightBytes, filled);
                }
                from += P::kWeightBytes;
                if (++stage == P::kStages) stage = 0, ++stage_turn;
            }
        }
    }
}

// What a consumer has reached; it goes on from tile to tile.
struct Progress {
    unsigned stage, stage_turn, patch, patch_turn;
};

// The products of one tap and 32 channels, added to a part or beginning it anew.
template <class P, int kStride, int kN, int kBlocks>
__device__ void multiply_tap(float (&part)[kBlocks][kN / 2], unsigned patch, unsigned weights, int tap_row,
                             int tap_column, bool anew) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x % kConsumers / 32;
    const int column = (lane % 16) * kStride + tap_column;
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        unsigned head[kBlocks][4], rest[kBlocks][4];
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
            // a warp has 16 pixels, one row of the tile; the columns of an image decide about its swizzle
            const int row = ((warp / 4 * kBlocks + b) * 4 + warp % 4) * kStride + tap_row;
            const unsigned from = patch + row * P::kRowBytes + column * 64 + swizzled(k * 2 + lane / 16, column);
            load_fragment(head[b], from);
            load_fragment(rest[b], from + P::kHalfBytes);
        }
        const uint64_t w_head = descriptor(weights + k * 32), w_rest = descriptor(weights + kN * 64 + k * 32),
                       w_small = descriptor(weights + 2 * kN * 64 + k * 32);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
            multiply_async(part[b], rest[b], w_small, k > 0 || !anew);
            multiply_async(part[b], head[b], w_rest, true);
            multiply_async(part[b], head[b], w_head, true);
        }
        asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
        if (k == 0) asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
    }
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (int i = 0; i < kBlocks * kN / 2; ++i)
        asm volatile("" : "+f"(part[i / (kN / 2)][i % (kN / 2)])::"memory");  // not to be read before
}

// Tensor cores round sums towards zero, so they add up a row of taps only; the parts are added in float32.
template <class P, int kStride, int kN, int kBlocks>
__device__ void sum_tile(const Convolution& p, float (&sums)[kBlocks][kN / 2], unsigned weights, unsigned patches,
                         unsigned barriers, Progress& at) {
    const int lane = threadIdx.x % 32;
    float part[kBlocks][kN / 2];
#pragma unroll
    for (int i = 0; i < kBlocks * kN / 2; ++i) sums[i / (kN / 2)][i % (kN / 2)] = part[i / (kN / 2)][i % (kN / 2)] = 0;
    for (int chunk = 0; chunk < p.x.chunks; ++chunk) {
        wait_for(barriers + at.patch * 8, at.patch_turn & 1);
        const unsigned patch = patches + at.patch * P::kPatchBytes;
        for (int tap = 0; tap < p.taps; ++tap) {
            const unsigned filled = barriers + 32 + at.stage * 8, stage = weights + at.stage * P::kWeightBytes;
            const int tap_row = p.taps == 1 ? 1 : tap / 3, tap_column = p.taps == 1 ? 1 : tap % 3;
            wait_for(filled, at.stage_turn & 1);
            multiply_tap<P, kStride, kN>(part, patch, stage, tap_row, tap_column, p.taps == 1 || tap_column == 0);
            __syncwarp();
            if (lane == 0) arrive(filled + P::kStages * 8);
            if (++at.stage == P::kStages) at.stage = 0, ++at.stage_turn;
            if (tap_column < 2 && p.taps > 1) continue;
#pragma unroll
            for (int i = 0; i < kBlocks * kN / 2; ++i)
                sums[i / (kN / 2)][i % (kN / 2)] += part[i / (kN / 2)][i % (kN / 2)];
        }
        if (lane == 0) arrive(barriers + 16 + at.patch * 8);
        if (++at.patch == 2) at.patch = 0, ++at.patch_turn;
    }
}

// Where the thread's results e (two of them) of block b lie; i counts pairs of channels.
template <int kBlocks>
struct Pixel {
    int row, column;
    __device__ Pixel(const Place& place, int b, int e) {
        const int thread = threadIdx.x % kConsumers, warp = thread / 32;
        row = place.row + (warp / 4 * kBlocks + b) * 4 + warp % 4;
        column = place.column + thread % 32 / 4 + e * 8;
    }
    __device__ bool inside(const Convolution& p) const { return row < p.height && column < p.width; }
    __device__ int64_t at(const Convolution& p, int image, int channel) const {
        return ((int64_t(image) * p.out + channel) * p.height + row) * p.width + column;
    }
};

__device__ int first_channel(const Place& place, int tile_channels, int i) {
    return place.out_tile * tile_channels + i * 8 + threadIdx.x % 4 * 2;
}

// All loads come before the first store of a tile: behind one, each would wait for memory.
template <int kN, int kBlocks>
__device__ void add_shortcut(const Convolution& p, float (&sums)[kBlocks][kN / 2], const Place& place) {
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) {
        if (i % (16 / kBlocks) == 0) __syncwarp();  // 16 at once: more would not fit the registers
        const int channel = first_channel(place, kN, i / 4) + i % 2;
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
            const Pixel<kBlocks> pixel(place, b, i / 2 % 2);
            if (channel < p.out && pixel.inside(p))
                sums[b][i] += __ldcs(p.shortcut + pixel.at(p, place.image, channel));
        }
    }
}

template <int kN, int kBlocks>
__device__ void finish_tile(const Convolution& p, float (&sums)[kBlocks][kN / 2], const Place& place) {
#pragma unroll
    for (int i = 0; i < kN / 2; ++i) {
        const int channel = first_channel(place, kN, i / 4) + i % 2;
        const float2 finish = channel < p.out ? __ldg(p.finish + channel) : float2{};
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) sums[b][i] = sums[b][i] * finish.x + finish.y;
    }
    if (p.shortcut != nullptr) add_shortcut<kN>(p, sums, place);
    if (!p.relu) return;
#pragma unroll
    for (int i = 0; i < kBlocks * kN / 2; ++i)
        sums[i / (kN / 2)][i % (kN / 2)] = fmaxf(sums[i / (kN / 2)][i % (kN / 2)], 0.0f);
}

// Two channels of a pixel, for the next convolution.
__device__ void store_halves(const Image& to, int image, int channel, int row, int column, float v, float next) {
    unsigned head, rest;
    split(v, next, head, rest);
    char* pixel = to.at(image, channel / kIn, 0, row + to.margin, column + to.margin) +
                  swizzled(channel % kIn / 8, column + to.margin) + channel % 8 * 2;
    *reinterpret_cast<unsigned*>(pixel) = head;
    *reinterpret_cast<unsigned*>(pixel + to.plane()) = rest;
}

template <int kN, int kBlocks>
__device__ void store_tile(const Convolution& p, const float (&sums)[kBlocks][kN / 2], const Place& place) {
#pragma unroll
    for (int i = 0; i < kN / 2; i += 2) {
        const int channel = first_channel(place, kN, i / 4);
#pragma unroll
        for (int b = 0; b < kBlocks; ++b) {
            const Pixel<kBlocks> pixel(place, b, i / 2 % 2);
            if (!pixel.inside(p)) continue;
            if (p.y == nullptr) {
                if (channel / kIn < p.hidden.chunks)
                    store_halves(p.hidden, place.image, channel, pixel.row, pixel.column, sums[b][i], sums[b][i + 1]);
                continue;
            }
            if (channel < p.out) p.y[pixel.at(p, place.image, channel)] = sums[b][i];
            if (channel + 1 < p.out) p.y[pixel.at(p, place.image, channel + 1)] = sums[b][i + 1];
        }
    }
}

// Two warpgroups compute a tile together, one warp of a third fetches for them.
template <int kStride, int kN, int kBlocks>
__global__ void __launch_bounds__(kThreads, 1) convolve(const __grid_constant__ Convolution p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    using P = Plan<kStride, kN, kBlocks>;
    extern __shared__ char raw[];
    __shared__ __align__(8) uint64_t barrier_room[4 + 2 * 6];
    const unsigned weights = (shared_address(raw) + 1023) / 1024 * 1024;
    const unsigned patches = weights + P::kStages * P::kWeightBytes;
    const unsigned barriers = shared_address(barrier_room);  // patches full, empty, weights full, empty
    const int tiles = p.batch * p.down * p.across * p.out_tiles;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4 + 2 * P::kStages; ++i) {
            const bool empty = i < 4 ? i >= 2 : i - 4 >= P::kStages;
            begin_barrier(barriers + i * 8, empty ? kConsumers / 32 : 1);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x >= kConsumers) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x < kConsumers + 32) produce<P, kStride>(p, weights, patches, barriers, tiles);
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    Progress at{};
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const Place place(p, tile, P::kHigh);
        float sums[kBlocks][kN / 2];
        sum_tile<P, kStride, kN>(p, sums, weights, patches, barriers, at);
        finish_tile<kN>(p, sums, place);
        store_tile<kN>(p, sums, place);
    }
#endif
}

int multiprocessor_count() {
    int device, count;
    C10_CUDA_CHECK(cudaGetDevice(&device));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device));
    return count;
}

int ceil_div(int a, int b) { return (a + b - 1) / b; }
const float* data(const Optional& t) { return t ? t->const_data_ptr<float>() : nullptr; }
const float* data(const torch::Tensor& t) { return t.const_data_ptr<float>(); }

torch::Tensor scratch(int64_t bytes, const torch::Tensor& like) {
    return torch::empty({(bytes + 3) / 4}, like.options());
}
char* address(const torch::Tensor& scratch) { return reinterpret_cast<char*>(scratch.mutable_data_ptr<float>()); }

// An image for a 3 x 3 convolution with `stride` and this many results, whose tiles may be of 16 x 16 pixels.
Image image_of(int channels, int out_height, int out_width, int stride, int margin) {
    const int rows = (ceil_div(out_height, 16) * 16 - 1) * stride + 3;
    const int columns = (ceil_div(out_width, 16) * 16 - 1) * stride + 3;
    return {nullptr, ceil_div(channels, kIn), rows, columns, margin};
}

int64_t bytes_of(const Image& image, int batch) { return int64_t(batch) * image.chunks * 2 * image.plane(); }

void fill_image(const torch::Tensor& x, const Image& to) {
    const dim3 grid(ceil_div(to.columns, 64), to.rows, unsigned(x.size(0) * to.chunks));
    make_image<<<grid, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(data(x), to, int(x.size(1)), int(x.size(2)),
                                                                    int(x.size(3)));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <int kStride, int kN, int kBlocks>
void launch(Convolution p) {
    using P = Plan<kStride, kN, kBlocks>;
    const auto kernel = convolve<kStride, kN, kBlocks>;
    p.across = ceil_div(p.width, kWide);
    p.down = ceil_div(p.height, P::kHigh);
    p.out_tiles = ceil_div(p.out, kN);
    const int tiles = p.batch * p.down * p.across * p.out_tiles;
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, P::kSharedBytes));
    const int blocks = std::min(tiles, multiprocessor_count());
    kernel<<<blocks, kThreads, P::kSharedBytes, c10::cuda::getCurrentCUDAStream()>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// Prepares the weights, (out, in, taps), and convolves. Small tiles where tall ones would leave processors idle.
void convolve_with(const torch::Tensor& w, const Norm& norm, Convolution p, int stride) {
    const int in = int(w.size(1)), tile = p.out <= 64 ? 64 : 128, padded = ceil_div(p.out, tile) * tile;
    p.taps = int(w.numel() / p.out / in);
    auto weights = scratch(int64_t(padded) * p.x.chunks * p.taps * 3 * 64, w), finish = scratch(int64_t(padded) * 8, w);
    p.weights = address(weights);
    p.finish = reinterpret_cast<const float2*>(address(finish));
    make_weights<<<padded, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        data(w), address(weights), reinterpret_cast<float2*>(address(finish)), norm, p.out, in, p.taps, tile);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    const int tall = p.batch * ceil_div(p.width, 16) * ceil_div(p.height, 16);
    if (stride == 1 && tile == 128) launch<1, 128, 1>(p);
    else if (stride == 1 && tall >= multiprocessor_count()) launch<1, 64, 2>(p);
    else if (stride == 1) launch<1, 64, 1>(p);
    else if (tile == 128) launch<2, 128, 1>(p);
    else launch<2, 64, 1>(p);
}

// Raises where wgmma is missing, which belongs to this one architecture.
void check_device() {
    int device, major;
    C10_CUDA_CHECK(cudaGetDevice(&device));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    TORCH_CHECK(major == 9, "this kernel needs a GPU of compute capability 9.0 (Hopper), here it is ", major, ".x");
}

void clear_hidden(const Image& hidden, int batch, int height, int width) {
    const dim3 grid(1, hidden.rows, unsigned(batch * hidden.chunks * 2));
    clear_margin<<<grid, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(hidden, height, width);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor conv1_weight, Optional conv1_bias, torch::Tensor bn1_weight,
                      torch::Tensor bn1_bias, torch::Tensor bn1_mean, torch::Tensor bn1_var, torch::Tensor conv2_weight,
                      Optional conv2_bias, torch::Tensor bn2_weight, torch::Tensor bn2_bias, torch::Tensor bn2_mean,
                      torch::Tensor bn2_var, Optional downsample_weight, Optional downsample_bias,
                      Optional downsample_bn_weight, Optional downsample_bn_bias, Optional downsample_bn_mean,
                      Optional downsample_bn_var, int64_t stride, double eps) {
    check_device();
    x = x.contiguous();
    const int out = int(conv1_weight.size(0)), batch = int(x.size(0));
    const int height = int((x.size(2) - 1) / stride + 1), width = int((x.size(3) - 1) / stride + 1);
    auto y = torch::empty({batch, out, height, width}, x.options()), shortcut = x;
    Convolution p{};
    p.out = out, p.height = height, p.width = width, p.batch = batch, p.relu = 1;
    p.x = image_of(int(x.size(1)), height, width, int(stride), 1);
    p.hidden = image_of(out, height, width, 1, 1);
    auto room = scratch(bytes_of(p.x, batch), x), hidden_room = scratch(bytes_of(p.hidden, batch), x);
    p.x.data = address(room), p.hidden.data = address(hidden_room);
    fill_image(x, p.x);
    clear_hidden(p.hidden, batch, height, width);
    const Norm norm1{data(bn1_weight), data(bn1_bias), data(bn1_mean), data(bn1_var), data(conv1_bias), float(eps)};
    const Norm norm2{data(bn2_weight), data(bn2_bias), data(bn2_mean), data(bn2_var), data(conv2_bias), float(eps)};
    convolve_with(conv1_weight.contiguous(), norm1, p, int(stride));
    if (downsample_weight) {
        const Norm norm{data(downsample_bn_weight), data(downsample_bn_bias), data(downsample_bn_mean),
                        data(downsample_bn_var),    data(downsample_bias),    float(eps)};
        shortcut = torch::empty_like(y);
        Convolution s = p;
        s.y = shortcut.mutable_data_ptr<float>(), s.relu = 0;
        convolve_with(downsample_weight->contiguous(), norm, s, int(stride));
    }
    p.x = p.hidden;
    p.y = y.mutable_data_ptr<float>();
    p.shortcut = data(shortcut);
    convolve_with(conv2_weight.contiguous(), norm2, p, 1);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
