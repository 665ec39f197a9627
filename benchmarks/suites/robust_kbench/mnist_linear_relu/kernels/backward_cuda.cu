// Backward of relu(x W^T + b): with gh = grad_output where x W^T + b > 0, else 0:
// grad_x = gh W, grad_weights = gh^T x, grad_biases = the sum of gh over rows.
//
// Bound by its launches for small shapes, by reading the weights twice and writing them once for few rows; for 64 rows
// of 4096 x 4096 the float32 units would need twice as long as the memory, so those products run on the tensor cores.
// Work:     the layer is computed again only to learn its signs; a first kernel turns each sum at once into an entry of
//           gh, the single scratch tensor, and a second one makes all three gradients. The second is launched while
//           the first one runs and waits on the device for its end, which hides most of its start.
//           `dots`: a warp sums 4 outputs and up to 4 rows along the inputs, straight from global memory.
//           `few_rows`: a thread keeps its columns of x in registers and walks down the weights: each is read once for
//           grad_x, and its gradient is written.
//           `tiles`: 64 x 64 results per block from shared memory, filled two steps ahead by asynchronous copies.
//           Long sums are shared by the blocks of a cluster, which add up through distributed shared memory. The
//           blocks of the first column of grad_weights also sum grad_biases, from the gh they hold. No atomics.
// Accuracy: every float is split into two TF32 numbers, x = big + small, and big*big + big*small + small*big are
//           summed in float32, which leaves out 2^-22 of a product. The tensor cores round their sums towards zero, so
//           they start at zero again every 32 steps and an ordinary addition collects them.
// Dispatch: gh by tiles for more than 8 rows and 2^25 products or more, else by dots; gradients by few_rows up to 4
//           rows, else by tiles. Four floats at a time where rows keep that alignment, else single ones. Up to 16
//           blocks share a sum: 64 rows of 4,096 outputs and 128 inputs take 30.7 us, with 8 of them 37.1 (measured with
//           scripts/kernel_lab.py on an H200).
// Limits:   float32, contiguous; clusters of 16, which compute capability 9.0 and 10.0 have.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cooperative_groups.h>
#include <cuda_pipeline.h>
#include <torch/extension.h>

#include <vector>

