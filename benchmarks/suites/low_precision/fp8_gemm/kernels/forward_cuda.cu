// Matrix product in float8 (e4m3) with scales: y[i, j] = sx[i] sw[j] sum_k x[i, k] w[j, k].
//
// Bound by the tensor cores for many rows, by reading the weights once for few.
// wide:     256 rows x 128 outputs per block from shared memory, 128 terms a step, filled three steps ahead by
//           asynchronous copies into the swizzle that wgmma reads. A warpgroup has 128 rows as two products of 64 and adds
//           the sums of one to its totals while the other warpgroup multiplies.
// narrow:   at most 16 rows. y^T = W x^T, so that the 64 rows of an instruction are outputs; seven steps ahead, two
//           blocks per multiprocessor.
// pieces:   a depth that is no multiple of 16, whose rows are not aligned, and GPUs without wgmma: mma.sync on tiles of
//           64 x 64, one value at a time through registers (compute capability 8.9 and later).
// Where there are fewer tiles than the device takes, up to four blocks of a cluster share the terms of one tile and add
// their sums through distributed shared memory, always in the same order.
// Numerics: the tensor cores of sm_90 keep about 14 bits of a sum of float8 products (arXiv 2412.19437, section 3.3), so
//           sums start at zero again every 128 terms and ordinary additions collect them in float32. The scales are
//           applied to the totals, which are rounded once.
// Limits:   contiguous. Not measured yet.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cooperative_groups.h>
#include <cuda_bf16.h>
#include <torch/extension.h>

namespace {

constexpr int kProcessors = 132;  // of an H100; only a guide for sizing grids
constexpr int kMostParts = 4;     // blocks of a cluster

using Value = uint8_t;  // e4m3

struct Product {
    const Value *x, *w;
    const float *sx, *sw;
    __nv_bfloat16* y;
    int rows, outputs, depth;

    __device__ float finished(int row, int output, float sum) const { return sum * (sx[row] * sw[output]); }
    __device__ void set(int row, int output, float sum) const {
        y[int64_t(row) * outputs + output] = __float2bfloat16_rn(finished(row, output, sum));
    }
    // Two neighbouring results, as far as they exist.
    __device__ void set_pair(int row, int output, float first, float second) const {
        if (outputs % 2 == 0 && output < outputs) {
            const __nv_bfloat162 both =
                __floats2bfloat162_rn(finished(row, output, first), finished(row, output + 1, second));
            *reinterpret_cast<__nv_bfloat162*>(y + int64_t(row) * outputs + output) = both;
        } else {
            if (output < outputs) set(row, output, first);
            if (output + 1 < outputs) set(row, output + 1, second);
        }
    }
};

// A block's share of the work: a tile of results, and steps of kStepTerms terms.
struct Share {
    int row, output, first, last, part;
};

// Tiles go down the rows within bands of eight tiles of outputs, so that blocks that run together share what they read.
template <int kRows, int kOutputs>
__device__ Share share_of(const Product& product, int parts, int step_terms) {
    constexpr int kBand = 8;
    const int part = blockIdx.x % parts, tile = blockIdx.x / parts;
    const int down = (product.rows + kRows - 1) / kRows, across = (product.outputs + kOutputs - 1) / kOutputs;
    const int band = tile / (kBand * down), within = tile % (kBand * down), width = min(kBand, across - band * kBand);
    const int steps = (product.depth + step_terms - 1) / step_terms;
    return {within / width * kRows, (band * kBand + within % width) * kOutputs, int(int64_t(steps) * part / parts),
            int(int64_t(steps) * (part + 1) / parts), part};
}

// y from sums that the blocks of a cluster have left in shared memory, kPitch floats to a row of M; each does a share.
template <int kM, int kN, int kPitch, bool kSwap>
__device__ void finish(const Product& product, const Share& share, int parts, const float* sums) {
    const auto cluster = cooperative_groups::this_cluster();
    cluster.sync();
    constexpr int kRows = kSwap ? kN : kM, kOutputs = kSwap ? kM : kN;
    const int begin = kRows * share.part / parts, end = kRows * (share.part + 1) / parts;
    for (int i = threadIdx.x; i < (end - begin) * kOutputs; i += blockDim.x) {
        const int row = begin + i / kOutputs, output = i % kOutputs;
        float sum = 0;
        for (int p = 0; p < parts; ++p)
            sum += cluster.map_shared_rank(const_cast<float*>(sums), p)[kSwap ? output * kPitch + row : row * kPitch + output];
        if (share.row + row < product.rows && share.output + output < product.outputs)
            product.set(share.row + row, share.output + output, sum);
    }
    cluster.sync();  // nobody leaves while others read from here
}

template <typename Kernel>
void launch(Kernel kernel, const Product& product, int tiles, int blocks, int steps, int threads, int bytes) {
    int parts = 1;
    while (parts < kMostParts && tiles * parts * 2 <= blocks && steps >= 4 * parts) parts *= 2;
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes));
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {unsigned(parts), 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = unsigned(tiles * parts);
    config.blockDim = unsigned(threads);
    config.dynamicSmemBytes = size_t(bytes);
    config.stream = c10::cuda::getCurrentCUDAStream();
    config.attrs = &cluster;
    config.numAttrs = 1;
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, product, parts));
}

