// 3 x 3 convolution without padding, relu, max-pool over 2 x 2 windows.
//
// Eager stores and reloads the convolution's result twice, four times the size of y; here it never leaves the
// registers. Two ways: `floats` for few input channels, `halves` on the tensor cores for 16 to 32.
//
// halves:   bound by its start, then by the tensor cores (64 outputs: 5.5 us of products) or shared memory (32
//           outputs). An implicit matrix product: rows are places of the convolution, terms 9 taps x 32 channels,
//           columns outputs. A block has a band of an image and 64, 32 or 16 outputs, one block per multiprocessor.
//           Its weights come as one bulk copy, its pixels straight into registers, all at once; while they are under
//           way the weights are cut and scaled. Then x is scaled, cut and laid down pixel by pixel, 32 channels (64
//           bytes) each, swizzled. A warpgroup takes units of 16 windows: of the 16 rows of a warp, row r is position
//           r / 4 of window r % 4. A thread holds two positions of a window and the one 16 lanes further the other
//           two, so pooling costs a shuffle; and 8 rows of a fragment are 8 neighbouring pixels, so ldmatrix meets no
//           bank twice. A tap is an offset of these pixels. Weights go to wgmma where they lie; fragments are loaded
//           two steps ahead.
// floats:   bound by its launch for one input channel, by multiply-adds for many. A thread makes one pooled place of
//           4 or 8 output channels, that is 16 or 32 sums. A 4 x 4 patch of an input channel, held in registers,
//           serves all of them: 288 multiply-adds for 16 inputs and 72 weights. The weights lie in shared memory with
//           the channels side by side, so four come with one load that all threads share. Neighbours' patches
//           overlap, which the cache serves; while a warp waits for one, others multiply.
// Numerics: of halves: x is scaled by the block's maximum, the weights of an output by theirs, by powers of two to
//           below 2^15, and each is cut into two float16, head and rest; head head + head rest + rest head leaves out
//           2^-22 of a product. Tensor cores round sums towards zero, so a row of taps (18 additions) is added up
//           there, the rows in float32: 0.10 of the tolerance at most on an H200. All taps in one sum: 0.44.
// Measured: scripts/kernel_lab.py, H200, 64 images of 32 channels: 28 x 28 to 32 outputs 15.6 us (floats 33.5, eager
//           55.6), to 64 19.1 (53.1, 95.8), 13 x 13 to 32 9.3 (22.8, 25.9), to 64 9.7 (23.5, 31.8). Not better:
//           results by shared memory (0.3 to 0.7 more), six warpgroups.
// Dispatch: halves for 16 to 32 input channels (filled up to 32 with zeros), compute capability 9.0 and four rows of
//           480 pixels at most; bands and outputs of a block by an estimate of cycles. Weights of fewer than 32
//           channels or not aligned to 16 bytes are read by plain loads there. floats: the places of all images are
//           numbered through and cut in blocks of 64, small enough to share them out evenly; registers are limited so
//           that twelve blocks run on a processor at once. 8 channels per thread if that gives every processor four
//           blocks, else 4. Rows of even width are read as float2, others as single floats. Weights are staged for 32
//           input channels at a time.
// Limits:   float32, contiguous, fewer than 2^31 inputs and results; an odd last row or column of the convolution is
//           dropped, as in PyTorch. In halves an infinite input spoils its band.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

namespace {

struct Layer {
    const float *x, *weights, *biases;
    float* y;
    int images, in_channels, out_channels, height, width, pooled_height, pooled_width;
    __host__ __device__ int pooled() const { return pooled_height * pooled_width; }
};

namespace halves {

// ---- instructions ---------------------------------------------------------------------------------------------------

__device__ unsigned shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }
__device__ void wait_for(unsigned barrier, unsigned parity) {
    asm volatile(
        "{\n.reg .pred p;\nAGAIN:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
        "@p bra DONE;\nbra AGAIN;\nDONE:\n}" ::"r"(barrier),
        "r"(parity)
        : "memory");
}
__device__ void begin_barrier(unsigned barrier) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(barrier) : "memory");
}
__device__ void show_barriers() {
    asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory");
}
__device__ void expect(unsigned barrier, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
__device__ void copy_in(unsigned to, const void* from, int bytes, unsigned barrier) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
                 "l"(from), "r"(bytes), "r"(barrier)
                 : "memory");
}
// A load that stays where it stands: of plain loads the compiler leaves some for later, and their latency adds up.
__device__ float load_now(const float* p) {
    float v;
    asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(v) : "l"(p));
    return v;
}
// What this thread wrote to shared memory may be read by wgmma after the next barrier.
__device__ void show_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#define OF_4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define OF_16(d, i) OF_4(d, i), OF_4(d, i + 4), OF_4(d, i + 8), OF_4(d, i + 12)

