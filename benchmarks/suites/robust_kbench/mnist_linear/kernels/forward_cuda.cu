// A linear layer: y = x W^T + b.
//
// Bound by its launch for small shapes, by reading W once for few rows; for 64 rows of 4096 x 4096 the float32 units
// (67 TFLOPS) would need twice as long as the memory, so large products run on the tensor cores.
// dots:     few products. A warp sums a tile of 4 outputs and up to 4 rows along k, straight from global memory into
//           registers, then adds up its lanes with one shuffle per value; several warps may share a tile's k.
// tiles:    64 x 64 results per block from shared memory, filled four steps ahead by asynchronous copies. The blocks
//           of a cluster share the k of one tile and add up their parts through distributed shared memory, each a
//           share of the rows: one launch, no scratch, the same order of additions every time.
// shallow:  few terms. 64 rows x 32 outputs per block, all of whose terms are asked for at once, 48 KB; the first
//           half is multiplied while the second arrives, and the results go straight to y.
// halves:   many terms. y^T = W x^T on wgmma, two float16 for each float32. A block has 64 rows, 128 outputs and a
//           quarter of the terms, one block per multiprocessor. x is cut once per block, into shared memory, 256
//           terms at a time with the next ones in registers meanwhile. A warpgroup has 64 outputs and waits for
//           nobody: each thread copies what it will need of W itself, asynchronously and 12 steps of 16 terms ahead
//           (96 KB in flight per multiprocessor), takes 64 terms, cuts them in registers and multiplies them as the
//           operand A. The four neighbouring terms of a 16-byte load serve as the terms 2q, 2q + 1, 2q + 8, 2q + 9 of
//           an instruction: the order of the terms is free if x has the same. Blocks leave their sums in scratch (4
//           MB, which stay in L2), and a second kernel, started early, adds them up in a fixed order.
// Numerics: tiles and shallow split every float into two TF32 numbers, x = big + small, and big*big + big*small +
//           small*big are summed in float32, which leaves out 2^-22 of a product. The tensor cores round their sums
//           towards zero, so they start at zero again every 32 steps and an ordinary addition collects them. halves
//           does so every 64 terms; a row of W is scaled by a power of two to below 2^15 for each chunk of terms, a
//           row of x for each panel, and cut into two float16, head and rest, with the same three products.
// Dispatch: for more than 8 rows and 2^25 products or more: shallow for at most 128 terms; halves for 1024 or more, a
//           multiple of 256, outputs that are a multiple of 128, tiles for three quarters of the multiprocessors and
//           compute capability 9.0; tiles otherwise. All else takes dots. Vectors of four floats where the depth is a
//           multiple of 4, single floats elsewhere. Parts of a tile: two blocks per multiprocessor where k is short,
//           one where it is long.
// Measured: scripts/kernel_lab.py, H200: 64 rows of 128 to 4096 7.6 us (tiles 11.4, cuBLAS 10.1; two float16 on wgmma
//           8.4, 16 outputs per block 8.2); 4096 to 4096 38.2 us (tiles 60.7, cuBLAS 90.3; shares of an eighth 39.3,
//           chunks of 32 terms 40, sums over clusters instead of scratch 50 to 59: clusters of four and eight leave
//           multiprocessors without work).
// Limits:   float32, contiguous. In halves an infinite input makes its row NaN.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cooperative_groups.h>
#include <cuda_fp16.h>
#include <cuda_pipeline.h>
#include <torch/extension.h>

