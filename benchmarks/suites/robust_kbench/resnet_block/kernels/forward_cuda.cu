// Residual block with batch norms in evaluation mode: two 3x3 convolutions, and one of 1x1 in the shortcut.
//
// Bound by arithmetic with many channels, with 64 also by passes over feature maps of hundreds of megabytes.
// Work:     the products run on the tensor cores as float16 with compensation (see numerics). One kernel writes the
//           input as an image in halves, channels in chunks of 16, zeros around, head and rest apart; the first
//           convolution writes its results in the same form, so no pass lies between the convolutions. Another
//           prepares the weights in the order in which they are used. Norm, shortcut and relu happen in registers. A
//           convolution is one persistent kernel with a block per multiprocessor and computes y^T = W x^T: weights
//           are the operand A, 64 output channels, in registers; they lie in shared memory as the fragments that
//           threads hold, and stay there for all tiles if they fit (64 to 64 channels). Pixels are the operand B, 8
//           columns and 16 rows of a tile for each of two warpgroups, where they lie: without a swizzle, 8 channels
//           of a pixel are 16 bytes and 8 pixels 128, so a tap is another start address. Of 192 cycles for three
//           products shared memory delivers for 128. A warp fetches for both. The image holds the rows of each tile's
//           patch in one piece, so a patch of 16 channels comes in 18 copies of 1,152 bytes (33 of 2,112 for stride
//           2); columns that tiles share are there twice. The first convolution turns its results round in registers
//           (movmatrix). With stride 1 and at most 64 output channels no image of the input is made: two warpgroups
//           read the floats themselves, cut them in registers and store them as the same patches for the two that
//           multiply, in turn; so does the 1x1 convolution in the shortcut.
// Numerics: x / 16 = head + rest / 2048, both float16; weights are scaled by a power of two per output channel and
//           cut into head and rest; w x = head head + rest head + head / 2048 rest, which leaves out 2^-22 of a
//           product, as against 2^-24 of float32. Tensor cores round sums towards zero, so a sum in them covers 144
//           terms only (with 1x1, 128); those are added up in float32 registers. Error at most 0.16 of what the task
//           allows on all its configurations, inputs "mixed" and "outliers"; emulated with sums of 26 bits on small
//           ones, inputs of every kind, 0.16 too.
// Measured: scripts/kernel_lab.py, H200, 32 images, us, all by way of an image; with pixels as operand A, by
//           ldmatrix; eager: 64 to 64 channels 1,610, 2,368, 6,861; 128 to 64 2,681, 3,606, 10,543; 256 to 64 4,366,
//           5,445, 16,419; 64 to 128 1,290, 2,222, 5,156; 64 to 512 9,256, 13,294, 63,635; 256 to 512 13,620, 17,955,
//           89,865. Patches in 72 copies of 288 bytes were quick only while weights stay in shared memory (64 to 64
//           1,633, 256 to 512 22,540). A division for each address in the hidden map cost a fifth. One warpgroup a
//           chunk behind the other: alike. How long each configuration takes now: docs/results/h200-kernels.md.
// Dispatch: the same tiles for all sizes, 64 channels of 16 x 16 pixels.
// Limits:   float32, contiguous; values above 10^6 overflow, those below 10^-5 lose digits; scratch of 1.14 times the
//           input and the hidden map, more if their sides are small. Compute capability 9.0 only: elsewhere it raises
//           an error that says so.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

#include <optional>

using Optional = std::optional<torch::Tensor>;

namespace {

constexpr int kTile = 16, kOut = 64;  // rows and columns of a tile, its output channels
constexpr int kChunk = 16;            // channels of a patch
constexpr int kTeam = 128, kConsumers = 2 * kTeam;
constexpr int kFragment = 128 * 16;   // bytes of 64 x 16 weights
constexpr float kScale = 1.0f / 16;   // of the image: heads stay finite up to a million

// ---- instructions ---------------------------------------------------------------------------------------------------

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
__device__ void show_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
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
// A float, or 0 if i is not below the end; L2 fetches 128 bytes. Not moved behind what the thread waits for next.
__device__ float load_below(int i, int end, const float* from) {
    float value;
    asm volatile(
        "{\n.reg .pred p;\nsetp.lt.s32 p, %2, %3;\nmov.f32 %0, 0f00000000;\n"
        "@p ld.global.nc.L2::128B.f32 %0, [%1];\n}"
        : "=&f"(value)
        : "l"(from), "r"(i), "r"(end));
    return value;
}
// What this thread has stored may be read by the tensor cores.
__device__ void show_stores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }
template <int kCount>
__device__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}
__device__ void prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