namespace {

constexpr int kProcessors = 132;  // of an H200; only a guide for sizing grids

struct Layer {
    const float *grad, *x, *weights, *biases;
    float *gated, *grad_x, *grad_weights, *grad_biases;
    int rows, outputs, inputs;
};

template <int Count>
struct alignas(4 * Count) Floats {
    float at[Count];
};

// Sets gated[row][output] once the dot product is known, if there is such a place.
__device__ void gate(const Layer& layer, int row, int output, float dot) {
    if (row >= layer.rows || output >= layer.outputs) return;
    const int64_t place = int64_t(row) * layer.outputs + output;
    layer.gated[place] = dot + layer.biases[output] <= 0 ? 0.0f : layer.grad[place];
}

// The stream's next kernel, in clusters of `parts` blocks. If `early`, it may start before the last one has ended, so it
// has to wait on the device for what it reads.
template <class... Expected, class... Given>
void launch_clusters(void (*kernel)(Expected...), bool early, int blocks, int threads, size_t shared_bytes, int parts,
                     Given... arguments) {
    cudaLaunchAttribute attributes[2] = {};
    attributes[0].id = cudaLaunchAttributeClusterDimension;
    attributes[0].val.clusterDim = {unsigned(parts), 1, 1};
    attributes[1].id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attributes[1].val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = c10::cuda::getCurrentCUDAStream();
    config.attrs = attributes;
    config.numAttrs = early ? 2 : 1;
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
}

// ---- dots: gh from few products ------------------------------------------------------------------------------------

constexpr int kTileOutputs = 2, kMaxWarps = 16;

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
    for (int r = 0; r < Rows; ++r) x[r] = layer.x + int64_t(min(row + r, layer.rows - 1)) * layer.inputs;
    for (int o = 0; o < kTileOutputs; ++o)
        w[o] = layer.weights + int64_t(min(output + o, layer.outputs - 1)) * layer.inputs;
#pragma unroll(Width == 4 ? 2 : 4)
    for (int k = (part * 32 + threadIdx.x % 32) * Width; k < layer.inputs; k += parts * 32 * Width) {
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
    cudaTriggerProgrammaticLaunchCompletion();
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
        gate(layer, row + place / kTileOutputs, output + place % kTileOutputs, sum);
}

template <int Rows, int Width>
void launch_dots(const Layer& layer) {
    const int row_tiles = (layer.rows + Rows - 1) / Rows;
    const int tiles = row_tiles * ((layer.outputs + kTileOutputs - 1) / kTileOutputs);
    int parts = 1;
    while (parts < kMaxWarps && tiles * parts < 12 * kProcessors && layer.inputs > parts * 32 * Width) parts *= 2;
    const int together = tiles * parts <= 4 * kProcessors ? 1 : kMaxWarps / parts;
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    dots<Rows, Width><<<(tiles + together - 1) / together, 32 * parts * together, 0, stream>>>(layer, parts);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

// ---- few_rows: gradients -------------------------------------------------------------------------------------------

constexpr int kBatch = 4;  // outputs whose weights are asked for at once

// Writes the gradients of the weights of outputs first, first + step, ... and adds their share of grad_x to the sums.
template <int Rows, int Width>
__device__ void walk_outputs(const Layer& layer, int column, int first, int last, int step, bool writes_biases,
                             Floats<Width> (&sums)[Rows]) {
    using Vector = Floats<Width>;
    Vector x[Rows] = {}, weights[kBatch];
    float g[kBatch][Rows];
    for (int r = 0; r < Rows; ++r)
        if (r < layer.rows) x[r] = *reinterpret_cast<const Vector*>(layer.x + int64_t(r) * layer.inputs + column);
    for (int start = first; start < last; start += kBatch * step) {
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {  // behind the end, the last output once more
            const int64_t output = min(start + b * step, last - 1);
            weights[b] = *reinterpret_cast<const Vector*>(layer.weights + output * layer.inputs + column);
            for (int r = 0; r < Rows; ++r) g[b][r] = r < layer.rows ? layer.gated[r * layer.outputs + output] : 0.0f;
        }
#pragma unroll
        for (int b = 0; b < kBatch; ++b) {
            const int64_t output = start + b * step;
            if (output >= last) return;
            Vector gradient = {};
            float bias = 0;
            for (int i = 0; i < Rows * Width; ++i) {
                const int r = i / Width, e = i % Width;
                sums[r].at[e] = fmaf(g[b][r], weights[b].at[e], sums[r].at[e]);
                gradient.at[e] = fmaf(g[b][r], x[r].at[e], gradient.at[e]);
                if (e == 0) bias += g[b][r];
            }
            *reinterpret_cast<Vector*>(layer.grad_weights + output * layer.inputs + column) = gradient;
            if (writes_biases) layer.grad_biases[output] = bias;
        }
    }
}

// A cluster has 32 x Width columns; its blocks and their warps share the outputs.
template <int Rows, int Width, int Warps>
__global__ void __launch_bounds__(32 * Warps) few_rows(Layer layer, int parts) {
    cudaGridDependencySynchronize();
    constexpr int Columns = 32 * Width, Count = Rows * Columns;
    __shared__ alignas(16) float shares[Warps][Count];
    __shared__ float totals[Count];
    const auto cluster = cooperative_groups::this_cluster();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, part = blockIdx.x % parts;
    const int start = blockIdx.x / parts * Columns, column = start + lane * Width;
    const int64_t outputs = layer.outputs;
    Floats<Width> sums[Rows] = {};
    if (column < layer.inputs)
        walk_outputs<Rows, Width>(layer, column, outputs * part / parts + warp, outputs * (part + 1) / parts, Warps,
                                  column == 0, sums);
    for (int r = 0; r < Rows; ++r)
        *reinterpret_cast<Floats<Width>*>(&shares[warp][r * Columns + lane * Width]) = sums[r];
    __syncthreads();
    for (int i = threadIdx.x; i < Count; i += 32 * Warps) {
        float total = 0;
        for (int w = 0; w < Warps; ++w) total += shares[w][i];
        totals[i] = total;
    }
    cluster.sync();
    for (int i = part * 32 * Warps + threadIdx.x; i < Count; i += parts * 32 * Warps) {
        float total = 0;
        for (int p = 0; p < parts; ++p) total += cluster.map_shared_rank(totals, p)[i];
        const int row = i / Columns, to = start + i % Columns;
        if (row < layer.rows && to < layer.inputs) layer.grad_x[int64_t(row) * layer.inputs + to] = total;
    }
    cluster.sync();  // nobody leaves while others read from here
}

template <int Rows, int Width, int Warps>
void launch_few_rows(const Layer& layer) {
    int parts = 1;
    while (parts < 8 && layer.outputs >= 2 * parts * Warps) parts *= 2;
    const int columns = (layer.inputs + 32 * Width - 1) / (32 * Width);
    launch_clusters(few_rows<Rows, Width, Warps>, true, columns * parts, 32 * Warps, 0, parts, layer, parts);
}

template <int Rows>
void launch_few_rows(const Layer& layer) {
    if (layer.inputs % 4 == 0 && layer.inputs >= 2048) launch_few_rows<Rows, 4, 8>(layer);
    else launch_few_rows<Rows, 1, 32>(layer);
}

// ---- tiles: many products -----------------------------------------------------------------------------------------

constexpr int kTile = 64, kStep = 32, kStages = 3, kThreads = 128;
constexpr int kAlongStride = kStep + 4, kAcrossStride = kTile + 8;  // no two lanes of a fragment meet in a bank
constexpr int kOperand = kTile * kAlongStride, kSharedBytes = kStages * 2 * kOperand * sizeof(float);
constexpr int kSumStride = kTile + 4;
static_assert(kOperand == kStep * kAcrossStride);

using Sums = float[2][4][4];  // of a warp's 32 x 32 results: 2 x 4 tiles of 16 x 8

// m x n sums over depth. An operand lies `along` if its neighbours in memory do so in the sum: a[row][k], b[column][k];
// else they do in the result: a[k][row], b[k][column].
template <bool A, bool B, int Width>
struct Product {
    static constexpr bool a_along = A, b_along = B;
    static constexpr int width = Width;  // floats that can be copied at once
    const float *a, *b;
    int m, n, depth;
};

// Starts to copy Width floats into shared memory, or zeros if they lie outside.
template <int Width>
__device__ void copy_async(float* to, const float* from, bool inside) {
    const unsigned shared = __cvta_generic_to_shared(to);
    const int bytes = inside ? 4 * Width : 0;
    if constexpr (Width == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(from), "r"(bytes) : "memory");
    else asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared), "l"(from), "r"(bytes) : "memory");
}

