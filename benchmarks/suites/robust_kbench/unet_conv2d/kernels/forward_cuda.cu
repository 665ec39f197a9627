// 3x3 convolution with stride and padding: y = conv(x, W) + b.
//
// Bound by arithmetic; with stride 2 also, it seems, by what comes through L2, with 64 channels by launches.
// Work:     the products run on the tensor cores as float16 with compensation (see numerics). Two launches: one
//           prepares the weights in the order in which they are used; the second one starts early and reads its first
//           patch meanwhile. It is persistent, a block per multiprocessor, and computes y^T = W x^T: weights are the
//           operand A, 64 output channels, in registers, loaded as the fragments that threads hold; pixels are the
//           operand B, where they lie: without a swizzle, 8 channels of a pixel are 16 bytes and 8 pixels 128, so a
//           tap is another start address. There is no image of the input in halves: two warpgroups (producers) read
//           the input itself, cut floats in registers and store them for the two that multiply. A stage has 16
//           channels, weights of all taps and the patch; while one is filled, loads for the next are under way, and
//           L2 fetches 128 bytes where a load needs 32.
// Numerics: x / 16 = head + rest / 2048, both float16; weights are scaled by a power of two per output channel and
//           cut into head and rest; w x = head head + rest head + head / 2048 rest, which leaves out 2^-22 of a
//           product, as against 2^-24 of float32. Tensor cores round sums towards zero, so a sum in them covers 144
//           terms only; those are added up in float32 registers. Error at most 0.17 of what the task allows on all
//           its configurations, as emulated with sums of 26 bits.
// Measured: scripts/kernel_lab.py, H200, cold, us: now; with an image in halves, pixels by ldmatrix and a third
//           launch; eager. 8 images of 64 to 64 channels 13.0, 18.4, 35.5. 32 images, 256 and 128 to 128 channels
//           102, 116, 1,390 and 56.4, 65.4, 722; to 64 without padding 56.5, 89.0, 345 and 35.4, 51.8, 89.4; with
//           stride 2 35.8, 61.0, 120 and 22.8, 36.3, 138. 16 images, in this order: 54.9, 64.0, 832 and 33.3, 38.0,
//           181; 37.8, 50.3, 204 and 23.9, 31.9, 80.2; 31.3, 51.0, 93.4 and 19.3, 30.9, 51.2. Without L2's 128 bytes
//           0 to 6 % more; without split tiles too, with stride 2, 51, 29, 49 and 28, 8 images 14.5. Predictions that
//           failed: 82 and 45 for two rounds of tall tiles (102, 56.4), 45 and 27 for one (55 to 57, 33 to 35), 28
//           and 18 for flat ones (37.8, 23.9), with stride 2 28, 18, 18 and 13 (35.8, 22.8, 31.3, 19.3). At 1.75 GHz
//           products were to fill 85 % of the time without 8 us for launches; in tall tiles they fill 58 to 68 %, and
//           what fills the rest was not measured. 12 for 8 images nearly held.
// Dispatch: tiles of 64 channels and 16 x 16 pixels (tall), 8 x 16 (flat) or 8 x 8 split: then each team of the two
//           has every other chunk of channels, and sums are joined in the end. Taken is what needs the least time for
//           whole rounds of all multiprocessors. Stride 2 has no tall ones.
// Limits:   float32, contiguous, 3x3, stride 1 or 2. Values above 10^6 overflow, those below 10^-5 lose digits.
//           Compute capability 9.0 only: elsewhere it raises an error that says so.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

