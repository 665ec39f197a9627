// Gated feed-forward layer: y = (silu(x G^T) * (x U^T)) D^T.
//
// Bound by arithmetic: 1.4 trillion operations at 4,096 tokens of 4,096 to 14,336. The float32 units of an H200 would
// need 24 ms; its tensor cores do three products of float16 for one of float32 in a quarter of that.
// Work:     both operands are first written as images: scaled, cut in halves and laid out in shared memory's order, so
//           that a step of 64 terms is two bulk copies of 32 KiB and twelve wgmma per warpgroup without a wait between.
//           The images of the weights cost 1.4 GB of traffic, 0.35 ms. A block computes 128 features x 128 tokens with
//           two warpgroups; one thread of a third keeps three stages filled. In the first product rows of G and U
//           alternate in groups of 64: a block holds gate and up of the same results and writes silu(gate) * up.
// Numerics: each row is scaled by a power of two to below 2^15 and cut into two float16, head and rest; head head +
//           head rest + rest head leaves out 2^-22 of a product. A sum in the tensor cores, which round towards zero,
//           covers 64 terms; those are added up in float32 registers. 0.21 of the tolerance at most (3xTF32: 0.41).
// Measured: scripts/kernel_lab.py, H200, 4,096 tokens of 4,096 to 14,336: 6.5 ms, 670 TFLOP/s of float16 products
//           (3xTF32 on mma.sync 24.0, eager 29.3); 256 tokens: 0.92 ms (1.56, 1.99). Weights cut in registers, not into
//           an image: 23.5, since they came as 128 small copies per step.
// Dispatch: as many tiles as fill whole rounds of the multiprocessors are computed by one block each; the terms of the
//           tiles that are left are split between blocks, and a last kernel adds their parts in a fixed order.
// Limits:   float32, contiguous; compute capability 9.0, elsewhere it raises an error; an infinite input makes its row
//           NaN; 0.8 GB of scratch for the largest configuration.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_fp16.h>
#include <torch/extension.h>