// d = a b, or d += a b, for 64 rows, 16 terms and 64, 32 or 16 columns; a thread's share of the results is d.
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
__device__ void multiply_async(float (&d)[16], const unsigned (&a)[4], uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %21, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, "
        "{%16, %17, %18, %19}, %20, p, 1, 1, 0;\n}"
        : OF_16(d, 0)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(add)));
}
__device__ void multiply_async(float (&d)[8], const unsigned (&a)[4], uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %13, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7}, {%8, %9, %10, %11}, %12, p, 1, 1, 0;\n}"
        : OF_4(d, 0), OF_4(d, 4)
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(int(add)));
}
__device__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
// Ends a group of products and waits until at most kLeft groups are under way.
template <int kLeft>
__device__ void end_products() {
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned %0;" ::"n"(kLeft) : "memory");
}
template <int kCount>
__device__ void finish_products(float (&d)[kCount]) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");  // not to be read before
}
__device__ void load_fragment(unsigned (&a)[4], unsigned address) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(address)
                 : "memory");
}

// ---- layout ---------------------------------------------------------------------------------------------------------

constexpr int kGroups = 3, kThreads = kGroups * 128, kChannels = 32, kFilter = 9;
constexpr int kFewest = 16;                             // input channels; with fewer the other way is quicker
constexpr int kItems = 5;                               // pixels, of eight channels, that a thread loads
constexpr int kPixels = kItems * kThreads / 4;          // of a band at most
constexpr int kRing = 3;                                // steps of 16 terms under way
constexpr int kTogether = 6;                            // steps whose sums meet in the tensor cores: a row of taps
constexpr int kRawBytes = kChannels * kFilter * 4;      // the weights of an output

struct Plan {
    int outputs, high, bands;  // outputs and pooled rows of a block; bands of an image
};

// Shared memory: weights in halves [tap][head, rest][output][channel], the raw ones of the outputs,
// x in halves [head, rest][pixel][channel]. Rows of 64 bytes in the swizzle of 64 bytes.
template <int N>
struct Shape {
    static constexpr int kTileBytes = N * 64, kWeightBytes = 2 * kFilter * kTileBytes;
    static constexpr int kSharedBytes = 1024 + kWeightBytes + N * kRawBytes + 2 * kPixels * 64;
};
__device__ int swizzled(int row, int chunk) { return row * 64 + ((chunk ^ (row >> 1 & 3)) << 4); }
__device__ uint64_t descriptor(unsigned address) {
    return uint64_t((address & 0x3ffff) >> 4) | uint64_t(1) << 16 | uint64_t(512 >> 4) << 32 | uint64_t(2) << 62;
}

// What a block works at.
struct Band {
    int image, first_output, outputs;       // outputs that exist
    int first_row, pixels, windows, units;  // first row of x and y's, of the band; 16 windows to a unit
    __device__ Band(const Layer& p, const Plan& plan) {
        const int row = blockIdx.x % plan.bands * plan.high, rows = min(plan.high, p.pooled_height - row);
        image = blockIdx.x / plan.bands;
        first_output = blockIdx.y * plan.outputs;
        outputs = min(plan.outputs, p.out_channels - first_output);
        first_row = row;
        pixels = (2 * rows + 2) * p.width;
        windows = rows * p.pooled_width;
        units = (windows + 15) / 16;
    }
};

// ---- numbers --------------------------------------------------------------------------------------------------------

struct Scale {
    float factor, inverse;  // powers of two
};

// What brings values up to `top` to below 2^15.
__device__ Scale scale_of(float top) {
    const unsigned exponent = min(268 - (__float_as_uint(top) >> 23), 253u);
    return {__uint_as_float(exponent << 23), __uint_as_float((254 - exponent) << 23)};
}

template <int kLanes>
__device__ float largest(float top) {
#pragma unroll
    for (int offset = kLanes / 2; offset > 0; offset /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, offset));
    return top;
}