namespace {

constexpr int kProcessors = 132;  // of an H200; only a guide for sizing grids

struct Layer {
    const float *x, *weights, *biases;
    float* y;
    int rows, outputs, depth;
};

bool is_aligned(const float* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }
bool all_aligned(const Layer& layer) {
    return is_aligned(layer.x) && is_aligned(layer.weights) && is_aligned(layer.biases);
}

// Sets y[row][output] from its dot product, if there is such a place.
__device__ void finish(const Layer& layer, int row, int output, float dot) {
    if (row < layer.rows && output < layer.outputs)
        layer.y[int64_t(row) * layer.outputs + output] = dot + layer.biases[output];
}

template <int Count>
struct alignas(4 * Count) Floats {
    float at[Count];
};

// ---- dots: few products -------------------------------------------------------------------------------------------

constexpr int kTileOutputs = 4, kMaxWarps = 16;

// The sum over the warp of each of Count values; lane l gets the sum of value l / (32 / Count). At every step lanes
// that differ in one bit share the values out between them, while there are several.
template <int Step = 16, int Count>
__device__ float warp_sums(const float (&values)[Count]) {
    const bool upper = threadIdx.x & Step;
    if constexpr (Step == 0) return values[0];
    else if constexpr (Count == 1) {
        const float sum[1] = {values[0] + __shfl_xor_sync(0xffffffff, values[0], Step)};
        return warp_sums<Step / 2>(sum);
    } else {
        float sums[Count / 2];
#pragma unroll
        for (int i = 0; i < Count / 2; ++i) {
            const float low = values[i], high = values[i + Count / 2];
            sums[i] = (upper ? high : low) + __shfl_xor_sync(0xffffffff, upper ? low : high, Step);
        }
        return warp_sums<Step / 2>(sums);
    }
}

// A warp's part of one tile. Rows and outputs behind the end are read as the last one and not used.
template <int Rows, int Width>
__device__ void add_products(const Layer& layer, int row, int output, int part, int parts,
                             float (&sums)[Rows * kTileOutputs]) {
    using Vector = Floats<Width>;
    const float *x[Rows], *w[kTileOutputs];
    for (int r = 0; r < Rows; ++r) x[r] = layer.x + int64_t(min(row + r, layer.rows - 1)) * layer.depth;
    for (int o = 0; o < kTileOutputs; ++o)
        w[o] = layer.weights + int64_t(min(output + o, layer.outputs - 1)) * layer.depth;
#pragma unroll(Width == 4 ? 2 : 4)
    for (int k = (part * 32 + threadIdx.x % 32) * Width; k < layer.depth; k += parts * 32 * Width) {
        Vector left[Rows], right[kTileOutputs];
        for (int o = 0; o < kTileOutputs; ++o) right[o] = *reinterpret_cast<const Vector*>(w[o] + k);
        for (int r = 0; r < Rows; ++r) left[r] = *reinterpret_cast<const Vector*>(x[r] + k);
        for (int i = 0; i < Rows * kTileOutputs; ++i)
            for (int e = 0; e < Width; ++e)
                sums[i] = fmaf(left[i / kTileOutputs].at[e], right[i % kTileOutputs].at[e], sums[i]);
    }
}

// A block has `blockDim.x / 32 / parts` tiles, neighbours in the outputs, so that they meet the same rows of x.
template <int Rows, int Width>
__global__ void __launch_bounds__(kMaxWarps * 32) dots(Layer layer, int parts) {
    constexpr int Count = Rows * kTileOutputs;
    __shared__ float shares[kMaxWarps][Count];
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = warp % parts;
    const int tile = blockIdx.x * (blockDim.x / 32 / parts) + warp / parts;
    const int output_tiles = (layer.outputs + kTileOutputs - 1) / kTileOutputs;
    const int row = tile / output_tiles * Rows, output = tile % output_tiles * kTileOutputs;
    float sums[Count] = {};
    add_products<Rows, Width>(layer, row, output, part, parts, sums);
    float sum = warp_sums(sums);
    const int place = lane / (32 / Count);
    if (parts > 1) {
        shares[warp][place] = sum;
        __syncthreads();
        sum = 0;
        for (int p = 0; p < parts; ++p) sum += shares[warp - part + p][place];
    }
    if (part == 0 && lane % (32 / Count) == 0)
        finish(layer, row + place / kTileOutputs, output + place % kTileOutputs, sum);
}

template <int Rows, int Width>
void launch_dots(const Layer& layer, cudaStream_t stream) {
    const int row_tiles = (layer.rows + Rows - 1) / Rows;
    const int tiles = row_tiles * ((layer.outputs + kTileOutputs - 1) / kTileOutputs);
    int parts = 1;
    while (parts < kMaxWarps && tiles * parts < 12 * kProcessors && layer.depth > parts * 32 * Width) parts *= 2;
    const int together = tiles * parts <= 4 * kProcessors ? 1 : kMaxWarps / parts;
    dots<Rows, Width><<<(tiles + together - 1) / together, 32 * parts * together, 0, stream>>>(layer, parts);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// ---- tiles: many products -----------------------------------------------------------------------------------------

constexpr int kTile = 64, kStep = 32, kStride = kStep + 4, kStages = 4, kThreads = 128;  // 4 more: no bank conflicts
constexpr int kOperand = kTile * kStride, kSharedBytes = kStages * 2 * kOperand * sizeof(float);
constexpr int kSumStride = kTile + 4, kLong = 32;  // steps from which on a tile's parts are worth a processor each

using Sums = float[2][4][4];  // of a warp's 32 x 32 results: 2 x 4 tiles of 16 x 8

// Starts to copy Width floats into shared memory, or zeros if they lie outside.
template <int Width>
__device__ void copy_async(float* to, const float* from, bool inside) {
    const unsigned shared = __cvta_generic_to_shared(to);
    const int bytes = inside ? 4 * Width : 0;
    if constexpr (Width == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(bytes) : "memory");
    else asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(from), "r"(bytes) : "memory");
}

// Starts to copy 64 rows x 32 columns, from (row, k) of a table on. A thread stays in its column.
template <int Width>
__device__ void copy_tile(float* to, const float* from, int row, int rows, int k, int depth) {
    constexpr int PerRow = kStep / Width, Together = kThreads / PerRow;
    const int r = threadIdx.x / PerRow, c = threadIdx.x % PerRow * Width;
    const float* source = from + int64_t(row + r) * depth + k + c;
    const int left = k + c < depth ? rows - row - r : 0;  // rows that are not behind the end
#pragma unroll
    for (int i = 0; i < kTile; i += Together)
        copy_async<Width>(to + (r + i) * kStride + c, source + int64_t(i) * depth, i < left);
}

// x rounded to TF32 (whose lower 13 bits the tensor cores do not read), and what that left over.
__device__ void split(float x, unsigned& big, unsigned& small) {
    big = (__float_as_uint(x) + 0x1000) & 0xffffe000;
    small = __float_as_uint(x - __uint_as_float(big));
}

__device__ void mma(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Adds the products of one step, from two operands in shared memory whose rows are this warp's 32. Products that meet
// in a sum are kept apart, as each waits for the one before.
__device__ void multiply(const float* a, const float* b, Sums& totals) {
    const int lane = threadIdx.x % 32, group = lane / 4, member = lane % 4;
    Sums sums = {};
#pragma unroll
    for (int k = member; k < member + kStep; k += 8) {
        unsigned big_a[2][4], small_a[2][4], big_b[4][2], small_b[4][2];
        for (int i = 0; i < 8; ++i)
            split(a[(i / 4 * 16 + i % 2 * 8 + group) * kStride + k + i / 2 % 2 * 4], big_a[i / 4][i % 4],
                  small_a[i / 4][i % 4]);
        for (int i = 0; i < 8; ++i)
            split(b[(i / 2 * 8 + group) * kStride + k + i % 2 * 4], big_b[i / 2][i % 2], small_b[i / 2][i % 2]);
        for (int i = 0; i < 8; ++i) mma(sums[i / 4][i % 4], small_a[i / 4], big_b[i % 4]);
        for (int i = 0; i < 8; ++i) mma(sums[i / 4][i % 4], big_a[i / 4], small_b[i % 4]);
        for (int i = 0; i < 8; ++i) mma(sums[i / 4][i % 4], big_a[i / 4], big_b[i % 4]);
    }
    for (int i = 0; i < 32; ++i) totals[i / 16][i / 4 % 4][i % 4] += sums[i / 16][i / 4 % 4][i % 4];
}

// Sums the steps from `first` to `last` of one tile.
template <int Width>
__device__ void sum_steps(const Layer& layer, int row, int output, int first, int last, float* shared, Sums& totals) {
    const int warp = threadIdx.x / 32;
    const auto fetch = [&](int step) {
        float* stage = shared + step % kStages * 2 * kOperand;
        if (step < last) {
            copy_tile<Width>(stage, layer.x, row, layer.rows, step * kStep, layer.depth);
            copy_tile<Width>(stage + kOperand, layer.weights, output, layer.outputs, step * kStep, layer.depth);
        }
        __pipeline_commit();
    };
    for (int step = first; step < first + kStages - 1; ++step) fetch(step);
    for (int step = first; step < last; ++step) {
        __pipeline_wait_prior(kStages - 2);
        __syncthreads();  // this step has arrived for all, and all are done with the one that fetch now overwrites
        fetch(step + kStages - 1);
        const float* stage = shared + step % kStages * 2 * kOperand;
        multiply(stage + warp / 2 * 32 * kStride, stage + kOperand + warp % 2 * 32 * kStride, totals);
    }
    __syncthreads();
}

// Puts a block's 64 x 64 sums where the whole cluster can read them.
__device__ void publish(const Sums& totals, float* shared) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = warp / 2 * 32 + lane / 4, column = warp % 2 * 32 + lane % 4 * 2;
    for (int i = 0; i < 32; ++i)
        shared[(row + i / 16 * 16 + i / 2 % 2 * 8) * kSumStride + column + i / 4 % 4 * 8 + i % 2] =
            totals[i / 16][i / 4 % 4][i % 4];
}

template <int Width>
__global__ void __launch_bounds__(kThreads) tiles(Layer layer, int parts) {
    extern __shared__ float shared[];
    const auto cluster = cooperative_groups::this_cluster();
    const int part = blockIdx.x % parts, tile = blockIdx.x / parts;
    const int output_tiles = (layer.outputs + kTile - 1) / kTile, steps = (layer.depth + kStep - 1) / kStep;
    const int row = tile / output_tiles * kTile, output = tile % output_tiles * kTile;
    Sums totals = {};
    sum_steps<Width>(layer, row, output, steps * part / parts, steps * (part + 1) / parts, shared, totals);
    publish(totals, shared);
    cluster.sync();
    const int share = kTile / parts;
    for (int i = threadIdx.x; i < share * kTile; i += kThreads) {
        const int r = part * share + i / kTile, c = i % kTile;
        float sum = 0;
        for (int p = 0; p < parts; ++p) sum += cluster.map_shared_rank(shared, p)[r * kSumStride + c];
        finish(layer, row + r, output + c, sum);
    }
    cluster.sync();  // nobody leaves while others read from here
}

template <int Width>
void launch_tiles(const Layer& layer, cudaStream_t stream) {
    const int count = ((layer.rows + kTile - 1) / kTile) * ((layer.outputs + kTile - 1) / kTile);
    const int steps = (layer.depth + kStep - 1) / kStep;
    const int blocks = steps < kLong ? 2 * kProcessors : kProcessors;
    int parts = 1;
    while (parts < 8 && count * parts * 2 <= blocks && steps >= 2 * parts) parts *= 2;
    C10_CUDA_CHECK(cudaFuncSetAttribute(tiles<Width>, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {unsigned(parts), 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = count * parts;
    config.blockDim = kThreads;
    config.dynamicSmemBytes = kSharedBytes;
    config.stream = stream;
    config.attrs = &cluster;
    config.numAttrs = 1;
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, tiles<Width>, layer, parts));
}

// ---- shallow: many products of few terms --------------------------------------------------------------------------

namespace shallow {

constexpr int kMost = 128, kWide = 32, kGroups = 2;  // terms (what is missing is zero), outputs, groups of copies

bool suits(const Layer& layer) {
    return layer.depth <= kMost && layer.depth % 4 == 0 && layer.outputs % 4 == 0 && all_aligned(layer);
}

constexpr int kBlockThreads = 256, kPitch = kMost + 16;  // 16 more: eight lanes read 16 bytes each, no bank conflicts
constexpr int kBytes = (kTile + kWide) * kPitch * int(sizeof(float)), kAcross = kWide / 16;  // tiles of a warp

// Starts to copy one of kGroups shares of the terms, of all rows and then all outputs.
__device__ void fetch(const Layer& layer, float* shared, int group) {
    constexpr int kChunks = kMost / 4 / kGroups;
    const int row = blockIdx.y * kTile, output = blockIdx.x * kWide;
    const int k = (group * kChunks + threadIdx.x % kChunks) * 4;
#pragma unroll
    for (int r = threadIdx.x / kChunks; r < kTile + kWide; r += kBlockThreads / kChunks) {
        const bool of_x = r < kTile;
        const int at = of_x ? row + r : output + r - kTile;
        const bool inside = at < (of_x ? layer.rows : layer.outputs) && k < layer.depth;
        const float* from = (of_x ? layer.x : layer.weights) + (inside ? int64_t(at) * layer.depth + k : 0);
        copy_async<4>(shared + r * kPitch + k, from, inside);
    }
    __pipeline_commit();
}

// Adds 32 terms. Those of a 16-byte read are k, k + 4 of one instruction and of the next: any order of terms will do.
__device__ void add_terms(const float* a, const float* b, float (&totals)[kAcross][4]) {
    float sums[2][kAcross][4] = {};
#pragma unroll
    for (int k = 0; k < 32; k += 16) {
        const float4 high = *reinterpret_cast<const float4*>(a + k);
        const float4 low = *reinterpret_cast<const float4*>(a + 8 * kPitch + k);
        const float left[2][4] = {{high.x, low.x, high.y, low.y}, {high.z, low.z, high.w, low.w}};
        unsigned big_a[2][4], small_a[2][4], big_b[2][2], small_b[2][2];
        for (int i = 0; i < 8; ++i) split(left[i / 4][i % 4], big_a[i / 4][i % 4], small_a[i / 4][i % 4]);
        for (int n = 0; n < kAcross; ++n) {
            const float4 right = *reinterpret_cast<const float4*>(b + n * 8 * kPitch + k);
            split(right.x, big_b[0][0], small_b[0][0]);
            split(right.y, big_b[0][1], small_b[0][1]);
            split(right.z, big_b[1][0], small_b[1][0]);
            split(right.w, big_b[1][1], small_b[1][1]);
            for (int t = 0; t < 2; ++t) mma(sums[t][n], small_a[t], big_b[t]);
            for (int t = 0; t < 2; ++t) mma(sums[t][n], big_a[t], small_b[t]);
            for (int t = 0; t < 2; ++t) mma(sums[t][n], big_a[t], big_b[t]);
        }
    }
    for (int i = 0; i < kAcross * 4; ++i) totals[i / 4][i % 4] += sums[0][i / 4][i % 4] + sums[1][i / 4][i % 4];
}

// 64 rows x kWide outputs; a warp has 16 of the rows and half of the outputs.
__global__ void __launch_bounds__(kBlockThreads) multiply(Layer layer) {
    extern __shared__ float shared[];
    const int warp = threadIdx.x / 32, group = threadIdx.x % 32 / 4, member = threadIdx.x % 4;
    for (int g = 0; g < kGroups; ++g) fetch(layer, shared, g);
    const int row = blockIdx.y * kTile + warp / 2 * 16 + group;
    const int output = blockIdx.x * kWide + warp % 2 * kAcross * 8 + member * 2;
    float2 biases[kAcross];
    for (int n = 0; n < kAcross; ++n)
        if (output + n * 8 < layer.outputs) biases[n] = *reinterpret_cast<const float2*>(layer.biases + output + n * 8);
    const float* a = shared + (warp / 2 * 16 + group) * kPitch + member * 4;
    const float* b = shared + (kTile + warp % 2 * kAcross * 8 + group) * kPitch + member * 4;
    float totals[kAcross][4] = {};
#pragma unroll
    for (int g = 0; g < kGroups; ++g) {
        __pipeline_wait_prior(kGroups - 1 - g);
        __syncthreads();
#pragma unroll
        for (int k = 0; k < kMost / kGroups; k += 32)
            add_terms(a + g * kMost / kGroups + k, b + g * kMost / kGroups + k, totals);
    }
    for (int i = 0; i < kAcross * 2; ++i) {
        const int r = row + i % 2 * 8, o = output + i / 2 * 8;
        if (r >= layer.rows || o >= layer.outputs) continue;
        const float* sum = totals[i / 2] + i % 2 * 2;
        *reinterpret_cast<float2*>(layer.y + int64_t(r) * layer.outputs + o) = {sum[0] + biases[i / 2].x,
                                                                                sum[1] + biases[i / 2].y};
    }
}

void launch(const Layer& layer, cudaStream_t stream) {
    C10_CUDA_CHECK(cudaFuncSetAttribute(multiply, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    const dim3 grid((layer.outputs + kWide - 1) / kWide, (layer.rows + kTile - 1) / kTile);
    multiply<<<grid, kBlockThreads, kBytes, stream>>>(layer);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace shallow

// ---- halves: many products of many terms --------------------------------------------------------------------------

namespace halves {

constexpr int kSplit = 4, kChunk = 64, kRing = 12;  // blocks to a tile; terms of a sum; steps of W under way
constexpr int kGroups = 2, kOutputs = kGroups * 64, kBlockThreads = kGroups * 128;
constexpr int kImages = 2, kPanel = 512 / kImages;  // terms of x in halves at a time
constexpr int kHalfBytes = kPanel * kTile * 2, kImageBytes = 2 * kHalfBytes;
constexpr int kSteps = kChunk / 16, kStepBytes = kBlockThreads * 32;  // of W, 16 terms
constexpr int kBytes = 1024 + kImages * kImageBytes + kRing * kStepBytes;
constexpr int kPitch = kOutputs + 4;  // of the sums of a row: no bank conflicts

// ---- instructions

__device__ unsigned shared_address(const void* p) { return unsigned(__cvta_generic_to_shared(p)); }
// Where it stands: of plain loads the compiler leaves some for later, and their latency adds up.
__device__ float4 load_now(const float* p, bool inside) {
    float4 v;
    asm volatile(
        "{\n.reg .pred p;\nsetp.ne.b32 p, %5, 0;\nmov.f32 %0, 0f00000000;\nmov.f32 %1, %0;\nmov.f32 %2, %0;\n"
        "mov.f32 %3, %0;\n@p ld.global.nc.v4.f32 {%0, %1, %2, %3}, [%4];\n}"
        : "=&f"(v.x), "=&f"(v.y), "=&f"(v.z), "=&f"(v.w)
        : "l"(p), "r"(int(inside)));
    return v;
}
__device__ void copy_once(void* to, const float* from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address(to)), "l"(from) : "memory");
}
template <int Pending>  // __pipeline_wait_prior counts to 8 only
__device__ void wait_for_copies() {
    asm volatile("cp.async.wait_group %0;" ::"n"(Pending) : "memory");
}
__device__ void prefetch(const float* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }
// What this thread wrote to shared memory may be read by wgmma after the next barrier.
__device__ void show_writes() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

#define OF_4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define OF_16(d, i) OF_4(d, i), OF_4(d, i + 4), OF_4(d, i + 8), OF_4(d, i + 12)

// d = a b, or d += a b, for 64 outputs, 16 terms and 64 rows; a thread's share of the results is d.
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
template <int Count>
__device__ void end_products(float (&d)[Count]) {
    asm volatile("wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;" ::: "memory");
#pragma unroll
    for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(d[i])::"memory");  // not to be read before
}

// ---- numbers

__device__ uint64_t descriptor(unsigned address) {
    return uint64_t((address & 0x3ffff) >> 4) | uint64_t(1) << 16 | uint64_t(1024 >> 4) << 32 | uint64_t(1) << 62;
}

struct Scale {
    float factor, inverse;  // powers of two
};

__device__ float largest(float top, float4 v) {
    return fmaxf(fmaxf(fmaxf(top, fabsf(v.x)), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
}

// What brings a row that `Lanes` lanes met the largest of to below 2^15.
template <int Lanes>
__device__ Scale scale_of(float top) {
#pragma unroll
    for (int step = 1; step < Lanes; step *= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, step));
    const unsigned exponent = min(268 - (__float_as_uint(top) >> 23), 253u);
    return {__uint_as_float(exponent << 23), __uint_as_float((254 - exponent) << 23)};
}

__device__ void cut(float x, float y, unsigned& head, unsigned& rest) {
    const __half2 h = __floats2half2_rn(x, y);
    const float2 f = __half22float2(h);
    const __half2 r = __floats2half2_rn(x - f.x, y - f.y);
    head = reinterpret_cast<const unsigned&>(h);
    rest = reinterpret_cast<const unsigned&>(r);
}

// ---- x

// A thread's share of 64 rows of a panel. Half a warp has a row, so that neighbouring rows are written at once, which
// the swizzle keeps in different banks; of each 64 terms a lane has four.
constexpr int kPairs = 32 / (kBlockThreads / 32), kBlocks = kPanel / 64;
using Panel = float4[kPairs][kBlocks];

__device__ int panel_row(int pair) { return pair * (kBlockThreads / 16) + threadIdx.x / 16; }

// `terms` are left from (row, k) on; what is missing is zero.
__device__ void load_panel(Panel& v, const Layer& layer, int row, int k, int terms) {
    const int first = threadIdx.x % 16 * 4;
#pragma unroll
    for (int i = 0; i < kPairs * kBlocks; ++i) {
        const int r = row + panel_row(i / kBlocks), c = first + i % kBlocks * 64;
        v[i / kBlocks][i % kBlocks] = load_now(layer.x + int64_t(r) * layer.depth + k + c, r < layer.rows && c < terms);
    }
}

// x in halves: [head, rest][block of 64 terms][row][term], rows of 128 bytes in the swizzle of 128 bytes. Of 16 terms,
// 4q + 2h + e lies in place 8h + 2q + e.
__device__ void cut_panel(const Panel& v, char* image, float* inverses) {
    const int step = threadIdx.x / 4 % 4, quarter = threadIdx.x % 4;
#pragma unroll
    for (int pair = 0; pair < kPairs; ++pair) {
        const int row = panel_row(pair);
        float top = 0;
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) top = largest(top, v[pair][block]);
        const Scale scale = scale_of<16>(top);
        if (threadIdx.x % 16 == 0) inverses[row] = scale.inverse;
#pragma unroll
        for (int block = 0; block < kBlocks; ++block) {
            const float4 f = v[pair][block];
            unsigned head[2], rest[2];
            cut(f.x * scale.factor, f.y * scale.factor, head[0], rest[0]);
            cut(f.z * scale.factor, f.w * scale.factor, head[1], rest[1]);
#pragma unroll
            for (int h = 0; h < 2; ++h) {
                char* to = image + block * kTile * 128 + row * 128 + (((step * 2 + h) ^ (row & 7)) << 4) + quarter * 4;
                *reinterpret_cast<unsigned*>(to) = head[h];
                *reinterpret_cast<unsigned*>(to + kHalfBytes) = rest[h];
            }
        }
    }
}

// ---- W

// A thread's share of its warpgroup's 64 rows of W: of two, eight apart, every fourth group of four terms. It passes
// through shared memory that no other thread touches, kRing steps ahead.
struct Stream {
    const float* from;
    char* ring;
    int64_t below;  // floats to the second row
    int steps;

    __device__ char* slot(int step) const { return ring + step % kRing * kStepBytes; }
    __device__ void fetch(int step) const {
        if (step < steps) {
            copy_once(slot(step), from + step * 16);
            copy_once(slot(step) + kBlockThreads * 16, from + below + step * 16);
        }
        __pipeline_commit();
    }
};

// Adds the products of kChunk terms from `step` on, with x where it lies in halves; a chunk's sums start at zero.
__device__ void add_chunk(const Stream& w, int step, unsigned x, const float* inverses, float (&totals)[32]) {
    float4 v[2][kSteps];
    float top[2] = {}, sums[32];
    wait_for_copies<kRing - kSteps>();
#pragma unroll
    for (int i = 0; i < 2 * kSteps; ++i) {
        v[i % 2][i / 2] = *reinterpret_cast<const float4*>(w.slot(step + i / 2) + i % 2 * kBlockThreads * 16);
        top[i % 2] = largest(top[i % 2], v[i % 2][i / 2]);
    }
    const Scale scales[2] = {scale_of<4>(top[0]), scale_of<4>(top[1])};
    for (int i = 0; i < kSteps; ++i) w.fetch(step + i + kRing);
    unsigned head[kSteps][4], rest[kSteps][4];
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const float factor = scales[r].factor;
            cut(v[r][s].x * factor, v[r][s].y * factor, head[s][r], rest[s][r]);
            cut(v[r][s].z * factor, v[r][s].w * factor, head[s][r + 2], rest[s][r + 2]);
        }
        const int at = (step + s) % (kPanel / 16);
        const uint64_t b = descriptor(x + at / 4 * kTile * 128 + at % 4 * 32);
        begin_products();
        multiply_async(sums, rest[s], b, s > 0);
        multiply_async(sums, head[s], b + (kHalfBytes >> 4), true);
        multiply_async(sums, head[s], b, true);
    }
    end_products(sums);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
        const float2 f = *reinterpret_cast<const float2*>(inverses + i * 8 + threadIdx.x % 4 * 2);
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            totals[i * 4 + r * 2] += sums[i * 4 + r * 2] * (f.x * scales[r].inverse);
            totals[i * 4 + r * 2 + 1] += sums[i * 4 + r * 2 + 1] * (f.y * scales[r].inverse);
        }
    }
}