// Starts to copy Outer rows of Inner floats, from (row, column) of a table on. A thread stays in its column.
template <int Outer, int Inner, int Width>
__device__ void copy_tile(float* to, int stride, const float* from, int row, int rows, int column, int columns) {
    constexpr int PerRow = Inner / Width, Together = kThreads / PerRow;
    const int r = threadIdx.x / PerRow, c = threadIdx.x % PerRow * Width;
    const float* source = from + int64_t(row + r) * columns + column + c;
    const int left = column + c < columns ? rows - row - r : 0;  // rows that are not behind the end
#pragma unroll
    for (int i = 0; i < Outer; i += Together)
        copy_async<Width>(to + (r + i) * stride + c, source + int64_t(i) * columns, i < left);
}

// The 64 rows (of a) or columns (of b) from `first` on, and 32 places of the sum from k on.
template <bool Along, int Width>
__device__ void copy_operand(float* to, const float* from, int first, int count, int k, int depth) {
    if (Along) copy_tile<kTile, kStep, Width>(to, kAlongStride, from, first, count, k, depth);
    else copy_tile<kStep, kTile, Width>(to, kAcrossStride, from, k, depth, first, count);
}

template <bool Along>
__device__ float entry(const float* operand, int place, int k) {
    return operand[Along ? place * kAlongStride + k : k * kAcrossStride + place];
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

// Adds the products of one step. Products that meet in a sum are kept apart, as each waits for the one before.
template <bool AAlong, bool BAlong>
__device__ void multiply(const float* a, const float* b, Sums& totals) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, member = lane % 4;
    const int top = warp / 2 * 32 + group, left = warp % 2 * 32 + group;
    Sums sums = {};
#pragma unroll
    for (int k = member; k < member + kStep; k += 8) {
        unsigned big_a[2][4], small_a[2][4], big_b[4][2], small_b[4][2];
        for (int i = 0; i < 8; ++i)
            split(entry<AAlong>(a, top + i / 4 * 16 + i % 2 * 8, k + i / 2 % 2 * 4), big_a[i / 4][i % 4],
                  small_a[i / 4][i % 4]);
        for (int i = 0; i < 8; ++i)
            split(entry<BAlong>(b, left + i / 2 * 8, k + i % 2 * 4), big_b[i / 2][i % 2], small_b[i / 2][i % 2]);
        for (int i = 0; i < 8; ++i) mma(sums[i / 4][i % 4], small_a[i / 4], big_b[i % 4]);
        for (int i = 0; i < 8; ++i) mma(sums[i / 4][i % 4], big_a[i / 4], small_b[i % 4]);
        for (int i = 0; i < 8; ++i) mma(sums[i / 4][i % 4], big_a[i / 4], big_b[i % 4]);
    }
    for (int i = 0; i < 32; ++i) totals[i / 16][i / 4 % 4][i % 4] += sums[i / 16][i / 4 % 4][i % 4];
}