__device__ void split(float x, float y, unsigned& head, unsigned& rest) {
    const __half2 h = __floats2half2_rn(x, y);
    const float2 f = __half22float2(h);
    const __half2 r = __floats2half2_rn(x - f.x, y - f.y);
    head = reinterpret_cast<const unsigned&>(h);
    rest = reinterpret_cast<const unsigned&>(r);
}

// ---- work -----------------------------------------------------------------------------------------------------------

// An item of x: a pixel and eight channels. Neighbouring threads have neighbouring pixels.
struct Item {
    int octet, pixel;
    __device__ Item(int i, int pixels) : octet(i / pixels), pixel(i - octet * pixels) {}
};

// Items and channels that do not exist are read as the last ones.
__device__ void load_items(float (&v)[kItems][8], const Layer& p, const Band& band) {
    const int plane = p.height * p.width;
    const float* from = p.x + band.image * p.in_channels * plane + 2 * band.first_row * p.width;
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        const Item item(min(int(threadIdx.x) + i * kThreads, 4 * band.pixels - 1), band.pixels);
#pragma unroll
        for (int e = 0; e < 8; ++e)
            v[i][e] = load_now(from + min(item.octet * 8 + e, p.in_channels - 1) * plane + item.pixel);
    }
}

// The scale of all of the block's items.
__device__ Scale find_scale(const float (&v)[kItems][8]) {
    __shared__ float tops[kThreads / 32];
    float top = 0;
#pragma unroll
    for (int i = 0; i < kItems * 8; ++i) top = fmaxf(top, fabsf(v[i / 8][i % 8]));
    top = largest<32>(top);
    if (threadIdx.x % 32 == 0) tops[threadIdx.x / 32] = top;
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kThreads / 32; ++i) top = fmaxf(top, tops[i]);
    return scale_of(top);
}

__device__ void cut_items(const float (&v)[kItems][8], const Layer& p, const Band& band, float factor, char* image) {
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        const Item item(threadIdx.x + i * kThreads, band.pixels);
        if (item.octet >= 4) break;
        float scaled[8];
#pragma unroll
        for (int e = 0; e < 8; ++e) scaled[e] = item.octet * 8 + e < p.in_channels ? v[i][e] * factor : 0.0f;
        uint4 head, rest;
        split(scaled[0], scaled[1], head.x, rest.x);
        split(scaled[2], scaled[3], head.y, rest.y);
        split(scaled[4], scaled[5], head.z, rest.z);
        split(scaled[6], scaled[7], head.w, rest.w);
        char* to = image + swizzled(item.pixel, item.octet);
        *reinterpret_cast<uint4*>(to) = head;
        *reinterpret_cast<uint4*>(to + kPixels * 64) = rest;
    }
}

// Whether a block's weights can be fetched by one bulk copy.
__device__ bool in_bulk(const Layer& p) {
    return p.in_channels == kChannels && reinterpret_cast<uintptr_t>(p.weights) % 16 == 0;
}

// The weights of output n of the block and two channels, tap by tap; zeros for those that do not exist.
__device__ void load_pair(float (&v)[2 * kFilter], const Layer& p, const Band& band, const char* raw, int n, int pair) {
    if (in_bulk(p)) {
        const float2* from = reinterpret_cast<const float2*>(raw + n * kRawBytes) + pair * kFilter;
#pragma unroll
        for (int i = 0; i < kFilter; ++i) {
            const float2 two = n < band.outputs ? from[i] : float2{0, 0};
            v[2 * i] = two.x, v[2 * i + 1] = two.y;
        }
    } else {
        const float* from = p.weights + ((band.first_output + n) * p.in_channels + 2 * pair) * kFilter;
        const int terms = n < band.outputs ? (p.in_channels - 2 * pair) * kFilter : 0;
#pragma unroll
        for (int i = 0; i < 2 * kFilter; ++i) v[i] = i < terms ? from[i] : 0.0f;
    }
}

// Sixteen threads cut the weights of an output.
template <int N>
__device__ void cut_weights(const Layer& p, const Band& band, const char* raw, char* to, float* inverses) {
    for (int i = threadIdx.x; i < N * 16; i += kThreads) {  // whole warps
        const int n = i / 16, pair = i % 16;
        float v[2 * kFilter], top = 0;
        load_pair(v, p, band, raw, n, pair);
#pragma unroll
        for (int e = 0; e < 2 * kFilter; ++e) top = fmaxf(top, fabsf(v[e]));
        const Scale scale = scale_of(largest<16>(top));
        if (pair == 0) inverses[n] = scale.inverse;
        char* at = to + swizzled(n, pair / 4) + pair % 4 * 4;
#pragma unroll
        for (int tap = 0; tap < kFilter; ++tap) {
            unsigned head, rest;
            split(v[tap] * scale.factor, v[tap + kFilter] * scale.factor, head, rest);
            *reinterpret_cast<unsigned*>(at + 2 * tap * Shape<N>::kTileBytes) = head;
            *reinterpret_cast<unsigned*>(at + (2 * tap + 1) * Shape<N>::kTileBytes) = rest;
        }
    }
}