int over(int size, int tile) { return (size + tile - 1) / tile; }

// ---- streams: operands by asynchronous copies, products by warpgroups -----------------------------------------------

constexpr int kStepBytes = 128, kStepTerms = kStepBytes / int(sizeof(Value));  // of a row, which the swizzle spans

// M is cut into groups of 64 for each warpgroup, N is one instruction's. kSwap: M is the outputs, else the rows.
template <int kGroups_, int kTall_, int kN_, int kStages_, bool kSwap_>
struct Plan {
    static constexpr int kGroups = kGroups_, kTall = kTall_, kN = kN_, kStages = kStages_, kM = 64 * kGroups * kTall;
    static constexpr bool kSwap = kSwap_;
    static constexpr int kThreads = 128 * kGroups, kStage = (kM + kN) * kStepBytes, kPitch = kSwap ? kN + 1 : kN + 8;
    static constexpr int kBytes = kStages * kStage + 1024;  // stages begin at multiples of 1024
    static constexpr int kRows = kSwap ? kN : kM, kOutputs = kSwap ? kM : kN;
    static_assert(kM * kPitch * 4 <= kStages * kStage, "sums lie where the stages were");
};
using Wide = Plan<2, 2, 128, 4, false>;
using Narrow = Plan<1, 1, 16, 8, true>;

__device__ unsigned shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }

// A thread's part of copying kRows rows x 128 bytes into the swizzle of 128 bytes; what is missing becomes zero.
template <int kRows, int kThreads>
struct Stream {
    const Value* from;
    int64_t depth;
    int left, k;  // rows from the thread's first one on; its first term
    unsigned to;

    __device__ Stream(const Value* table, int64_t depth, int first, int rows)
        : from(table + (first + threadIdx.x / 8) * depth), depth(depth), left(rows - first - int(threadIdx.x / 8)),
          k(int(threadIdx.x % 8 * (16 / sizeof(Value)))),
          to(threadIdx.x / 8 * kStepBytes + (((threadIdx.x % 8) ^ (threadIdx.x / 8 % 8)) << 4)) {}

    __device__ void copy(unsigned stage, int step) const {
        constexpr int kTogether = kThreads / 8;
        const int64_t at = int64_t(step) * kStepTerms + k;
#pragma unroll
        for (int i = 0; i < kRows / kTogether; ++i) {
            const bool inside = i * kTogether < left && at < depth;
            const Value* source = inside ? from + i * kTogether * depth + at : from_any();
            asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(stage + to + i * kTogether * kStepBytes),
                         "l"(source), "r"(inside ? 16 : 0)
                         : "memory");
        }
    }
    __device__ const Value* from_any() const { return from - int64_t(threadIdx.x / 8) * depth; }  // the tile's first row
};

__device__ uint64_t descriptor(unsigned address) {
    return uint64_t((address & 0x3ffff) >> 4) | uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}

#define OF_4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define OF_16(d, i) OF_4(d, i), OF_4(d, i + 4), OF_4(d, i + 8), OF_4(d, i + 12)