// ---- work

__device__ int own_output() { return threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4; }

// Sums the terms of this block, panel by panel.
__device__ void sum_terms(const Layer& layer, const Stream& w, int row, int first, char* images, float (&totals)[32]) {
    __shared__ __align__(16) float inverses[kImages][kTile];
    constexpr int kPanelSteps = kPanel / 16;
    Panel x;
    const auto load = [&](int step) { load_panel(x, layer, row, first + step * 16, (w.steps - step) * 16); };
    const auto put = [&](int step) {
        const int image = step / kPanelSteps % kImages;
        cut_panel(x, images + image * kImageBytes, inverses[image]);
        show_writes();
        __syncthreads();  // all of the panel is there
    };
    load(0);  // first, as the first product needs all of it
    for (int step = 0; step < kRing; ++step) w.fetch(step);
    put(0);
    for (int panel = 0; panel < w.steps; panel += kPanelSteps) {
        const int image = panel / kPanelSteps % kImages, next = panel + kPanelSteps;
        if (next < w.steps) load(next);
        for (int step = panel; step < min(next, w.steps); step += kSteps)
            add_chunk(w, step, shared_address(images + image * kImageBytes), inverses[image], totals);
        if (next < w.steps) put(next);
    }
    __syncthreads();
}

// Puts a block's 64 x kOutputs sums in order.
__device__ void publish(const float (&totals)[32], float* shared) {
#pragma unroll
    for (int i = 0; i < 32; ++i) {
        const int row = i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2;
        shared[row * kPitch + own_output() + i / 2 % 2 * 8] = totals[i];
    }
}