#define OF_4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define OF_16(d, i) OF_4(d, i), OF_4(d, i + 4), OF_4(d, i + 8), OF_4(d, i + 12)

// d = a b, or d += a b, for 64 channels and 128 pixels; a thread's share of the results is d.
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
__device__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void end_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kLeft>
__device__ void wait_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
__device__ void hold(float& value) { asm volatile("" : "+f"(value)::"memory"); }  // not to be read before

__device__ void load_words(unsigned (&a)[4], unsigned from) {
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(from)
                 : "memory");
}
__device__ void store_words(unsigned to, const unsigned (&a)[4]) {
    asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3])
                 : "memory");
}
// 8 x 8 halves of a warp, a pair of a row in each thread, turned round.
__device__ unsigned transposed(unsigned pair) {
    unsigned turned;
    asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(turned) : "r"(pair));
    return turned;
}
__device__ unsigned shrunk(unsigned pair) {  // two halves / 2048
    const __half2 small = __hmul2(reinterpret_cast<const __half2&>(pair), __floats2half2_rn(1.0f / 2048, 1.0f / 2048));
    return reinterpret_cast<const unsigned&>(small);
}

// ---- layouts --------------------------------------------------------------------------------------------------------

// Columns that a tile reads, with those around it; how many of them are even if the stride is 2.
__host__ __device__ constexpr int items_of(int stride) { return (kTile - 1) * stride + 3; }
constexpr int kEven = kTile + 1;

// A feature map in halves, zeros around, one wide: [image][chunk of 16 channels][row][tile][plane][item]. An item is 8
// channels of a pixel, 16 bytes; the planes are the heads of a chunk's first 8 channels and its last, and the rests *
// 2048 of both. A tile has its own columns and those around, which the tiles beside it have too; with stride 2 the even
// ones come first.
struct Image {
    char* data;
    int chunks, rows, tiles, stride;  // rows with those around; tiles beside each other
    __host__ __device__ int row_items() const { return tiles * items_of(stride); }
    __host__ __device__ int64_t bytes() const { return int64_t(chunks) * rows * row_items() * 64; }  // of one image
    __device__ char* at(int image, int chunk, int row, int tile) const {
        return data + (((int64_t(image) * chunks + chunk) * rows + row) * tiles + tile) * items_of(stride) * 64;
    }
    // of the feature map, where an item of a row comes from
    __device__ int column(int place) const {
        const int tile = place / items_of(stride), item = place % items_of(stride);
        const int inner = stride == 1 ? item : item < kEven ? item * 2 : (item - kEven) * 2 + 1;
        return tile * kTile * stride + inner - 1;
    }
    // where the four planes of an item begin
    __device__ char* item(int image, int chunk, int row, int place) const {
        const int items = items_of(stride);
        return at(image, chunk, row, place / items) + place % items * 16;
    }
};

__device__ void split(float x, float y, unsigned& head, unsigned& rest) {
    const __half2 h = __floats2half2_rn(x * kScale, y * kScale);
    const float2 f = __half22float2(h);
    const __half2 r = __floats2half2_rn((x * kScale - f.x) * 2048, (y * kScale - f.y) * 2048);
    head = reinterpret_cast<const unsigned&>(h);
    rest = reinterpret_cast<const unsigned&>(r);
}

// A thread: an item.
__global__ void __launch_bounds__(256) make_image(const float* x, Image to, int channels, int height, int width) {
    const int thread = blockIdx.x * 256 + threadIdx.x, row = thread / to.row_items(), place = thread % to.row_items();
    if (row >= to.rows) return;
    const int first = blockIdx.y * 8, image = blockIdx.z;
    const int y = row - 1, x0 = to.column(place);
    const bool inside = unsigned(y) < unsigned(height) && unsigned(x0) < unsigned(width);
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
    const int plane = items_of(to.stride) * 16;
    char* at = to.item(image, blockIdx.y / 2, row, place) + blockIdx.y % 2 * plane;
    *reinterpret_cast<uint4*>(at) = head;
    *reinterpret_cast<uint4*>(at + 2 * plane) = rest;
}

