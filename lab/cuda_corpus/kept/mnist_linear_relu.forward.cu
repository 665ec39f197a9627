// A linear layer and a relu: y = max(0, x W^T + b).
//
// Bound by its launch for small shapes, by reading W once for few rows; for 64 rows of 4096 x 4096 the float32 units
// (67 TFLOPS) would need twice as long as the memory, so large products run on the tensor cores.
// Work:     `dots`: a warp sums a tile of 4 outputs and up to 4 rows along k, straight from global memory into
//           registers, then adds up its lanes with one shuffle per value; several warps may share a tile's k.
//           `tiles`: 64 x 64 results per block from shared memory, filled four steps ahead by asynchronous copies.
//           The blocks of a cluster share the k of one tile and add up their parts through distributed shared memory,
//           each a share of the rows: one launch, no scratch, the same order of additions every time.
// Accuracy: every float is split into two TF32 numbers, x = big + small, and big*big + big*small + small*big are
//           summed in float32, which leaves out 2^-22 of a product. The tensor cores round their sums towards zero, so
//           they start at zero again every 32 steps and an ordinary addition collects them.
// Dispatch: tiles for more than 8 rows and 2^25 products or more, else dots. Vectors of four floats where the depth
//           is a multiple of 4, single floats elsewhere.
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

// Sets y[row][output] from its dot product, if there is such a place. A NaN stays one, as in PyTorch.
__device__ void finish(const Layer& layer, int row, int output, float dot) {
    if (row >= layer.rows || output >= layer.outputs) return;
    const float hidden = dot + layer.biases[output];
    layer.y[int64_t(row) * layer.outputs + output] = hidden <= 0 ? 0.0f : hidden;
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
constexpr int kSumStride = kTile + 4;

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
    int parts = 1;
    while (parts < 8 && count * parts * 2 <= 2 * kProcessors && steps >= 2 * parts) parts *= 2;
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

template <int Width>
void launch(const Layer& layer, cudaStream_t stream) {
    const bool many = int64_t(layer.rows) * layer.outputs * layer.depth >= 1 << 25;
    if (layer.rows > 8 && many) launch_tiles<Width>(layer, stream);
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