// Leaves one block's part of the tile at (row, column) in shared memory. Returns the sum of the a of result row
// threadIdx.x, for threads below 64 and where a does not lie along the sum.
template <class Product>
__device__ float sum_part(const Product& product, int row, int column, int part, int parts, float* shared) {
    const int steps = (product.depth + kStep - 1) / kStep, first = steps * part / parts;
    const int last = steps * (part + 1) / parts;
    const auto fetch = [&](int step) {
        float *a = shared + step % kStages * 2 * kOperand, *b = a + kOperand;
        if (step < last) {
            copy_operand<Product::a_along, Product::width>(a, product.a, row, product.m, step * kStep, product.depth);
            copy_operand<Product::b_along, Product::width>(b, product.b, column, product.n, step * kStep,
                                                           product.depth);
        }
        __pipeline_commit();
    };
    Sums totals = {};
    float row_sum = 0;
    for (int step = first; step < first + kStages - 1; ++step) fetch(step);
    for (int step = first; step < last; ++step) {
        __pipeline_wait_prior(kStages - 2);
        __syncthreads();  // this step has arrived for all, and all are done with the one that fetch now overwrites
        fetch(step + kStages - 1);
        const float* a = shared + step % kStages * 2 * kOperand;
        multiply<Product::a_along, Product::b_along>(a, a + kOperand, totals);
        if (!Product::a_along && column == 0 && threadIdx.x < kTile)
            for (int k = 0; k < kStep; ++k) row_sum += entry<false>(a, threadIdx.x, k);
    }
    __syncthreads();
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int r = warp / 2 * 32 + lane / 4, c = warp % 2 * 32 + lane % 4 * 2;
    for (int i = 0; i < 32; ++i)
        shared[(r + i / 16 * 16 + i / 2 % 2 * 8) * kSumStride + c + i / 4 % 4 * 8 + i % 2] =
            totals[i / 16][i / 4 % 4][i % 4];
    return row_sum;
}

// Makes tile number `tile`: calls use(row, column, sum) for its places, each block of the cluster for some of the rows.
template <class Product, class Use>
__device__ void make_tile(const Product& product, int tile, int part, int parts, float* shared, Use use) {
    const auto cluster = cooperative_groups::this_cluster();
    const int across = (product.n + kTile - 1) / kTile, row = tile / across * kTile, column = tile % across * kTile;
    sum_part(product, row, column, part, parts, shared);
    cluster.sync();
    const int share = kTile / parts;
    for (int i = threadIdx.x; i < share * kTile; i += kThreads) {
        const int r = part * share + i / kTile, c = i % kTile;
        float sum = 0;
        for (int p = 0; p < parts; ++p) sum += cluster.map_shared_rank(shared, p)[r * kSumStride + c];
        use(row + r, column + c, sum);
    }
    cluster.sync();  // nobody leaves while others read from here
}

template <int Width>
__global__ void __launch_bounds__(kThreads) gate_tiles(Layer layer, int parts) {
    extern __shared__ float shared[];
    cudaTriggerProgrammaticLaunchCompletion();
    const Product<true, true, Width> product = {layer.x, layer.weights, layer.rows, layer.outputs, layer.inputs};
    make_tile(product, blockIdx.x / parts, blockIdx.x % parts, parts, shared,
              [&](int row, int output, float dot) { gate(layer, row, output, dot); });
}

template <int Width>
__device__ void make_grad_x(const Layer& layer, int part, int parts, int tile, float* shared) {
    const Product<true, false, Width> product = {layer.gated, layer.weights, layer.rows, layer.inputs, layer.outputs};
    make_tile(product, tile, part, parts, shared, [&](int row, int column, float sum) {
        if (row < layer.rows && column < layer.inputs) layer.grad_x[int64_t(row) * layer.inputs + column] = sum;
    });
}