// Zeros around a feature map of stride 1 whose inner part is written by a convolution. A warp: a row.
__global__ void __launch_bounds__(256) clear_margin(Image to, int height, int width) {
    const int row = blockIdx.x * 8 + threadIdx.x / 32;
    if (row >= to.rows) return;
    const bool outside = unsigned(row - 1) >= unsigned(height);
    for (int place = threadIdx.x % 32; place < to.row_items(); place += 32) {
        if (!outside && unsigned(to.column(place)) < unsigned(width)) continue;
        char* at = to.item(blockIdx.z, blockIdx.y, row, place);
        for (int plane = 0; plane < 4; ++plane) *reinterpret_cast<uint4*>(at + plane * items_of(1) * 16) = {};
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

// Where a weight lies in the fragments of its 64 x 16, in bytes: [warp][lane][register][half].
__device__ int fragment_offset(int row, int k) {
    const int lane = row % 8 * 4 + k % 8 / 2, word = row % 16 / 8 + k / 8 * 2;
    return row / 16 * 512 + lane * 16 + word * 4 + k % 2 * 2;
}

// Weights of one output channel: [tile of 64][chunk][tap][head, rest][fragment], each channel scaled by a power of two.
// The factor and the offset of its results take that back and apply the norm.
__global__ void __launch_bounds__(256)
    make_weights(const float* w, char* to, float2* finish, Norm norm, int out, int in, int taps) {
    const int channel = blockIdx.x, chunks = (in + kChunk - 1) / kChunk, terms = in * taps;
    const float* from = w + int64_t(channel) * terms;
    const bool exists = channel < out;
    const float top = largest(from, exists ? terms : 0);
    const float scale = exp2f(float(top > 0 ? max(-100, min(100, 13 - ilogbf(top))) : 0));
    char* base = to + int64_t(channel / kOut) * chunks * taps * 2 * kFragment;
    for (int i = threadIdx.x; i < chunks * taps * kChunk; i += 256) {
        const int c = i % kChunk, tap = i / kChunk % taps, chunk = i / kChunk / taps;
        const float v = exists && chunk * kChunk + c < in ? from[(chunk * kChunk + c) * taps + tap] * scale : 0.0f;
        const __half head = __float2half_rn(v);
        char* at = base + (int64_t(chunk) * taps + tap) * 2 * kFragment + fragment_offset(channel % kOut, c);
        *reinterpret_cast<__half*>(at) = head;
        *reinterpret_cast<__half*>(at + kFragment) = __float2half_rn(v - __half2float(head));
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
    Image x;                      // without data if the convolution is direct:
    const float* input;           // what it reads itself, or null
    int in, in_height, in_width;  // of the input
    const char* weights;
    const float2* finish;   // factor and offset per output channel
    const float* shortcut;  // added before relu, or null
    float* y;               // results as floats, or null:
    Image hidden;           // results for the next convolution
    int out, height, width, batch;  // of the results
    int relu;
    int across, down, out_tiles;
    int stages, resident;  // of the weights in shared memory; whether they stay there
};

// A patch in shared memory: [row][plane][item], rows as in the image. With one tap it has those in the middle only.
// Direct, two teams fill every other patch from the input.
template <int kStride, int kTaps, bool kFromInput>
struct Plan {
    static constexpr bool kDirect = kFromInput;
    static constexpr int kThreads = kConsumers + (kDirect ? 2 : 1) * kTeam;
    static constexpr int kBatch = kTaps == 9 ? 2 : 3;  // items that a thread of them reads at once
    static constexpr int kProducerRegisters = kDirect ? 40 + 8 * kBatch : 40;
    static constexpr int kConsumerRegisters = kDirect ? 256 - kProducerRegisters : 232;
    static constexpr int kWide = kTaps == 9 ? 3 : 1, kSpan = kTaps == 9 ? 1 : 8;  // taps in a row; chunks of a sum
    static constexpr int kRows = kTaps == 9 ? items_of(kStride) : kTile;
    static constexpr int kFirstRow = kTaps == 1, kRowStep = kTaps == 1 ? kStride : 1;  // of the image
    static constexpr int kPlaneBytes = items_of(kStride) * 16, kRowBytes = 4 * kPlaneBytes;
    static constexpr int kPatchBytes = kRows * kRowBytes;
    static constexpr int kStageBytes = kWide * 2 * kFragment;  // weights of a row of taps
    static constexpr int kPatches = kPatchBytes < 40000 ? 4 : 2;
    static constexpr int kRoom = (232448 - 1024 - kPatches * kPatchBytes) / kStageBytes;
    static constexpr int kStages = kRoom < 12 ? kRoom : 12;
    static constexpr int kSharedBytes = kStages * kStageBytes + kPatches * kPatchBytes + 128;
    static constexpr int kItems = 2 * kRows * items_of(kStride);  // of a patch
    static_assert(kStages >= 3 && kPatches % 2 == 0);  // a patch always belongs to the same team
    // Where the item of a column lies in its row, in bytes.
    __device__ static int place(int column) {
        return (kStride == 1 ? column : column / 2 + column % 2 * kEven) * 16;
    }
    // Bytes from the first pixel of a patch to what a tap multiplies.
    static constexpr int shift(int row, int column) {
        const int inner = kTaps == 1 ? 1 : column;
        return row * kRowBytes + (kStride == 1 ? inner : inner == 1 ? kEven : inner / 2) * 16;
    }
    // Matrices of 8 pixels x 8 channels without a swizzle: the next 8 channels are a plane on, the next 8 pixels a row.
    __device__ static uint64_t descriptor(unsigned address) {
        constexpr uint64_t kNextChannels = kPlaneBytes >> 4;
        constexpr uint64_t kNextPixels = (kTaps == 9 ? kStride * kRowBytes : kRowBytes) >> 4;
        return uint64_t((address & 0x3ffff) >> 4) | kNextChannels << 16 | kNextPixels << 32;
    }
};

struct Place {  // of a tile; rows and columns count tiles
    int image, row, column, out_tile;
    __device__ Place(const Convolution& p, int tile) : out_tile(tile % p.out_tiles) {
        const int rest = tile / p.out_tiles;
        column = rest % p.across;
        row = rest / p.across % p.down;
        image = rest / p.across / p.down;
    }
};

template <class P, int kStride>
__device__ void fetch_patch(const Convolution& p, const Place& place, int chunk, unsigned to, unsigned full) {
    const int lane = threadIdx.x % 32, first = place.row * kTile * kStride + P::kFirstRow;
    if (lane == 0) expect(full, P::kPatchBytes);
    __syncwarp();
    for (int row = lane; row < P::kRows; row += 32) {
        const char* line = p.x.at(place.image, chunk, first + row * P::kRowStep, place.column);
        copy_bulk(to + row * P::kRowBytes, line, P::kRowBytes, full);
    }
}

template <class P, int kStride>
__device__ void produce(const Convolution& p, unsigned weights, unsigned patches, unsigned barriers, int tiles) {
    const int lane = threadIdx.x % 32;
    unsigned stage = 0, stage_turn = 0, patch = 0, patch_turn = 0;
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const Place place(p, tile);
        const char* from = p.weights + int64_t(place.out_tile) * p.x.chunks * P::kWide * P::kStageBytes;
        for (int chunk = 0; chunk < p.x.chunks; ++chunk) {
            const unsigned full = barriers + patch * 8;
            wait_for(full + P::kPatches * 8, (patch_turn & 1) ^ 1);
            fetch_patch<P, kStride>(p, place, chunk, patches + patch * P::kPatchBytes, full);
            if (++patch == P::kPatches) patch = 0, ++patch_turn;
            if (p.resident && tile != blockIdx.x) continue;
            for (int row = 0; row < P::kWide; ++row, from += P::kStageBytes) {
                const unsigned filled = barriers + 2 * P::kPatches * 8 + stage * 8;
                wait_for(filled + P::kStages * 8, (stage_turn & 1) ^ 1);
                if (lane == 0) {
                    expect(filled, P::kStageBytes);
                    copy_bulk(weights + stage * P::kStageBytes, from, P::kStageBytes, filled);
                }
                if (++stage == p.stages) stage = 0, ++stage_turn;
            }
        }
    }
}

// ---- from the input -------------------------------------------------------------------------------------------------

template <class P, int kStride>
struct Item {  // of a patch: 8 channels of a pixel
    static constexpr int kColumns = items_of(kStride);
    int row, column, half;
    __device__ explicit Item(int index)
        : row(index / kColumns % P::kRows), column(index % kColumns), half(index / (kColumns * P::kRows)) {}
};

template <class P, int kStride>
__device__ void load_item(float (&v)[8], const Convolution& p, const Place& place, int chunk, int index) {
    const Item<P, kStride> item(index);
    const int y = place.row * kTile * kStride + P::kFirstRow + item.row * P::kRowStep - 1;
    const int x = place.column * kTile * kStride + item.column - 1;
    const bool inside = index < P::kItems && unsigned(y) < unsigned(p.in_height) && unsigned(x) < unsigned(p.in_width);
    const int first = chunk * kChunk + item.half * 8, area = p.in_height * p.in_width;
    const float* from = p.input + (int64_t(place.image) * p.in + first) * area + y * p.in_width + x;
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = load_below(i, inside ? p.in - first : 0, from + i * area);
}

template <class P, int kStride>
__device__ void store_item(unsigned patch, const float (&v)[8], int index) {
    if (index >= P::kItems) return;
    const Item<P, kStride> item(index);
    unsigned head[4], rest[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) split(v[2 * i], v[2 * i + 1], head[i], rest[i]);
    const unsigned to = patch + item.row * P::kRowBytes + item.half * P::kPlaneBytes + P::place(item.column);
    store_words(to, head);
    store_words(to + 2 * P::kPlaneBytes, rest);
}

// Weights of the n-th chunk of a block, by one thread; not again if they stay.
template <class P>
__device__ void fetch_weights(const Convolution& p, int out_tile, int number, unsigned weights, unsigned barriers) {
    if (p.resident && number >= p.x.chunks) return;
    const int64_t chunk = int64_t(out_tile) * p.x.chunks + number % p.x.chunks;
    const char* from = p.weights + chunk * P::kWide * P::kStageBytes;
    for (int row = 0; row < P::kWide; ++row, from += P::kStageBytes) {
        const unsigned all = number * P::kWide + row, stage = all % p.stages;
        const unsigned filled = barriers + (2 * P::kPatches + stage) * 8;
        wait_for(filled + P::kStages * 8, (all / p.stages & 1) ^ 1);
        expect(filled, P::kStageBytes);
        copy_bulk(weights + stage * P::kStageBytes, from, P::kStageBytes, filled);
    }
}

// Two teams bring every other chunk; the first loads of a chunk are under way before its patch is free.
template <class P, int kStride>
__device__ void produce_direct(const Convolution& p, unsigned weights, unsigned patches, unsigned barriers, int tiles) {
    const int thread = threadIdx.x % kTeam;
    for (int number = (threadIdx.x - kConsumers) / kTeam;; number += 2) {
        const int tile = blockIdx.x + number / p.x.chunks * gridDim.x;
        if (tile >= tiles) return;
        const Place place(p, tile);
        const unsigned which = number % P::kPatches, full = barriers + which * 8;
        for (int first = thread; first - thread < P::kItems; first += kTeam * P::kBatch) {
            float v[P::kBatch][8];
#pragma unroll
            for (int b = 0; b < P::kBatch; ++b)
                load_item<P, kStride>(v[b], p, place, number % p.x.chunks, first + b * kTeam);
            if (first == thread) wait_for(full + P::kPatches * 8, (number / P::kPatches & 1) ^ 1);
            if (first == 0) fetch_weights<P>(p, place.out_tile, number, weights, barriers);
#pragma unroll
            for (int b = 0; b < P::kBatch; ++b)
                store_item<P, kStride>(patches + which * P::kPatchBytes, v[b], first + b * kTeam);
        }
        show_stores();
        __syncwarp();
        if (thread % 32 == 0) arrive(full);
    }
}

// ---- products -------------------------------------------------------------------------------------------------------

struct Weights {  // a thread's share of 64 x 16
    unsigned head[4], rest[4], small[4];
};

__device__ void load_weights(Weights& w, unsigned stage, int tap) {
    const unsigned from = stage + tap * 2 * kFragment + threadIdx.x % 128 * 16;
    load_words(w.head, from);
    load_words(w.rest, from + kFragment);
#pragma unroll
    for (int i = 0; i < 4; ++i) w.small[i] = shrunk(w.head[i]);
}

// What a warpgroup has reached; it goes on from tile to tile.
template <class P>
struct Progress {
    unsigned weights, patches, barriers;  // addresses
    unsigned stage, stage_turn, patch, patch_turn;
    __device__ unsigned wait_weights() const {
        wait_for(barriers + (2 * P::kPatches + stage) * 8, stage_turn & 1);
        return weights + stage * P::kStageBytes;
    }
    __device__ unsigned wait_patch() const {
        wait_for(barriers + patch * 8, patch_turn & 1);
        return patches + patch * P::kPatchBytes;
    }
    __device__ void leave_weights(const Convolution& p) {
        __syncwarp();
        if (!p.resident && threadIdx.x % 32 == 0) arrive(barriers + (2 * P::kPatches + P::kStages + stage) * 8);
        if (++stage == p.stages) stage = 0, stage_turn += !p.resident;
    }
    __device__ void leave_patch() {
        if (threadIdx.x % 32 == 0) arrive(barriers + (P::kPatches + patch) * 8);
        if (++patch == P::kPatches) patch = 0, ++patch_turn;
    }
};

// The products of 16 channels and one tap, added to a part or beginning it anew.
template <class P>
__device__ void multiply_tap(float (&part)[64], const Weights& w, uint64_t pixels, bool add) {
    constexpr int kRests = 2 * P::kPlaneBytes / 16;
    begin_products();
    multiply_async(part, w.small, pixels + kRests, add);
    multiply_async(part, w.rest, pixels, true);
    multiply_async(part, w.head, pixels, true);
    end_products();
}

// Tensor cores round sums towards zero, so they add up one chunk (with one tap, eight); parts are added in float32.
// The weights of a tap are loaded while the tap before it is multiplied.
template <class P>
__device__ void sum_tile(const Convolution& p, float (&sums)[64], Progress<P>& at) {
    float part[64];
    Weights w[3];
#pragma unroll
    for (int i = 0; i < 64; ++i) sums[i] = part[i] = 0;
    unsigned stage = at.wait_weights();
    load_weights(w[0], stage, 0);
    for (int chunk = 0; chunk < p.x.chunks; ++chunk) {
        const uint64_t pixels = P::descriptor(at.wait_patch() + threadIdx.x / 128 * 128);
        const bool last = chunk + 1 == p.x.chunks;
#pragma unroll
        for (int tap = 0; tap < P::kWide * P::kWide; ++tap) {
            const int row = tap / P::kWide, column = tap % P::kWide;
            multiply_tap<P>(part, w[column], pixels + P::shift(row, column) / 16, tap > 0 || chunk % P::kSpan > 0);
            wait_products<P::kWide == 1 ? 0 : 1>();
            if (column + 1 < P::kWide) {
                load_weights(w[column + 1], stage, column + 1);
                continue;
            }
            at.leave_weights(p);
            if (last && row + 1 == P::kWide) break;
            stage = at.wait_weights();
            load_weights(w[0], stage, 0);
        }
        wait_products<0>();
#pragma unroll
        for (int i = 0; i < 64; ++i) hold(part[i]);
        at.leave_patch();
        if (!last && (chunk + 1) % P::kSpan > 0) continue;
#pragma unroll
        for (int i = 0; i < 64; ++i) sums[i] += part[i];
    }
}

// Where the results of a thread lie: 4 j + 2 h + e is channel + 8 h of the pixel in row + j and column + e.
struct Results {
    int image, channel, row, column;
    __device__ explicit Results(const Place& place) : image(place.image) {
        const int thread = threadIdx.x % 128, lane = thread % 32;
        channel = place.out_tile * kOut + thread / 32 * 16 + lane / 4;
        row = place.row * kTile;
        column = place.column * kTile + threadIdx.x / 128 * 8 + lane % 4 * 2;
    }
    __device__ int64_t at(const Convolution& p, int j, int h) const {
        return ((int64_t(image) * p.out + channel + 8 * h) * p.height + row + j) * p.width + column;
    }
    // how many of the two pixels exist
    __device__ int count(const Convolution& p, int j, int h) const {
        return channel + 8 * h < p.out && row + j < p.height ? max(0, min(2, p.width - column)) : 0;
    }
};

__device__ void prefetch_shortcut(const Convolution& p, const Place& place) {
    for (int i = threadIdx.x; i < kOut * kTile; i += kConsumers) {
        const int row = place.row * kTile + i % kTile, channel = place.out_tile * kOut + i / kTile;
        if (row >= p.height || channel >= p.out) continue;
        prefetch(p.shortcut + ((int64_t(place.image) * p.out + channel) * p.height + row) * p.width +
                 place.column * kTile);
    }
}

__device__ float2 load_pair(const float* from, int count, bool aligned) {
    if (count == 2 && aligned) return __ldcs(reinterpret_cast<const float2*>(from));
    return {count > 0 ? __ldcs(from) : 0.0f, count > 1 ? __ldcs(from + 1) : 0.0f};
}

// All loads come before the first store of a tile: behind one, each would wait for memory.
__device__ void add_shortcut(const Convolution& p, float (&sums)[64], const Results& at) {
    float2 values[32];
    const bool aligned = p.width % 2 == 0;
#pragma unroll
    for (int i = 0; i < 32; ++i)
        values[i] = load_pair(p.shortcut + at.at(p, i / 2, i % 2), at.count(p, i / 2, i % 2), aligned);
#pragma unroll
    for (int i = 0; i < 32; ++i) sums[2 * i] += values[i].x, sums[2 * i + 1] += values[i].y;
}

__device__ void finish_tile(const Convolution& p, float (&sums)[64], const Results& at) {
    float2 finish[2];
#pragma unroll
    for (int h = 0; h < 2; ++h)
        finish[h] = at.channel + 8 * h < p.out ? __ldg(p.finish + at.channel + 8 * h) : float2{};
#pragma unroll
    for (int i = 0; i < 64; ++i) sums[i] = sums[i] * finish[i / 2 % 2].x + finish[i / 2 % 2].y;
    if (p.shortcut != nullptr) add_shortcut(p, sums, at);
    if (!p.relu) return;
#pragma unroll
    for (int i = 0; i < 64; ++i) sums[i] = fmaxf(sums[i], 0.0f);
}

__device__ void store_floats(const Convolution& p, const float (&sums)[64], const Results& at) {
    const bool aligned = p.width % 2 == 0;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        const int count = at.count(p, i / 2, i % 2);
        float* to = p.y + at.at(p, i / 2, i % 2);
        if (count == 2 && aligned) {
            *reinterpret_cast<float2*>(to) = {sums[2 * i], sums[2 * i + 1]};
            continue;
        }
        if (count > 0) to[0] = sums[2 * i];
        if (count > 1) to[1] = sums[2 * i + 1];
    }
}

// For the next convolution: 8 channels x 8 pixels turned round, so that four threads have an item. The outer columns
// belong to the tiles beside this one too.
__device__ void store_halves(const Convolution& p, const float (&sums)[64], const Place& place) {
    constexpr int kPlane = items_of(1) * 16, kBeside = 4 * kPlane - kTile * 16;  // bytes; to the same column there
    const int thread = threadIdx.x % 128, lane = thread % 32, chunk = place.out_tile * (kOut / kChunk) + thread / 32;
    const int row = place.row * kTile, column = threadIdx.x / 128 * 8 + lane / 4;
    const int side = column == 0 ? -1 : column == kTile - 1 ? 1 : 0, beside = side * kBeside;
    const bool inside = place.column * kTile + column < p.width;
    const bool shared = side != 0 && unsigned(place.column + side) < unsigned(p.across);
    const int64_t next_row = int64_t(p.across) * 4 * kPlane;
    if (chunk >= p.hidden.chunks) return;
    char* own = p.hidden.at(place.image, chunk, row + 1, place.column) + (column + 1) * 16 + lane % 4 * 4;
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        const int j = i / 2, h = i % 2;
        unsigned head, rest;
        split(sums[2 * i], sums[2 * i + 1], head, rest);
        head = transposed(head), rest = transposed(rest);
        if (row + j >= p.height || !inside) continue;
        char* at = own + j * next_row + h * kPlane;
        *reinterpret_cast<unsigned*>(at) = head;
        *reinterpret_cast<unsigned*>(at + 2 * kPlane) = rest;
        if (!shared) continue;
        *reinterpret_cast<unsigned*>(at + beside) = head;
        *reinterpret_cast<unsigned*>(at + beside + 2 * kPlane) = rest;
    }
}