// d = a b, or d += a b, for 64 rows of a and of b 128 or 16; 32 bytes of terms.
__device__ void multiply_async(float (&d)[64], uint64_t a, uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k32.f32.e4m3.e4m3 "
        "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15,"
        " %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31,"
        " %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47,"
        " %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
        "%64, %65, p, 1, 1;\n}"
        : OF_16(d, 0), OF_16(d, 16), OF_16(d, 32), OF_16(d, 48)
        : "l"(a), "l"(b), "r"(int(add)));
}
__device__ void multiply_async(float (&d)[8], uint64_t a, uint64_t b, bool add) {
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %10, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n16k32.f32.e4m3.e4m3 {%0, %1, %2, %3, %4, %5, %6, %7}, %8, %9, p, 1, 1;\n}"
        : OF_4(d, 0), OF_4(d, 4)
        : "l"(a), "l"(b), "r"(int(add)));
}
__device__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ void wait_for_products() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
template <int kPending>
__device__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
template <int kCount>
__device__ void pin(float (&d)[kCount]) {  // not to be read before
#pragma unroll
    for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

template <typename P>
__global__ void __launch_bounds__(P::kThreads, 1) stream(Product product, int parts) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ char raw[];
    char* const stages = raw + (1024 - shared_address(raw) % 1024) % 1024;
    const unsigned base = shared_address(stages);
    const Share share = share_of<P::kRows, P::kOutputs>(product, parts, kStepTerms);
    const Stream<P::kM, P::kThreads> a(P::kSwap ? product.w : product.x, product.depth, P::kSwap ? share.output : share.row,
                                       P::kSwap ? product.outputs : product.rows);
    const Stream<P::kN, P::kThreads> b(P::kSwap ? product.x : product.w, product.depth, P::kSwap ? share.row : share.output,
                                       P::kSwap ? product.rows : product.outputs);
    const auto slot = [&](int step) { return base + unsigned(step % P::kStages * P::kStage); };
    const auto fetch = [&](int step) {
        if (step < share.last) {
            a.copy(slot(step), step);
            b.copy(slot(step) + P::kM * kStepBytes, step);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    const int group = threadIdx.x / 128;
    float totals[P::kTall][P::kN / 2] = {};
    float fresh[P::kN / 2];
    for (int ahead = 0; ahead < P::kStages - 1; ++ahead) fetch(share.first + ahead);
    for (int step = share.first; step < share.last; ++step) {
        wait_for_copies<P::kStages - 2>();
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        __syncthreads();  // this step is there for all, and all are done with the one that fetch now overwrites
        fetch(step + P::kStages - 1);
#pragma unroll
        for (int t = 0; t < P::kTall; ++t) {
            begin_products();
#pragma unroll
            for (int k = 0; k < kStepBytes; k += 32)
                multiply_async(fresh, descriptor(slot(step) + (group * P::kTall + t) * 64 * kStepBytes + k),
                               descriptor(slot(step) + P::kM * kStepBytes + k), k > 0);
            commit_products();
            wait_for_products<0>();
            pin(fresh);
#pragma unroll
            for (int i = 0; i < P::kN / 2; ++i) totals[t][i] += fresh[i];
        }
    }
    const int lane = threadIdx.x % 32, m = group * P::kTall * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4, n = lane % 4 * 2;
    if (!P::kSwap && parts == 1) {  // pairs of neighbouring results straight from registers
#pragma unroll
        for (int i = 0; i < P::kTall * P::kN / 2; i += 2) {
            const int row = share.row + m + i / (P::kN / 2) * 64 + i / 2 % 2 * 8;
            const int output = share.output + n + i % (P::kN / 2) / 4 * 8;
            const float* pair = totals[i / (P::kN / 2)] + i % (P::kN / 2);
            if (row < product.rows) product.set_pair(row, output, pair[0], pair[1]);
        }
        return;
    }
    __syncthreads();  // all have read what the sums now overwrite
    float* const sums = reinterpret_cast<float*>(stages);
#pragma unroll
    for (int i = 0; i < P::kTall * P::kN / 2; ++i)
        sums[(m + i / (P::kN / 2) * 64 + i / 2 % 2 * 8) * P::kPitch + n + i % (P::kN / 2) / 4 * 8 + i % 2] =
            totals[i / (P::kN / 2)][i % (P::kN / 2)];
    finish<P::kM, P::kN, P::kPitch, P::kSwap>(product, share, parts, sums);
#endif
}

template <typename P>
void launch_stream(const Product& product) {
    const int tiles = over(product.rows, P::kRows) * over(product.outputs, P::kOutputs);
    const int blocks = P::kSwap ? 2 * kProcessors : kProcessors;
    launch(stream<P>, product, tiles, blocks, over(product.depth, kStepTerms), P::kThreads, P::kBytes);
}

bool has_wgmma() {
    int device, major;
    C10_CUDA_CHECK(cudaGetDevice(&device));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    return major == 9;
}

bool is_aligned(const void* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }
bool suits(const Product& product) {
    return product.depth * sizeof(Value) % 16 == 0 && is_aligned(product.x) && is_aligned(product.w) && has_wgmma();
}

// ---- pieces: any depth and alignment, one value at a time, products by warps -----------------------------------------

constexpr int kTile = 64, kThreads = 128, kPieceTerms = 32, kPieceBytes = kPieceTerms * int(sizeof(Value));
constexpr int kPiecePitch = kPieceBytes + 16, kSumPitch = kTile + 1;  // in bytes and in floats: no bank conflicts

__device__ void multiply(float (&d)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// A thread's part of 64 rows x 32 terms: one term of every fourth row.
struct Piece {
    static constexpr int kTogether = kThreads / kPieceTerms, kCount = kTile / kTogether;
    Value values[kCount];

    __device__ void load(const Value* table, int64_t depth, int first, int rows, int step) {
        const int row = first + threadIdx.x / kPieceTerms;
        const int64_t k = int64_t(step) * kPieceTerms + threadIdx.x % kPieceTerms;
#pragma unroll
        for (int i = 0; i < kCount; ++i) {
            const bool inside = row + i * kTogether < rows && k < depth;
            values[i] = inside ? table[(row + i * kTogether) * depth + k] : Value{};
        }
    }
    __device__ void store(char* to) const {
        const int row = threadIdx.x / kPieceTerms, at = int(threadIdx.x % kPieceTerms * sizeof(Value));
#pragma unroll
        for (int i = 0; i < kCount; ++i)
            *reinterpret_cast<Value*>(to + (row + i * kTogether) * kPiecePitch + at) = values[i];
    }
};

// Adds the products of one step to a warp's 32 x 32 results: 2 x 4 tiles of 16 x 8.
__device__ void add_products(const char* a, const char* b, float (&totals)[2][4][4]) {
    const int lane = threadIdx.x % 32, at = lane / 4 * kPiecePitch + lane % 4 * 4;
    float sums[2][4][4] = {};
#pragma unroll
    for (int k = 0; k < kPieceBytes; k += 32) {
        unsigned left[2][4], right[4][2];
        for (int i = 0; i < 8; ++i)
            left[i / 4][i % 4] =
                *reinterpret_cast<const unsigned*>(a + at + (i / 4 * 16 + i % 2 * 8) * kPiecePitch + k + i / 2 % 2 * 16);
        for (int i = 0; i < 8; ++i)
            right[i / 2][i % 2] = *reinterpret_cast<const unsigned*>(b + at + i / 2 * 8 * kPiecePitch + k + i % 2 * 16);
        for (int i = 0; i < 8; ++i) multiply(sums[i / 4][i % 4], left[i / 4], right[i % 4]);
    }
    for (int i = 0; i < 32; ++i) totals[i / 16][i / 4 % 4][i % 4] += sums[i / 16][i / 4 % 4][i % 4];
}

__global__ void __launch_bounds__(kThreads) piecewise(Product product, int parts) {
    __shared__ __align__(16) char a[kTile * kPiecePitch], b[kTile * kPiecePitch];
    __shared__ float sums[kTile * kSumPitch];
    const Share share = share_of<kTile, kTile>(product, parts, kPieceTerms);
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    float totals[2][4][4] = {};
    Piece x, w;
    const auto load = [&](int step) {
        x.load(product.x, product.depth, share.row, product.rows, step);
        w.load(product.w, product.depth, share.output, product.outputs, step);
    };
    load(share.first);
    for (int step = share.first; step < share.last; ++step) {
        x.store(a), w.store(b);
        __syncthreads();
        if (step + 1 < share.last) load(step + 1);
        add_products(a + warp / 2 * 32 * kPiecePitch, b + warp % 2 * 32 * kPiecePitch, totals);
        __syncthreads();
    }
    for (int i = 0; i < 32; ++i)
        sums[(warp / 2 * 32 + lane / 4 + i / 16 * 16 + i / 2 % 2 * 8) * kSumPitch + warp % 2 * 32 + lane % 4 * 2 +
             i / 4 % 4 * 8 + i % 2] = totals[i / 16][i / 4 % 4][i % 4];
    finish<kTile, kTile, kSumPitch, false>(product, share, parts, sums);
}

void launch_pieces(const Product& product) {
    const int tiles = over(product.rows, kTile) * over(product.outputs, kTile);
    launch(piecewise, product, tiles, 2 * kProcessors, over(product.depth, kPieceTerms), kThreads, 0);
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor sx, torch::Tensor sw) {
    x = x.contiguous(), w = w.contiguous(), sx = sx.contiguous(), sw = sw.contiguous();
    auto y = torch::empty({x.size(0), w.size(0)}, x.options().dtype(torch::kBFloat16));
    if (y.numel() == 0) return y;
    const Product product = {static_cast<const Value*>(x.const_data_ptr()), static_cast<const Value*>(w.const_data_ptr()),
                             sx.const_data_ptr<float>(), sw.const_data_ptr<float>(),
                             reinterpret_cast<__nv_bfloat16*>(y.mutable_data_ptr<at::BFloat16>()),
                             int(x.size(0)), int(w.size(0)), int(x.size(1))};
    if (!suits(product)) launch_pieces(product);
    else if (product.rows <= Narrow::kRows) launch_stream<Narrow>(product);
    else launch_stream<Wide>(product);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