namespace {

constexpr int kTile = 128, kDepth = 64, kStages = 3;  // results per block: kTile features x kTile tokens
constexpr int kHalfBytes = kTile * kDepth * 2, kImageBytes = 2 * kHalfBytes, kStageBytes = 2 * kImageBytes;
constexpr int kSharedBytes = kStages * kStageBytes + 1024, kSumPitch = kTile + 4;
constexpr int kConsumers = 256, kThreads = kConsumers + 128;
constexpr int kTogether = 8;  // token tiles that neighbours in the grid go through

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

// ---- images ---------------------------------------------------------------------------------------------------------

// A matrix in halves: [tile of 128 rows][chunk of 64 terms][head, rest][row][term], rows of 128 bytes swizzled; and
// what takes back the scale of each row.
struct Image {
    char* data;
    float* inverse;
    int tiles, chunks;
};

// Rows of one matrix, or of two by turns: 64 of the first, 64 of the second.
struct Rows {
    const float *first, *second;
    int count, terms;
    __device__ const float* at(int image_row) const {
        if (second == nullptr) return image_row < count ? first + int64_t(image_row) * terms : nullptr;
        const int row = image_row / kTile * (kTile / 2) + image_row % (kTile / 2);
        const float* from = image_row % kTile < kTile / 2 ? first : second;
        return row < count ? from + int64_t(row) * terms : nullptr;
    }
};

__device__ void split(float x, float y, unsigned& head, unsigned& rest) {
    const __half2 h = __floats2half2_rn(x, y);
    const float2 f = __half22float2(h);
    const __half2 r = __floats2half2_rn(x - f.x, y - f.y);
    head = reinterpret_cast<const unsigned&>(h);
    rest = reinterpret_cast<const unsigned&>(r);
}

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

// Eight terms from `at` on; zeros behind the end.
__device__ void load_eight(const float* from, int at, int terms, float (&v)[8]) {
    if (terms % 4 == 0 && at + 8 <= terms) {
        reinterpret_cast<float4*>(v)[0] = *reinterpret_cast<const float4*>(from + at);
        reinterpret_cast<float4*>(v)[1] = *reinterpret_cast<const float4*>(from + at + 4);
    } else {
        for (int i = 0; i < 8; ++i) v[i] = at + i < terms ? from[at + i] : 0.0f;
    }
}

__global__ void __launch_bounds__(256) make_image(const Rows rows, const Image image) {
    const int row = blockIdx.x % kTile;
    const float* from = rows.at(blockIdx.x);
    const int terms = from != nullptr ? rows.terms : 0;
    const float top = largest(from, terms);
    const float scale = exp2f(float(top > 0 ? max(-100, min(100, 14 - ilogbf(top))) : 0));
    if (threadIdx.x == 0) image.inverse[blockIdx.x] = 1.0f / scale;
    char* tile = image.data + int64_t(blockIdx.x / kTile) * image.chunks * kImageBytes + row * 128;
    for (int group = threadIdx.x; group < image.chunks * (kDepth / 8); group += 256) {
        __align__(16) float v[8];
        load_eight(from, group * 8, terms, v);
        uint4 head, rest;
        split(v[0] * scale, v[1] * scale, head.x, rest.x);
        split(v[2] * scale, v[3] * scale, head.y, rest.y);
        split(v[4] * scale, v[5] * scale, head.z, rest.z);
        split(v[6] * scale, v[7] * scale, head.w, rest.w);
        char* to = tile + int64_t(group / 8) * kImageBytes + (group % 8 ^ (row & 7)) * 16;
        *reinterpret_cast<uint4*>(to) = head;
        *reinterpret_cast<uint4*>(to + kHalfBytes) = rest;
    }
}

// ---- products -------------------------------------------------------------------------------------------------------

struct Product {  // c (tokens, features) = x w^T, or silu(x gate^T) * (x up^T) where the weights are two by turns
    Image weights, x;
    float *c, *parts;  // parts of the sums, or null
    int tokens, features, first_tile, steps_per_split;
};

struct Place {
    int token_tile, feature_tile;
    __device__ Place(const Product& p, int tile) {
        const int group = tile / (kTogether * p.weights.tiles), first = group * kTogether;
        const int size = min(kTogether, p.x.tiles - first), rest = tile - first * p.weights.tiles;
        token_tile = first + rest % size;
        feature_tile = rest / size;
    }
};

// Rows of 128 bytes in the swizzle of 128 bytes.
__device__ uint64_t descriptor(unsigned address) {
    return uint64_t((address & 0x3ffff) >> 4) | uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}

#define OF_4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define OF_16(d, i) OF_4(d, i), OF_4(d, i + 4), OF_4(d, i + 8), OF_4(d, i + 12)

// d = a b, or d += a b: 64 features x 128 tokens, 16 terms, all in shared memory.
__device__ void multiply_async(float (&d)[64], uint64_t a, uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
        " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
        " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, p, 1, 1, 0, 0;\n}"
        : OF_16(d, 0), OF_16(d, 16), OF_16(d, 32), OF_16(d, 48)
        : "l"(a), "l"(b), "r"(int(add)));
}

__device__ float silu(float v) { return v / (1.0f + __expf(-v)); }

__device__ void produce(const Product& p, const Place& place, unsigned stages, unsigned full, int begin, int end) {
    const int64_t chunks = p.x.chunks;
    const char* weights = p.weights.data + place.feature_tile * chunks * kImageBytes;
    const char* tokens = p.x.data + place.token_tile * chunks * kImageBytes;
    for (int turn = 0; turn < end - begin; ++turn) {
        const int stage = turn % kStages;
        const unsigned to = stages + stage * kStageBytes, barrier = full + stage * 8;
        wait_for(barrier + kStages * 8, (turn / kStages & 1) ^ 1);
        expect(barrier, kStageBytes);
        copy_bulk(to, weights + int64_t(begin + turn) * kImageBytes, kImageBytes, barrier);
        copy_bulk(to + kImageBytes, tokens + int64_t(begin + turn) * kImageBytes, kImageBytes, barrier);
    }
}