namespace {

constexpr int kTaps = 9, kOut = 64;  // output channels of a tile
constexpr int kChunk = 16;           // channels that a stage holds
constexpr int kTeam = 128, kConsumers = 2 * kTeam, kThreads = 4 * kTeam;
constexpr int kFragment = 128 * 16;                  // bytes of 64 x 16 weights
constexpr int kWeightBytes = kTaps * 2 * kFragment;  // of a stage: head and rest
constexpr int kSharedLimit = 232448 - 1024;          // bytes
constexpr float kScale = 1.0f / 16;                  // of the input: heads stay finite up to a million

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
// A float, or 0 if i is not below the end. Not moved behind what the thread waits for next; L2 fetches 128 bytes.
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
__device__ void meet_consumers() { asm volatile("bar.sync 1, 256;" ::: "memory"); }
template <int kCount>
__device__ void give_registers() {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ void take_registers() {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

#define OF_4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define OF_16(d, i) OF_4(d, i), OF_4(d, i + 4), OF_4(d, i + 8), OF_4(d, i + 12)

// d = a b, or d += a b, for 64 channels and 128 or 64 pixels; a thread's share of the results is d.
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
__device__ float load_float(unsigned from) {
    float value;
    asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(from) : "memory");
    return value;
}
__device__ void store_float(unsigned to, float value) {
    asm volatile("st.shared.f32 [%0], %1;" ::"r"(to), "f"(value) : "memory");
}
__device__ unsigned shrunk(unsigned pair) {  // two halves / 2048
    const __half2 small = __hmul2(reinterpret_cast<const __half2&>(pair), __floats2half2_rn(1.0f / 2048, 1.0f / 2048));
    return reinterpret_cast<const unsigned&>(small);
}

// ---- weights --------------------------------------------------------------------------------------------------------

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

// Weights of one output channel: [tile of 64][chunk][tap][head, rest][fragment], each channel scaled by a power of two,
// which the factor of its results takes back.
__global__ void __launch_bounds__(256)
    make_weights(const float* w, const float* bias, char* to, float2* finish, int out, int in) {
    cudaTriggerProgrammaticLaunchCompletion();
    const int channel = blockIdx.x, chunks = (in + kChunk - 1) / kChunk, terms = channel < out ? in * kTaps : 0;
    const float* from = w + int64_t(channel) * in * kTaps;
    const float top = largest(from, terms);
    const float scale = exp2f(float(top > 0 ? max(-100, min(100, 13 - ilogbf(top))) : 0));
    char* base = to + int64_t(channel / kOut) * chunks * kWeightBytes;
    for (int i = threadIdx.x; i < chunks * kChunk * kTaps; i += 256) {
        const int c = i / kTaps, tap = i % kTaps;
        const float v = i < terms ? from[i] * scale : 0.0f;
        const __half head = __float2half_rn(v);
        char* at = base + int64_t(c / kChunk) * kWeightBytes + tap * 2 * kFragment +
                   fragment_offset(channel % kOut, c % kChunk);
        *reinterpret_cast<__half*>(at) = head;
        *reinterpret_cast<__half*>(at + kFragment) = __float2half_rn(v - __half2float(head));
    }
    if (threadIdx.x == 0 && channel < out) finish[channel] = {1 / scale / kScale, bias[channel]};
}

// ---- tiles and stages -----------------------------------------------------------------------------------------------

struct Convolution {
    const float* x;
    int in, in_height, in_width, padding;  // of the input
    const char* weights;
    const float2* finish;  // factor and offset per output channel
    float* y;
    int out, height, width, batch;  // of the results
    int chunks, across, down, out_tiles;
};

// A tile has kRowsOut rows and 8 columns for each team, or 8 columns, each team taking every other chunk (split). A
// stage is a chunk: weights as fragments, then the patch, [plane][row][item of 8 channels]. Planes are the heads of the
// chunk's first 8 channels and its last, and the rests * 2048 of both. With stride 2 the even columns of a row come
// first.
template <int kStride, int kRowsOut, bool kHalved>
struct Plan {
    static constexpr bool kSplit = kHalved;
    static constexpr int kHigh = kRowsOut, kWide = kSplit ? 8 : 16, kSums = kHigh * 4;
    static constexpr int kRows = (kHigh - 1) * kStride + 3, kColumns = (kWide - 1) * kStride + 3;
    static constexpr int kItems = 2 * kRows * kColumns, kEach = (kItems + kTeam - 1) / kTeam;  // of a patch; a thread
    static constexpr int kMost = kHigh == 16 ? 2 : 5, kBatch = kEach < kMost ? kEach : kMost;   // read at once
    static constexpr int kRowBytes = kColumns * 16, kPlaneBytes = kRows * kRowBytes;
    static constexpr int kStageBytes = kWeightBytes + 4 * kPlaneBytes, kExchangeBytes = kSplit ? kTeam * 64 : 0;
    static constexpr int kRoom = (kSharedLimit - kExchangeBytes) / kStageBytes, kStages = kRoom < 4 ? kRoom : 4;
    static constexpr int kSharedBytes = kStages * kStageBytes + kExchangeBytes + 128;
    static constexpr int kConsumerRegisters = kHigh == 16 ? 200 : 152, kProducerRegisters = 256 - kConsumerRegisters;
    static_assert(kStages == 4 || kStages == 3 && !kSplit);  // in a tile, a stage belongs to one team
    __host__ __device__ static constexpr int place(int column) {  // of an item in its row
        return kStride == 1 ? column : column / 2 + column % 2 * ((kColumns + 1) / 2);
    }
    // Matrices of 8 pixels x 8 channels without a swizzle: the next 8 channels are a plane on, the next 8 pixels a row.
    __device__ static uint64_t descriptor(unsigned address) {
        return uint64_t((address & 0x3ffff) >> 4) | uint64_t(kPlaneBytes >> 4) << 16 |
               uint64_t(kStride * kRowBytes >> 4) << 32;
    }
};

struct Place {  // of a tile; row and column of its first result
    int image, row, column, out_tile;
    __device__ Place(const Convolution& p, int tile, int high, int wide) : out_tile(tile % p.out_tiles) {
        const int rest = tile / p.out_tiles;
        column = rest % p.across * wide;
        row = rest / p.across % p.down * high;
        image = rest / p.across / p.down;
    }
};

// The stage of the n-th chunk of a block.
template <class P>
struct Stage {
    unsigned weights, patch, full, empty, turn;  // addresses; how often it was used before
    __device__ Stage(unsigned stages, unsigned barriers, int number) {
        const int which = number % P::kStages;
        weights = stages + which * P::kStageBytes;
        patch = weights + kWeightBytes;
        full = barriers + which * 8;
        empty = full + P::kStages * 8;
        turn = number / P::kStages;
    }
    __device__ void wait_full() const { wait_for(full, turn & 1); }
    __device__ void wait_empty() const { wait_for(empty, (turn & 1) ^ 1); }
};

// ---- producers ------------------------------------------------------------------------------------------------------

template <class P>
struct Item {  // of a patch: 8 channels of a pixel
    int row, column, half;
    __device__ explicit Item(int index)
        : row(index / P::kColumns % P::kRows), column(index % P::kColumns), half(index / (P::kColumns * P::kRows)) {}
};

template <class P, int kStride>
__device__ void load_item(float (&v)[8], const Convolution& p, const Place& place, int chunk, int index) {
    const Item<P> item(index);
    const int y = place.row * kStride + item.row - p.padding, x = place.column * kStride + item.column - p.padding;
    const bool inside = index < P::kItems && unsigned(y) < unsigned(p.in_height) && unsigned(x) < unsigned(p.in_width);
    const int first = chunk * kChunk + item.half * 8, area = p.in_height * p.in_width;
    const float* from = p.x + (int64_t(place.image) * p.in + first) * area + y * p.in_width + x;
#pragma unroll
    for (int i = 0; i < 8; ++i) v[i] = load_below(i, inside ? p.in - first : 0, from + i * area);
}

__device__ void split(float x, float y, unsigned& head, unsigned& rest) {
    const __half2 h = __floats2half2_rn(x * kScale, y * kScale);
    const float2 f = __half22float2(h);
    const __half2 r = __floats2half2_rn((x * kScale - f.x) * 2048, (y * kScale - f.y) * 2048);
    head = reinterpret_cast<const unsigned&>(h);
    rest = reinterpret_cast<const unsigned&>(r);
}

template <class P>
__device__ void store_item(unsigned patch, const float (&v)[8], int index) {
    if (index >= P::kItems) return;
    const Item<P> item(index);
    unsigned head[4], rest[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) split(v[2 * i], v[2 * i + 1], head[i], rest[i]);
    const unsigned to = patch + item.half * P::kPlaneBytes + item.row * P::kRowBytes + P::place(item.column) * 16;
    store_words(to, head);
    store_words(to + 2 * P::kPlaneBytes, rest);
}

// Brings a chunk into its stage; the first loads are under way before the stage is free.
template <class P, int kStride>
__device__ void fill_stage(const Convolution& p, const Place& place, int chunk, const Stage<P>& stage) {
    const int thread = threadIdx.x % kTeam;
    for (int first = thread; first - thread < P::kItems; first += kTeam * P::kBatch) {
        float v[P::kBatch][8];
#pragma unroll
        for (int b = 0; b < P::kBatch; ++b) load_item<P, kStride>(v[b], p, place, chunk, first + b * kTeam);
        if (first == thread) stage.wait_empty();
        if (first == 0) {
            cudaGridDependencySynchronize();  // the weights are there
            expect(stage.full, kWeightBytes);
            const int64_t number = int64_t(place.out_tile) * p.chunks + chunk;
            copy_bulk(stage.weights, p.weights + number * kWeightBytes, kWeightBytes, stage.full);
        }
#pragma unroll
        for (int b = 0; b < P::kBatch; ++b) store_item<P>(stage.patch, v[b], first + b * kTeam);
    }
    show_stores();
    __syncwarp();
    if (thread % 32 == 0) arrive(stage.full);
}

// Two teams fill every other stage.
template <class P, int kStride>
__device__ void produce(const Convolution& p, unsigned stages, unsigned barriers, int tiles) {
    for (int number = threadIdx.x / kTeam - 2;; number += 2) {
        const int tile = blockIdx.x + number / p.chunks * gridDim.x;
        if (tile >= tiles) return;
        fill_stage<P, kStride>(p, Place(p, tile, P::kHigh, P::kWide), number % p.chunks, {stages, barriers, number});
    }
}

// ---- consumers ------------------------------------------------------------------------------------------------------

struct Weights {  // a thread's share of 64 x 16
    unsigned head[4], rest[4], small[4];
};

__device__ void load_weights(Weights& w, unsigned weights, int tap) {
    const unsigned from = weights + tap * 2 * kFragment + threadIdx.x % kTeam * 16;
    load_words(w.head, from);
    load_words(w.rest, from + kFragment);
#pragma unroll
    for (int i = 0; i < 4; ++i) w.small[i] = shrunk(w.head[i]);
}

// The products of 16 channels and one tap, added to a part or beginning it anew.
template <class P>
__device__ void multiply_tap(float (&part)[P::kSums], const Weights& w, uint64_t pixels, bool add) {
    constexpr int kRests = 2 * P::kPlaneBytes / 16;
    begin_products();
    multiply_async(part, w.small, pixels + kRests, add);
    multiply_async(part, w.rest, pixels, true);
    multiply_async(part, w.head, pixels, true);
    end_products();
}

// Adds the products of a stage. Tensor cores round sums towards zero, so they add up one stage; those parts are added
// in float32. The weights of a tap are loaded while the tap before it is multiplied.
template <class P>
__device__ void add_stage(float (&sums)[P::kSums], float (&part)[P::kSums], const Stage<P>& stage) {
    Weights w[3];
    const uint64_t pixels = P::descriptor(stage.patch + (P::kSplit ? 0 : threadIdx.x / kTeam * 128));
    load_weights(w[0], stage.weights, 0);
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap) {
        const int shift = tap / 3 * P::kRowBytes + P::place(tap % 3) * 16;
        multiply_tap<P>(part, w[tap % 3], pixels + shift / 16, tap > 0);
        wait_products<1>();
        if (tap + 1 < kTaps) load_weights(w[(tap + 1) % 3], stage.weights, tap + 1);
    }
    wait_products<0>();
#pragma unroll
    for (int i = 0; i < P::kSums; ++i) hold(part[i]);
    if (threadIdx.x % 32 == 0) arrive(stage.empty);
#pragma unroll
    for (int i = 0; i < P::kSums; ++i) sums[i] += part[i];
}

// Split, the first team gets what the other one has, half after half.
template <class P>
__device__ void join_sums(float (&sums)[P::kSums], unsigned room) {
    const unsigned own = room + threadIdx.x % kTeam * 4;
    const bool gets = threadIdx.x < kTeam;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float* mine = sums + half * 16;
        meet_consumers();
#pragma unroll
        for (int i = 0; i < 16; ++i)
            if (!gets) store_float(own + i * kTeam * 4, mine[i]);
        meet_consumers();
#pragma unroll
        for (int i = 0; i < 16; ++i)
            if (gets) mine[i] += load_float(own + i * kTeam * 4);
    }
}