// Two warpgroups compute a tile together; one warp of a third fetches for them, or two more, direct, all of them.
template <class P, int kStride>
__global__ void __launch_bounds__(P::kThreads, 1) convolve(const __grid_constant__ Convolution p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ char raw[];
    __shared__ __align__(8) uint64_t barrier_room[2 * (P::kPatches + P::kStages)];
    const unsigned weights = (shared_address(raw) + 127) / 128 * 128;
    const unsigned patches = weights + P::kStages * P::kStageBytes;
    const unsigned barriers = shared_address(barrier_room);  // patches full, empty, weights full, empty
    const int tiles = p.batch * p.down * p.across * p.out_tiles;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2 * (P::kPatches + P::kStages); ++i) {
            const int of_patches = i < 2 * P::kPatches, of_weights = i - 2 * P::kPatches;
            const bool empty = of_patches ? i >= P::kPatches : of_weights >= P::kStages;
            begin_barrier(barriers + i * 8, empty ? kConsumers / 32 : of_patches && P::kDirect ? kTeam / 32 : 1);
        }
        show_barriers();
    }
    __syncthreads();
    if (threadIdx.x >= kConsumers) {
        give_registers<P::kProducerRegisters>();
        if constexpr (P::kDirect) produce_direct<P, kStride>(p, weights, patches, barriers, tiles);
        else if (threadIdx.x < kConsumers + 32) produce<P, kStride>(p, weights, patches, barriers, tiles);
        return;
    }
    take_registers<P::kConsumerRegisters>();
    Progress<P> at{weights, patches, barriers};
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
        const Place place(p, tile);
        float sums[64];
        if (p.shortcut != nullptr) prefetch_shortcut(p, place);
        sum_tile(p, sums, at);
        finish_tile(p, sums, Results(place));
        if (p.y != nullptr) store_floats(p, sums, Results(place));
        else store_halves(p, sums, place);
    }
