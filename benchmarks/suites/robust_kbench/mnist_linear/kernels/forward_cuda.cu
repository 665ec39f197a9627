// A linear layer: y = x W^T + b.
//
// Bound by its launch for small shapes, by reading W once for few rows; for 64 rows of 4096 x 4096 the float32 units
// (67 TFLOPS) would need twice as long as the memory, so large products run on the tensor cores.
// Work:     `dots`: a warp sums a tile of 4 outputs and up to 4 rows along k, straight from global memory into
//           registers, then adds up its lanes with one shuffle per value; several warps may share a tile's k.
//           `tiles`: 64 x 64 results per block from shared memory, filled four steps ahead by asynchronous copies.
//           The blocks of a cluster share the k of one tile and add up their parts through distributed shared memory,
//           each a share of the rows: one launch, no scratch, the same order of additions every time.
//           `shallow`: 64 rows x 32 outputs per block, all of whose terms are asked for at once, 48 KB; the first half
//           is multiplied while the second arrives, and the results go straight to y.
// Accuracy: every float is split into two TF32 numbers, x = big + small, and big*big + big*small + small*big are
//           summed in float32, which leaves out 2^-22 of a product. The tensor cores round their sums towards zero, so
//           they start at zero again every 32 steps and an ordinary addition collects them.
// Dispatch: tiles for more than 8 rows and 2^25 products or more, shallow if they have at most 128 terms, else dots.
//           Vectors of four floats where the depth is a multiple of 4, single floats elsewhere.
//           Parts of a tile: two blocks per multiprocessor where k is short, one where it is long.
// Measured: scripts/kernel_lab.py, H200: 64 rows of 128 to 4096 7.6 us (tiles 11.4, cuBLAS 10.1; two float16 on wgmma
//           8.4, 16 outputs per block 8.2); 4096 to 4096 60.1 us (two blocks per multiprocessor 71.5, cuBLAS 89.7; two
//           float16, W from registers, sums over clusters: 57 to 59).
// Limits:   float32, contiguous.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cooperative_groups.h>
#include <cuda_pipeline.h>
#include <torch/extension.h>

namespace {

constexpr int kProcessors = 132;  // of an H200; only a guide for sizing grids

struct Layer {
    const float *x, *weights, *biases;
    float* y;
    int rows, outputs, depth;
};

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

constexpr int kTileOutputs = 4, kMaxWarps = 8;

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

bool is_aligned(const float* p) { return reinterpret_cast<uintptr_t>(p) % 16 == 0; }
bool suits(const Layer& layer) {
    if (layer.depth > kMost || layer.depth % 4 != 0 || layer.outputs % 4 != 0) return false;
    return is_aligned(layer.x) && is_aligned(layer.weights) && is_aligned(layer.biases);
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

template <int Width>
void launch(const Layer& layer, cudaStream_t stream) {
    const bool many = int64_t(layer.rows) * layer.outputs * layer.depth >= 1 << 25;
    if (layer.rows > 8 && many && shallow::suits(layer)) shallow::launch(layer, stream);
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