// A thread has two channels, 8 apart, and in each row of the tile two pixels beside each other.
template <class P>
__device__ void store_tile(const Convolution& p, const float (&sums)[P::kSums], const Place& place) {
    const int thread = threadIdx.x % kTeam, lane = thread % 32;
    const int column = place.column + (P::kSplit ? 0 : threadIdx.x / kTeam * 8) + lane % 4 * 2;
    const int left = p.width - column;
    if (left <= 0) return;
#pragma unroll
    for (int h = 0; h < 2; ++h) {
        const int channel = place.out_tile * kOut + thread / 32 * 16 + lane / 4 + 8 * h;
        if (channel >= p.out) return;
        const float2 finish = p.finish[channel];
        float* to = p.y + ((int64_t(place.image) * p.out + channel) * p.height + place.row) * p.width + column;
#pragma unroll
        for (int j = 0; j < P::kHigh; ++j, to += p.width) {
            if (place.row + j >= p.height) break;
            const float* own = sums + 4 * j + 2 * h;
            const float2 pair = {own[0] * finish.x + finish.y, own[1] * finish.x + finish.y};
            if (p.width % 2 == 0) {
                *reinterpret_cast<float2*>(to) = pair;
                continue;
            }
            to[0] = pair.x;
            if (left > 1) to[1] = pair.y;
        }
    }
}