#endif
}

// ---- host -----------------------------------------------------------------------------------------------------------

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

// An image for a 3 x 3 convolution with `stride` and this many results.
Image image_of(int channels, int out_height, int out_width, int stride) {
    const int down = ceil_div(out_height, kTile), across = ceil_div(out_width, kTile);
    return {nullptr, ceil_div(channels, kChunk), (down * kTile - 1) * stride + 3, across, stride};
}

void fill_image(const torch::Tensor& x, const Image& to) {
    const dim3 grid(ceil_div(to.rows * to.row_items(), 256), to.chunks * 2, unsigned(x.size(0)));
    make_image<<<grid, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(data(x), to, int(x.size(1)), int(x.size(2)),
                                                                    int(x.size(3)));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

void clear_hidden(const Image& hidden, int batch, int height, int width) {
    const dim3 grid(ceil_div(hidden.rows, 8), hidden.chunks, batch);
    clear_margin<<<grid, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(hidden, height, width);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <int kStride, int kTaps, bool kDirect>
void launch(Convolution p) {
    using P = Plan<kStride, kTaps, kDirect>;
    const auto kernel = convolve<P, kStride>;
    p.across = ceil_div(p.width, kTile);
    p.down = ceil_div(p.height, kTile);
    p.out_tiles = ceil_div(p.out, kOut);
    const int tiles = p.batch * p.down * p.across * p.out_tiles, stages = p.x.chunks * P::kWide;
    p.resident = p.out_tiles == 1 && stages <= P::kStages;
    p.stages = p.resident ? stages : P::kStages;
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, P::kSharedBytes));
    const int blocks = std::min(tiles, multiprocessor_count());
    kernel<<<blocks, P::kThreads, P::kSharedBytes, c10::cuda::getCurrentCUDAStream()>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <bool kDirect>
void launch(const Convolution& p, int stride, int taps) {
    if (stride == 1 && taps == 9) launch<1, 9, kDirect>(p);
    else if (stride == 1) launch<1, 1, kDirect>(p);
    else if (taps == 9) launch<2, 9, kDirect>(p);
    else launch<2, 1, kDirect>(p);
}

// Prepares the weights, (out, in, taps), and convolves.
void convolve_with(const torch::Tensor& w, const Norm& norm, Convolution p, int stride) {
    const int in = int(w.size(1)), padded = ceil_div(p.out, kOut) * kOut, taps = int(w.numel() / p.out / in);
    auto weights = scratch(int64_t(padded / kOut) * p.x.chunks * taps * 2 * kFragment, w);
    auto finish = scratch(int64_t(padded) * 8, w);
    p.weights = address(weights);
    p.finish = reinterpret_cast<const float2*>(address(finish));
    make_weights<<<padded, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        data(w), address(weights), reinterpret_cast<float2*>(address(finish)), norm, p.out, in, taps);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    if (p.input != nullptr) launch<true>(p, stride, taps);
    else launch<false>(p, stride, taps);
}

// Raises where wgmma is missing, which belongs to this one architecture.
void check_device() {
    int device, major;
    C10_CUDA_CHECK(cudaGetDevice(&device));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    TORCH_CHECK(major == 9, "this kernel needs a GPU of compute capability 9.0 (Hopper), here it is ", major, ".x");
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
    p.x = image_of(int(x.size(1)), height, width, int(stride));
    p.hidden = image_of(out, height, width, 1);
    p.in = int(x.size(1)), p.in_height = int(x.size(2)), p.in_width = int(x.size(3));
    const bool direct = stride == 1 && out <= kOut;  // more of them would cut every pixel more than once
    auto room = scratch(direct ? 0 : batch * p.x.bytes(), x), hidden_room = scratch(batch * p.hidden.bytes(), x);
    p.x.data = address(room), p.hidden.data = address(hidden_room);
    if (direct) p.input = data(x);
    else fill_image(x, p.x);
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
    p.x = p.hidden, p.input = nullptr;
    p.y = y.mutable_data_ptr<float>();
    p.shortcut = data(shortcut);
    convolve_with(conv2_weight.contiguous(), norm2, p, 1);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