// The sums of 64 features by 128 tokens.
__device__ void consume(float (&sums)[64], unsigned stages, unsigned full, int steps) {
    const int lane = threadIdx.x % 32, group = threadIdx.x / 128;
    float part[64];
#pragma unroll
    for (int i = 0; i < 64; ++i) sums[i] = part[i] = 0;
    for (int turn = 0; turn < steps; ++turn) {
        const int stage = turn % kStages;
        const unsigned weights = stages + stage * kStageBytes + group * 64 * 128;
        const unsigned tokens = stages + stage * kStageBytes + kImageBytes;
        wait_for(full + stage * 8, turn / kStages & 1);
        asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
        for (int k = 0; k < kDepth / 16; ++k) {
            const uint64_t w_head = descriptor(weights + k * 32), w_rest = descriptor(weights + kHalfBytes + k * 32);
            const uint64_t x_head = descriptor(tokens + k * 32), x_rest = descriptor(tokens + kHalfBytes + k * 32);
            multiply_async(part, w_rest, x_head, k > 0);
            multiply_async(part, w_head, x_rest, true);
            multiply_async(part, w_head, x_head, true);
        }
        asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
        for (int i = 0; i < 64; ++i) asm volatile("" : "+f"(part[i])::"memory");  // not to be read before
        if (lane == 0) arrive(full + (kStages + stage) * 8);
#pragma unroll
        for (int i = 0; i < 64; ++i) sums[i] += part[i];
    }
}

// Into shared memory, a token after the other, with the scales taken back.
__device__ void publish(const Product& p, const Place& place, const float (&sums)[64], float* to) {
    const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;
    const float* features = p.weights.inverse + place.feature_tile * kTile;
    const float* tokens = p.x.inverse + place.token_tile * kTile;
    const float factors[2] = {features[row], features[row + 8]};
#pragma unroll
    for (int i = 0; i < 64; ++i) {
        const int token = i / 4 * 8 + lane % 4 * 2 + i % 2;
        to[token * kSumPitch + row + i / 2 % 2 * 8] = sums[i] * factors[i / 2 % 2] * tokens[token];
    }
}

template <bool kGated>
__device__ void store_tile(const Product& p, const Place& place, const float* sums) {
    constexpr int kWide = kGated ? kTile / 2 : kTile;
    const int first_token = place.token_tile * kTile, first_feature = place.feature_tile * kWide;
    for (int i = threadIdx.x; i < kTile * kWide; i += kConsumers) {
        const int token = i / kWide, f = i % kWide;
        if (first_token + token >= p.tokens || first_feature + f >= p.features) continue;
        const float* at = sums + token * kSumPitch + f;
        p.c[int64_t(first_token + token) * p.features + first_feature + f] = kGated ? silu(at[0]) * at[kWide] : at[0];
    }
}

__device__ void meet_consumers() { asm volatile("bar.sync 1, %0;" ::"n"(kConsumers) : "memory"); }

template <bool kGated>
__global__ void __launch_bounds__(kThreads, 1) multiply(const __grid_constant__ Product p) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ char raw[];
    __shared__ __align__(8) uint64_t barriers[2 * kStages];  // full, empty
    char* const shared = raw + (1024 - shared_address(raw) % 1024) % 1024;
    const unsigned stages = shared_address(shared), full = shared_address(barriers);
    const Place place(p, p.first_tile + blockIdx.x);
    const int begin = blockIdx.y * p.steps_per_split, end = min(p.x.chunks, begin + p.steps_per_split);
    if (threadIdx.x == 0) {
        for (int i = 0; i < 2 * kStages; ++i) begin_barrier(full + i * 8, i < kStages ? 1 : kConsumers / 32);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (threadIdx.x >= kConsumers) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
        if (threadIdx.x == kConsumers) produce(p, place, stages, full, begin, end);
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    float sums[64];
    consume(sums, stages, full, end - begin);
    meet_consumers();  // everybody is done with the stages
    const auto tile = reinterpret_cast<float*>(shared);
    publish(p, place, sums, tile);
    meet_consumers();
    if (p.parts == nullptr) return store_tile<kGated>(p, place, tile);
    float* part = p.parts + (int64_t(blockIdx.y) * gridDim.x + blockIdx.x) * kTile * kTile;
    for (int i = threadIdx.x; i < kTile * kTile; i += kConsumers) part[i] = tile[i / kTile * kSumPitch + i % kTile];
#endif
}

template <bool kGated>
__global__ void __launch_bounds__(kConsumers) add_parts(const __grid_constant__ Product p, int splits) {
    extern __shared__ float total[];
    for (int i = threadIdx.x; i < kTile * kTile; i += kConsumers) {
        float sum = 0;
        for (int s = 0; s < splits; ++s) sum += p.parts[(int64_t(s) * gridDim.x + blockIdx.x) * kTile * kTile + i];
        total[i / kTile * kSumPitch + i % kTile] = sum;
    }
    __syncthreads();
    store_tile<kGated>(p, Place(p, p.first_tile + blockIdx.x), total);
}