// A tile is 64 rows x kOutputs outputs, and each of its kSplit blocks has a share of the terms.
__global__ void __launch_bounds__(kBlockThreads, 1) multiply(Layer layer, float* parts) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
    extern __shared__ char raw[];
    cudaTriggerProgrammaticLaunchCompletion();
    char* const images = raw + (1024 - shared_address(raw) % 1024) % 1024;
    const int part = blockIdx.x % kSplit, tile = blockIdx.x / kSplit, output_tiles = layer.outputs / kOutputs;
    const int row = tile / output_tiles * kTile, output = tile % output_tiles * kOutputs, terms = layer.depth / kSplit;
    const float* own = layer.weights + int64_t(output + own_output()) * layer.depth + part * terms;
    char* const ring = images + kImages * kImageBytes + threadIdx.x * 16;
    const Stream w = {own + threadIdx.x % 4 * 4, ring, int64_t(layer.depth) * 8, terms / 16};
    if (threadIdx.x < kOutputs / 8) prefetch(layer.biases + output + threadIdx.x * 8);
    float totals[32] = {};
    sum_terms(layer, w, row, part * terms, images, totals);
    float* const sums = reinterpret_cast<float*>(images);
    publish(totals, sums);
    __syncthreads();
    const int padded = (layer.rows + kTile - 1) / kTile * kTile;
    float* to = parts + (int64_t(part) * padded + row) * layer.outputs + output;
    for (int i = threadIdx.x; i < kTile * kOutputs / 4; i += kBlockThreads) {
        const int r = i / (kOutputs / 4), c = i % (kOutputs / 4) * 4;
        const float4 sum = *reinterpret_cast<const float4*>(sums + r * kPitch + c);
        *reinterpret_cast<float4*>(to + int64_t(r) * layer.outputs + c) = sum;
    }