// The pixel, in the band, of this thread's row of a fragment: of 16 rows, r is position r / 4 of window r % 4.
__device__ int own_pixel(const Layer& p, const Band& band, int unit) {
    const int row = threadIdx.x % 16, position = row / 4;
    const int window = min(unit * 16 + int(threadIdx.x) % 128 / 32 * 4 + row % 4, band.windows - 1);
    const int y = window / p.pooled_width, x = window - y * p.pooled_width;
    return (2 * y + position / 2) * p.width + 2 * x + position % 2;
}

// sums = the convolution at a unit's 64 positions, `pixel` being this thread's. Tensor cores round sums towards zero,
// so they add up a row of taps only.
template <int N>
__device__ void convolve_unit(float (&sums)[N / 2], int pixel, int width, unsigned image, unsigned weights) {
    constexpr int kTile = Shape<N>::kTileBytes;
    float part[N / 2];
    unsigned head[kRing][4], rest[kRing][4];
#pragma unroll
    for (int step = 0; step < 2 * kFilter; ++step) {
        const int tap = step / 2, ring = step % kRing, shifted = pixel + tap / 3 * width + tap % 3;
        const unsigned from = (image + swizzled(shifted, threadIdx.x / 16 % 2)) ^ step % 2 * 32;
        const unsigned at = weights + 2 * tap * kTile + step % 2 * 32;
        const bool add = step % kTogether > 0;
        load_fragment(head[ring], from);
        load_fragment(rest[ring], from + kPixels * 64);
        begin_products();
        multiply_async(part, rest[ring], descriptor(at), add);
        multiply_async(part, head[ring], descriptor(at + kTile), true);
        multiply_async(part, head[ring], descriptor(at), true);
        end_products<kRing - 1>();
        if (step % kTogether < kTogether - 1) continue;
        finish_products(part);
#pragma unroll
        for (int i = 0; i < N / 2; ++i) sums[i] = step < kTogether ? part[i] : sums[i] + part[i];
    }
}

// Where results go: `at` is the first window of the band and the block's first output.
struct Results {
    float* at;
    int stride, outputs;  // from output to output; those to be written
};

// Bias and relu keep the order of values, so the maximum can go first. A thread has two positions of a window, the
// thread 16 lanes further the others; each of the two writes half of the outputs.
template <int N>
__device__ void pool_unit(const float (&sums)[N / 2], const Results& to, int unit, int windows, float inverse,
                          const float* inverses, const float* biases) {
    const int lane = threadIdx.x % 32, upper = lane / 16;
    const int window = unit * 16 + threadIdx.x % 128 / 32 * 4 + lane / 4 % 4;
#pragma unroll
    for (int i = 0; i < N / 8; ++i) {
        const float* of = sums + i / 2 * 8 + i % 2;
        const float low = fmaxf(of[0], of[2]), high = fmaxf(of[4], of[6]);
        const float other = __shfl_xor_sync(0xffffffff, upper ? low : high, 16);
        const float top = fmaxf(upper ? high : low, other);
        const int n = (i / 2 * 2 + upper) * 8 + lane % 4 * 2 + i % 2;
        if (window < windows && n < to.outputs)
            to.at[n * to.stride + window] = fmaxf(top * inverses[n] * inverse + biases[n], 0.0f);
    }
}