template <class P>
__device__ void consume(const Convolution& p, unsigned stages, unsigned barriers, int tiles) {
    const int team = threadIdx.x / kTeam;
    int before = 0;  // chunks of the tiles before
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x, before += p.chunks) {
        float sums[P::kSums], part[P::kSums];
#pragma unroll
        for (int i = 0; i < P::kSums; ++i) sums[i] = part[i] = 0;
        for (int chunk = P::kSplit ? team : 0; chunk < p.chunks; chunk += P::kSplit ? 2 : 1) {
            const Stage<P> stage(stages, barriers, before + chunk);
            stage.wait_full();
            add_stage<P>(sums, part, stage);
        }
        if constexpr (P::kSplit) join_sums<P>(sums, stages + P::kStages * P::kStageBytes);
        if (!P::kSplit || team == 0) store_tile<P>(p, sums, Place(p, tile, P::kHigh, P::kWide));
    }
}

// Two teams fill stages, two multiply.
template <int kStride, int kHigh, bool kSplit>
__global__ void __launch_bounds__(kThreads, 1) convolve(const __grid_constant__ Convolution p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    using P = Plan<kStride, kHigh, kSplit>;
    extern __shared__ char raw[];
    __shared__ __align__(8) uint64_t barrier_room[2 * P::kStages];  // full, empty
    const unsigned stages = (shared_address(raw) + 127) / 128 * 128, barriers = shared_address(barrier_room);
    const int tiles = p.batch * p.down * p.across * p.out_tiles;
    if (threadIdx.x == 0) {
        for (int i = 0; i < P::kStages; ++i) {
            begin_barrier(barriers + i * 8, kTeam / 32 + 1);
            begin_barrier(barriers + (P::kStages + i) * 8, (kSplit ? kTeam : kConsumers) / 32);
        }
        show_barriers();
    }
    __syncthreads();
    if (threadIdx.x >= kConsumers) {
        give_registers<P::kProducerRegisters>();
        produce<P, kStride>(p, stages, barriers, tiles);
        return;
    }
    take_registers<P::kConsumerRegisters>();
    cudaGridDependencySynchronize();
    consume<P>(p, stages, barriers, tiles);
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

// Starts while the kernel before is still running.
template <class... Parameters, class... Arguments>
void launch_early(void (*kernel)(Parameters...), int blocks, int threads, int shared_bytes, Arguments... arguments) {
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = c10::cuda::getCurrentCUDAStream();
    config.attrs = &early;
    config.numAttrs = 1;
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, Parameters(arguments)...));
}