#endif
}

// y = the sum of the parts and the bias, four results per thread.
__global__ void __launch_bounds__(256) add_parts(Layer layer, const float* parts) {
    const int i = blockIdx.x * 256 + threadIdx.x, vectors = layer.outputs / 4;
    const int padded = (layer.rows + kTile - 1) / kTile * kTile;
    const int64_t at = int64_t(i) * 4, stride = int64_t(padded) * layer.outputs;
    const bool inside = i < layer.rows * vectors;
    float4 sum = inside ? *reinterpret_cast<const float4*>(layer.biases + i % vectors * 4) : float4{}, added[kSplit];
    cudaGridDependencySynchronize();
    if (!inside) return;
#pragma unroll
    for (int p = 0; p < kSplit; ++p) added[p] = *reinterpret_cast<const float4*>(parts + p * stride + at);
#pragma unroll
    for (int p = 0; p < kSplit; ++p)
        sum = {sum.x + added[p].x, sum.y + added[p].y, sum.z + added[p].z, sum.w + added[p].w};
    *reinterpret_cast<float4*>(layer.y + at) = sum;
}

int blocks_for(const Layer& layer) { return (layer.rows + kTile - 1) / kTile * (layer.outputs / kOutputs) * kSplit; }

bool has_wgmma() {
    int device, major;
    C10_CUDA_CHECK(cudaGetDevice(&device));
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    return major == 9;
}