template <int N>
__global__ void __launch_bounds__(kThreads, 1) conv_relu_pool(const __grid_constant__ Layer p,
                                                              const __grid_constant__ Plan plan) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    using S = Shape<N>;
    extern __shared__ char room[];
    __shared__ float inverses[N], biases[N];
    __shared__ __align__(8) uint64_t barrier_room;
    char* const weights = room + (1024 - shared_address(room) % 1024) % 1024;
    char* const raw = weights + S::kWeightBytes;
    char* const image = raw + N * kRawBytes;
    const Band band(p, plan);
    const unsigned barrier = shared_address(&barrier_room);
    if (threadIdx.x == 0 && in_bulk(p)) {
        begin_barrier(barrier);
        show_barriers();
        expect(barrier, band.outputs * kRawBytes);
        copy_in(shared_address(raw), p.weights + band.first_output * kChannels * kFilter, band.outputs * kRawBytes,
                barrier);
    }
    float v[kItems][8];
    load_items(v, p, band);
    if (threadIdx.x < band.outputs) biases[threadIdx.x] = p.biases[band.first_output + threadIdx.x];
    __syncthreads();
    if (in_bulk(p)) wait_for(barrier, 0);
    cut_weights<N>(p, band, raw, weights, inverses);  // while x is under way
    show_writes();
    const Scale scale = find_scale(v);
    cut_items(v, p, band, scale.factor, image);
    __syncthreads();
    const int pooled = p.pooled();
    float* const y = p.y + (band.image * p.out_channels + band.first_output) * pooled + band.first_row * p.pooled_width;
    const Results to{y, pooled, band.outputs};
    for (int unit = threadIdx.x / 128; unit < band.units; unit += kGroups) {
        float sums[N / 2];
        convolve_unit<N>(sums, own_pixel(p, band, unit), p.width, shared_address(image), shared_address(weights));
        pool_unit<N>(sums, to, unit, band.windows, scale.inverse, inverses, biases);
    }
#endif
}

// ---- host -----------------------------------------------------------------------------------------------------------

int device_attribute(cudaDeviceAttr attribute) {
    int device, value;
    C10_CUDA_CHECK(cudaGetDevice(&device));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, device));
    return value;
}

int ceil_div(int a, int b) { return (a + b - 1) / b; }

// About how many cycles a launch takes: a block starts, cuts weights and pixels and multiplies its units.
int64_t cycles(const Layer& p, const Plan& plan, int processors) {
    const int64_t blocks = int64_t(p.images) * plan.bands * ceil_div(p.out_channels, plan.outputs);
    const int units = ceil_div(plan.high * p.pooled_width, 16), pixels = (2 * plan.high + 2) * p.width;
    const int products = std::max(27 * plan.outputs * units, 1500 * ceil_div(units, kGroups));
    return (blocks + processors - 1) / processors * (2000 + 32 * plan.outputs + 6 * pixels + products);
}

// The quickest way to cut the work in blocks; no bands if not even one pooled row fits.
Plan best_plan(const Layer& p, int processors) {
    Plan best{};
    for (int outputs = 64; outputs >= 16; outputs /= 2)
        for (int high = 1; high <= p.pooled_height && (2 * high + 2) * p.width <= kPixels; ++high) {
            const Plan plan{outputs, high, ceil_div(p.pooled_height, high)};
            if (best.bands == 0 || cycles(p, plan, processors) < cycles(p, best, processors)) best = plan;
        }
    return best;
}

template <int N>
void launch(const Layer& p, const Plan& plan) {
    const auto kernel = conv_relu_pool<N>;
    constexpr int kSharedBytes = Shape<N>::kSharedBytes;
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
    const dim3 grid(p.images * plan.bands, ceil_div(p.out_channels, N));
    kernel<<<grid, kThreads, kSharedBytes, c10::cuda::getCurrentCUDAStream()>>>(p, plan);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// Whether this way could be taken, and was.
bool launched(const Layer& p) {
    static const bool able = device_attribute(cudaDevAttrComputeCapabilityMajor) == 9;
    static const int processors = device_attribute(cudaDevAttrMultiProcessorCount);
    if (!able || p.in_channels < kFewest || p.in_channels > kChannels) return false;
    const Plan plan = best_plan(p, processors);
    if (plan.bands == 0) return false;
    if (plan.outputs == 64) launch<64>(p, plan);
    else if (plan.outputs == 32) launch<32>(p, plan);
    else launch<16>(p, plan);
    return true;
}

}  // namespace halves

namespace floats {

constexpr int kThreads = 64, kBlocks = 12, kTaps = 9, kStagedChannels = 32;
constexpr int kProcessors = 132;  // of an H200; only a guide for sizing grids

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

void launch(const Layer& layer) {
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    const int blocks = (layer.images * layer.pooled() + kThreads - 1) / kThreads;
    if (blocks * (layer.out_channels / 8) >= 4 * kProcessors) launch<8>(layer, blocks, stream);
    else launch<4>(layer, blocks, stream);
}

}  // namespace floats

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
    if (!halves::launched(layer)) floats::launch(layer);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