// Here the sums are short, so every block has a tile for itself.
template <int Width>
__device__ void make_grad_weights(const Layer& layer, int tile, float* shared) {
    const Product<false, false, Width> product = {layer.gated, layer.x, layer.outputs, layer.inputs, layer.rows};
    const int across = (layer.inputs + kTile - 1) / kTile, row = tile / across * kTile, column = tile % across * kTile;
    const int output = row + threadIdx.x;
    const float bias = sum_part(product, row, column, 0, 1, shared);
    if (column == 0 && threadIdx.x < kTile && output < layer.outputs) layer.grad_biases[output] = bias;
    __syncthreads();
    for (int i = threadIdx.x; i < kTile * kTile; i += kThreads) {
        const int r = i / kTile, c = i % kTile;
        if (row + r < layer.outputs && column + c < layer.inputs)
            layer.grad_weights[int64_t(row + r) * layer.inputs + column + c] = shared[r * kSumStride + c];
    }
}

// The first blocks make grad_x, the others grad_weights.
template <int Width>
__global__ void __launch_bounds__(kThreads) gradient_tiles(Layer layer, int x_tiles, int parts) {
    extern __shared__ float shared[];
    cudaGridDependencySynchronize();
    const int x_blocks = x_tiles * parts, block = blockIdx.x;
    if (block < x_blocks) make_grad_x<Width>(layer, block % parts, parts, block / parts, shared);
    else make_grad_weights<Width>(layer, block - x_blocks, shared);
}

int tiles_of(int size) { return (size + kTile - 1) / kTile; }

// How many blocks share the sum of a tile, so that all processors have two blocks and each block two steps at least.
int parts_of(int tiles, int depth) {
    int parts = 1;
    while (parts < 16 && tiles * parts * 2 <= 2 * kProcessors && depth >= 4 * parts * kStep) parts *= 2;
    return parts;
}

template <class... Arguments>
void launch_tiles(void (*kernel)(Arguments...), bool early, int blocks, int parts, Arguments... arguments) {
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeNonPortableClusterSizeAllowed, 1));
    launch_clusters(kernel, early, blocks, kThreads, kSharedBytes, parts, arguments...);
}

// Both gradients get whole clusters; the last one may have blocks without a tile, which find only zeros.
template <int Width>
void launch_gradient_tiles(const Layer& layer) {
    const int x_tiles = tiles_of(layer.rows) * tiles_of(layer.inputs), parts = parts_of(x_tiles, layer.outputs);
    const int weight_tiles = tiles_of(layer.outputs) * tiles_of(layer.inputs);
    const int blocks = x_tiles * parts + (weight_tiles + parts - 1) / parts * parts;
    launch_tiles(gradient_tiles<Width>, true, blocks, parts, layer, x_tiles, parts);
}

template <int Width>
void launch_gate_tiles(const Layer& layer) {
    const int tiles = tiles_of(layer.rows) * tiles_of(layer.outputs), parts = parts_of(tiles, layer.inputs);
    launch_tiles(gate_tiles<Width>, false, tiles * parts, parts, layer, parts);
}

template <int Width>
void launch_gate(const Layer& layer) {
    const bool many = int64_t(layer.rows) * layer.outputs * layer.inputs >= 1 << 25;
    if (layer.rows > 8 && many) launch_gate_tiles<Width>(layer);
    else if (layer.rows > 1) launch_dots<4, Width>(layer);
    else launch_dots<1, Width>(layer);
}

void launch(const Layer& layer) {
    if (layer.inputs % 4 == 0) launch_gate<4>(layer);
    else launch_gate<1>(layer);
    if (layer.rows == 1) launch_few_rows<1>(layer);
    else if (layer.rows <= 4) launch_few_rows<4>(layer);
    else if (layer.inputs % 4 == 0 && layer.outputs % 4 == 0) launch_gradient_tiles<4>(layer);
    else launch_gradient_tiles<1>(layer);
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x, torch::Tensor weights,
                                    torch::Tensor biases) {
    grad_output = grad_output.contiguous();
    x = x.contiguous();
    weights = weights.contiguous();
    const int64_t outputs = weights.size(0), inputs = weights.size(1), rows = x.size(0);
    TORCH_CHECK(x.numel() > 0 && outputs > 0, "nothing to do");
    auto gated = torch::empty(grad_output.sizes(), x.options()), grad_x = torch::empty(x.sizes(), x.options());
    auto grad_weights = torch::empty(weights.sizes(), x.options()), grad_biases = torch::empty({outputs}, x.options());
    launch({grad_output.const_data_ptr<float>(), x.const_data_ptr<float>(), weights.const_data_ptr<float>(),
            biases.const_data_ptr<float>(), gated.mutable_data_ptr<float>(), grad_x.mutable_data_ptr<float>(),
            grad_weights.mutable_data_ptr<float>(), grad_biases.mutable_data_ptr<float>(), int(rows), int(outputs),
            int(inputs)});
    return {grad_x, grad_weights, grad_biases};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