// ---- host -----------------------------------------------------------------------------------------------------------

int ceil_div(int a, int b) { return (a + b - 1) / b; }

int device_attribute(cudaDeviceAttr attribute) {
    int device, value;
    C10_CUDA_CHECK(cudaGetDevice(&device));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&value, attribute, device));
    return value;
}

int multiprocessor_count() { return device_attribute(cudaDevAttrMultiProcessorCount); }

int best_splits(int tiles, int steps) {
    const int multiprocessors = multiprocessor_count();
    const auto cost = [&](int splits) { return float(ceil_div(tiles * splits, multiprocessors)) / float(splits); };
    int best = 1;
    for (int splits = 2; splits <= std::min(16, steps / 4); ++splits)
        if (cost(splits) < 0.9f * cost(best)) best = splits;
    return ceil_div(steps, ceil_div(steps, best));  // no empty ones
}

struct OwnedImage {
    torch::Tensor data, inverse;
    Image image;
    OwnedImage(const Rows& rows, const torch::TensorOptions& options) {
        const int tiles = ceil_div(rows.count, rows.second != nullptr ? kTile / 2 : kTile);
        const int chunks = ceil_div(rows.terms, kDepth);
        data = torch::empty({int64_t(tiles) * chunks * kImageBytes / 4}, options);
        inverse = torch::empty({tiles * kTile}, options);
        image = {reinterpret_cast<char*>(data.mutable_data_ptr<float>()), inverse.mutable_data_ptr<float>(), tiles,
                 chunks};
        make_image<<<tiles * kTile, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(rows, image);
        C10_CUDA_KERNEL_LAUNCH_CHECK();
    }
};

template <bool kGated>
void launch_tiles(Product p, int first_tile, int tiles, int splits) {
    const auto stream = c10::cuda::getCurrentCUDAStream();
    C10_CUDA_CHECK(cudaFuncSetAttribute(multiply<kGated>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
    p.first_tile = first_tile;
    p.steps_per_split = ceil_div(p.x.chunks, splits);
    if (splits == 1) p.parts = nullptr;
    multiply<kGated><<<dim3(tiles, splits), kThreads, kSharedBytes, stream>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    if (splits == 1) return;
    constexpr int kBytes = kTile * kSumPitch * 4;
    C10_CUDA_CHECK(cudaFuncSetAttribute(add_parts<kGated>, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    add_parts<kGated><<<tiles, kConsumers, kBytes, stream>>>(p, splits);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// Whole waves of tiles, then what is left in parts, so that all multiprocessors have work to the end.
template <bool kGated>
void run(const Rows& x, const Rows& weights, torch::Tensor c) {
    const OwnedImage x_image(x, c.options()), weight_image(weights, c.options());
    const int tiles = x_image.image.tiles * weight_image.image.tiles, left = tiles % multiprocessor_count();
    const int splits = left > 0 ? best_splits(left, x_image.image.chunks) : 1;
    auto parts = torch::empty({splits == 1 ? 0 : int64_t(splits) * left * kTile * kTile}, c.options());
    const Product p{weight_image.image, x_image.image, c.mutable_data_ptr<float>(), parts.mutable_data_ptr<float>(),
                    x.count,            weights.count, 0,                           0};
    if (splits == 1) return launch_tiles<kGated>(p, 0, tiles, 1);
    if (tiles > left) launch_tiles<kGated>(p, 0, tiles - left, 1);
    launch_tiles<kGated>(p, tiles - left, left, splits);
}

const float* data(const torch::Tensor& t) { return t.const_data_ptr<float>(); }

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor gate_proj, torch::Tensor up_proj, torch::Tensor down_proj) {
    TORCH_CHECK(device_attribute(cudaDevAttrComputeCapabilityMajor) == 9, "needs compute capability 9.0");
    x = x.contiguous();
    gate_proj = gate_proj.contiguous();
    up_proj = up_proj.contiguous();
    down_proj = down_proj.contiguous();
    const int features = int(gate_proj.size(1)), up = int(gate_proj.size(0)), tokens = int(x.numel() / features);
    auto hidden = torch::empty({tokens, up}, x.options()), y = torch::empty(x.sizes(), x.options());
    run<true>({data(x), nullptr, tokens, features}, {data(gate_proj), data(up_proj), up, features}, hidden);
    run<false>({data(hidden), nullptr, tokens, up}, {data(down_proj), nullptr, features, up}, y);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