bool suits(const Layer& layer) {
    if (layer.depth < 1024 || layer.depth % (kSplit * kChunk) != 0 || layer.outputs % kOutputs != 0) return false;
    return has_wgmma() && all_aligned(layer) && blocks_for(layer) * 4 >= kProcessors * 3;
}

void launch(const Layer& layer, cudaStream_t stream) {
    C10_CUDA_CHECK(cudaFuncSetAttribute(multiply, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes));
    const int padded = (layer.rows + kTile - 1) / kTile * kTile;
    auto parts = torch::empty({int64_t(kSplit) * padded * layer.outputs},
                              torch::TensorOptions().dtype(torch::kFloat32).device(torch::kCUDA));
    multiply<<<blocks_for(layer), kBlockThreads, kBytes, stream>>>(layer, parts.mutable_data_ptr<float>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = (layer.rows * layer.outputs / 4 + 255) / 256;
    config.blockDim = 256;
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, add_parts, layer, parts.const_data_ptr<float>()));
}

}  // namespace halves

template <int Width>
void launch(const Layer& layer, cudaStream_t stream) {
    const bool many = int64_t(layer.rows) * layer.outputs * layer.depth >= 1 << 25;
    if (layer.rows > 8 && many && shallow::suits(layer)) shallow::launch(layer, stream);
    else if (layer.rows > 8 && many && halves::suits(layer)) halves::launch(layer, stream);
    else if (layer.rows > 8 && many) launch_tiles<Width>(layer, stream);
    else if (layer.rows > 1) launch_dots<4, Width>(layer, stream);
    else launch_dots<1, Width>(layer, stream);
}

}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    x = x.contiguous();
    weights = weights.contiguous();
    const int64_t depth = weights.size(1), outputs = weights.size(0), rows = x.numel() / depth;
    TORCH_CHECK(x.numel() > 0 && outputs > 0, "nothing to do");
    auto y = torch::empty({rows, outputs}, x.options());
    const Layer layer = {x.const_data_ptr<float>(), weights.const_data_ptr<float>(), biases.const_data_ptr<float>(),
                         y.mutable_data_ptr<float>(), int(rows), int(outputs), int(depth)};
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    if (depth % 4 == 0) launch<4>(layer, stream);
    else launch<1>(layer, stream);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