int tiles_of(const Convolution& p, int high, int wide) {
    return p.batch * ceil_div(p.height, high) * ceil_div(p.width, wide) * ceil_div(p.out, kOut);
}

template <int kStride, int kHigh, bool kSplit>
void launch(Convolution p, int multiprocessors) {
    using P = Plan<kStride, kHigh, kSplit>;
    const auto kernel = convolve<kStride, kHigh, kSplit>;
    p.down = ceil_div(p.height, P::kHigh);
    p.across = ceil_div(p.width, P::kWide);
    p.out_tiles = ceil_div(p.out, kOut);
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, P::kSharedBytes));
    const int blocks = std::min(tiles_of(p, P::kHigh, P::kWide), multiprocessors);
    launch_early(kernel, blocks, kThreads, P::kSharedBytes, p);
}

// Takes the tiles that need the least time: rounds of all multiprocessors, times what a tile of the size takes.
void launch_cheapest(const Convolution& p, int stride) {
    const int multiprocessors = device_attribute(cudaDevAttrMultiProcessorCount);
    const auto cost = [&](int high, int wide, int each) {
        return ceil_div(tiles_of(p, high, wide), multiprocessors) * each;
    };
    const int tall = cost(16, 16, 20), flat = cost(8, 16, 11), small = cost(8, 8, 7);
    if (stride == 1 && tall <= std::min(flat, small)) launch<1, 16, false>(p, multiprocessors);
    else if (stride == 1 && flat <= small) launch<1, 8, false>(p, multiprocessors);
    else if (stride == 1) launch<1, 8, true>(p, multiprocessors);
    else if (flat <= small) launch<2, 8, false>(p, multiprocessors);
    else launch<2, 8, true>(p, multiprocessors);
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases, int64_t stride, int64_t padding) {
    TORCH_CHECK(device_attribute(cudaDevAttrComputeCapabilityMajor) == 9, "needs compute capability 9.0");
    TORCH_CHECK(stride == 1 || stride == 2, "stride ", stride, " is not 1 or 2");
    TORCH_CHECK(weights.size(2) == 3 && weights.size(3) == 3, "the filter is not 3x3");
    x = x.contiguous();
    weights = weights.contiguous();
    biases = biases.contiguous();
    Convolution p{};
    p.in = int(x.size(1)), p.in_height = int(x.size(2)), p.in_width = int(x.size(3)), p.padding = int(padding);
    p.batch = int(x.size(0)), p.out = int(weights.size(0)), p.chunks = ceil_div(p.in, kChunk);
    p.height = (p.in_height + 2 * p.padding - 3) / int(stride) + 1;
    p.width = (p.in_width + 2 * p.padding - 3) / int(stride) + 1;
    auto y = torch::empty({p.batch, p.out, p.height, p.width}, x.options());
    const int padded = ceil_div(p.out, kOut) * kOut;
    const int64_t bytes = int64_t(padded / kOut) * p.chunks * kWeightBytes;
    auto room = torch::empty({bytes / 4 + int64_t(padded) * 2}, x.options());  // weights, then factors and offsets
    char* prepared = reinterpret_cast<char*>(room.mutable_data_ptr<float>());
    auto finish = reinterpret_cast<float2*>(prepared + bytes);
    make_weights<<<padded, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        weights.const_data_ptr<float>(), biases.const_data_ptr<float>(), prepared, finish, p.out, p.in);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    p.x = x.const_data_ptr<float>(), p.y = y.mutable_data_ptr<float>(), p.weights = prepared, p.finish = finish;
    launch_cheapest(p, int(stride));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
