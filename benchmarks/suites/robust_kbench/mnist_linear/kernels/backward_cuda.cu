// Backward of a linear layer: grad_x = g W, grad_weights = g^T x, grad_biases = the sum of g over rows.
//
// Bound by its launch for small shapes, by reading and writing the weights for few rows; for 64 rows of 4096 x 4096 the
// float32 units would need twice as long as the memory, so those products run on the tensor cores. Eager needs three
// launches, here it is one.
// Work:     `few_rows`: a thread keeps its columns of x in registers and walks down the weights: each is read once for
//           grad_x, and its gradient is written. Warps and the blocks of a cluster share the outputs and add up
//           grad_x through shared memory.
//           `tiles`: 64 x 64 results per block from shared memory, filled two steps ahead by asynchronous copies. The
//           first blocks make grad_x, the blocks of a cluster sharing its long sum; the others make grad_weights, and
//           those of its first column also grad_biases, from the g they hold. No scratch, no atomics.
// Accuracy: every float is split into two TF32 numbers, x = big + small, and big*big + big*small + small*big are
//           summed in float32, which leaves out 2^-22 of a product. The tensor cores round their sums towards zero, so
//           they start at zero again every 32 steps and an ordinary addition collects them.
// Dispatch: few_rows up to 4 rows, else tiles. Four floats at a time where rows keep that alignment, else single ones.
// Limits:   float32, contiguous.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cooperative_groups.h>
#include <cuda_pipeline.h>
#include <torch/extension.h>

#include <vector>

namespace {

constexpr int kProcessors = 132;  // of an H200; only a guide for sizing grids

struct Layer {
    const float *grad, *x, *weights;
    float *grad_x, *grad_weights, *grad_biases;
    int rows, outputs, inputs;
};

template <int Count>
struct alignas(4 * Count) Floats {
    float at[Count];
};

template <class... Expected, class... Given>
void launch_clusters(void (*kernel)(Expected...), int blocks, int threads, size_t shared_bytes, int parts,
                     Given... arguments) {
    cudaLaunchAttribute cluster = {};
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim = {unsigned(parts), 1, 1};
    cudaLaunchConfig_t config = {};
    config.gridDim = blocks;
    config.blockDim = threads;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = c10::cuda::getCurrentCUDAStream();
    config.attrs = &cluster;
    config.numAttrs = 1;
    C10_CUDA_CHECK(cudaLaunchKernelEx(&config, kernel, arguments...));
}

// ---- few rows -----------------------------------------------------------------------------------------------------

// Writes the gradients of the weights of outputs first, first + step, ... and adds their share of grad_x to the sums.
template <int Rows, int Width>
__device__ void walk_outputs(const Layer& layer, int column, int first, int last, int step, bool writes_biases,
                             Floats<Width> (&sums)[Rows]) {
    using Vector = Floats<Width>;
    Vector x[Rows] = {};
    for (int r = 0; r < Rows; ++r)
        if (r < layer.rows) x[r] = *reinterpret_cast<const Vector*>(layer.x + int64_t(r) * layer.inputs + column);
#pragma unroll 4
    for (int output = first; output < last; output += step) {
        const int64_t place = int64_t(output) * layer.inputs + column;
        const Vector weight = *reinterpret_cast<const Vector*>(layer.weights + place);
        Vector gradient = {};
        float bias = 0;
#pragma unroll
        for (int r = 0; r < Rows; ++r) {
            const float g = r < layer.rows ? layer.grad[int64_t(r) * layer.outputs + output] : 0.0f;
            bias += g;
            for (int e = 0; e < Width; ++e) {
                sums[r].at[e] = fmaf(g, weight.at[e], sums[r].at[e]);
                gradient.at[e] = fmaf(g, x[r].at[e], gradient.at[e]);
            }
        }
        *reinterpret_cast<Vector*>(layer.grad_weights + place) = gradient;
        if (writes_biases) layer.grad_biases[output] = bias;
    }
}

// A cluster has 32 x Width columns; its blocks and their warps share the outputs.
template <int Rows, int Width, int Warps>
__global__ void __launch_bounds__(32 * Warps) few_rows(Layer layer, int parts) {
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
    launch_clusters(few_rows<Rows, Width, Warps>, columns * parts, 32 * Warps, 0, parts, layer, parts);
}

template <int Rows>
void launch_few_rows(const Layer& layer) {
    if (layer.inputs % 4 == 0 && layer.inputs >= 2048) launch_few_rows<Rows, 4, 8>(layer);
    else launch_few_rows<Rows, 1, 32>(layer);
}

// ---- tiles --------------------------------------------------------------------------------------------------------

constexpr int kTile = 64, kStep = 32, kStages = 3, kThreads = 128;
constexpr int kAlongStride = kStep + 4, kAcrossStride = kTile + 8;  // no two lanes of a fragment meet in a bank
constexpr int kOperand = kTile * kAlongStride, kSharedBytes = kStages * 2 * kOperand * sizeof(float);
constexpr int kSumStride = kTile + 4;
static_assert(kOperand == kStep * kAcrossStride);

using Sums = float[2][4][4];  // of a warp's 32 x 32 results: 2 x 4 tiles of 16 x 8

// out (m x n) = a b, summed over depth. The rows of b are contiguous; those of a are, or its columns.
struct Product {
    const float *a, *b;
    float* out;
    int m, n, depth;
};

// Starts to copy Outer rows of Inner floats, from (row, column) of a table on, with zeros for what lies outside.
template <int Outer, int Inner, int Width>
__device__ void copy_tile(float* to, int stride, const float* from, int row, int rows, int column, int columns) {
    constexpr int PerRow = Inner / Width;
#pragma unroll
    for (int i = threadIdx.x; i < Outer * PerRow; i += kThreads) {
        const int r = i / PerRow, c = i % PerRow * Width;
        const bool inside = row + r < rows && column + c < columns;
        const float* source = inside ? from + int64_t(row + r) * columns + column + c : from;
        __pipeline_memcpy_async(to + r * stride + c, source, 4 * Width, inside ? 0 : 4 * Width);
    }
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

// Adds the products of one step. `AlongK`: neighbours in a lie along the sum, else along the rows of the result.
template <bool AlongK>
__device__ void multiply(const float* a, const float* b, Sums& totals) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, group = lane / 4, member = lane % 4;
    const int top = warp / 2 * 32 + group, left = warp % 2 * 32 + group;
    Sums sums = {};
#pragma unroll
    for (int k = member; k < kStep; k += 8) {
        unsigned big_a[2][4], small_a[2][4];
        for (int i = 0; i < 8; ++i) {
            const int row = top + i / 4 * 16 + i % 2 * 8, depth = k + i / 2 % 2 * 4;
            split(a[AlongK ? row * kAlongStride + depth : depth * kAcrossStride + row], big_a[i / 4][i % 4],
                  small_a[i / 4][i % 4]);
        }
        for (int n = 0; n < 4; ++n) {
            unsigned big_b[2], small_b[2];
            for (int i = 0; i < 2; ++i) split(b[(k + i * 4) * kAcrossStride + left + n * 8], big_b[i], small_b[i]);
            for (int m = 0; m < 2; ++m) {
                mma(sums[m][n], small_a[m], big_b);
                mma(sums[m][n], big_a[m], small_b);
                mma(sums[m][n], big_a[m], big_b);
            }
        }
    }
    for (int i = 0; i < 32; ++i) totals[i / 16][i / 4 % 4][i % 4] += sums[i / 16][i / 4 % 4][i % 4];
}

// Sums the steps from `first` to `last` of the tile at (row, column). Returns the sum of row threadIdx.x of a, for
// threads below 64 and where a has contiguous columns.
template <bool AlongK, int WidthA, int WidthB>
__device__ float sum_steps(const Product& product, int row, int column, int first, int last, float* shared,
                           Sums& totals) {
    const auto fetch = [&](int step) {
        float *a = shared + step % kStages * 2 * kOperand, *b = a + kOperand;
        const int k = step * kStep;
        if (step < last) {
            if (AlongK)
                copy_tile<kTile, kStep, WidthA>(a, kAlongStride, product.a, row, product.m, k, product.depth);
            else copy_tile<kStep, kTile, WidthA>(a, kAcrossStride, product.a, k, product.depth, row, product.m);
            copy_tile<kStep, kTile, WidthB>(b, kAcrossStride, product.b, k, product.depth, column, product.n);
        }
        __pipeline_commit();
    };
    float row_sum = 0;
    for (int step = first; step < first + kStages - 1; ++step) fetch(step);
    for (int step = first; step < last; ++step) {
        __pipeline_wait_prior(kStages - 2);
        __syncthreads();  // this step has arrived for all, and all are done with the one that fetch now overwrites
        fetch(step + kStages - 1);
        const float* a = shared + step % kStages * 2 * kOperand;
        multiply<AlongK>(a, a + kOperand, totals);
        if (!AlongK && column == 0 && threadIdx.x < kTile)
            for (int k = 0; k < kStep; ++k) row_sum += a[k * kAcrossStride + threadIdx.x];
    }
    __syncthreads();
    return row_sum;
}

// Puts a block's 64 x 64 sums where the whole cluster can read them.
__device__ void publish(const Sums& totals, float* shared) {
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const int row = warp / 2 * 32 + lane / 4, column = warp % 2 * 32 + lane % 4 * 2;
    for (int i = 0; i < 32; ++i)
        shared[(row + i / 16 * 16 + i / 2 % 2 * 8) * kSumStride + column + i / 4 % 4 * 8 + i % 2] =
            totals[i / 16][i / 4 % 4][i % 4];
}

__device__ void write(const Product& product, int row, int column, float value) {
    if (row < product.m && column < product.n) product.out[int64_t(row) * product.n + column] = value;
}

template <int WidthA, int WidthB>
__device__ void make_grad_x(const Layer& layer, int part, int parts, int tile, float* shared) {
    const Product product = {layer.grad, layer.weights, layer.grad_x, layer.rows, layer.inputs, layer.outputs};
    const auto cluster = cooperative_groups::this_cluster();
    const int across = (product.n + kTile - 1) / kTile, steps = (product.depth + kStep - 1) / kStep;
    const int row = tile / across * kTile, column = tile % across * kTile;
    Sums totals = {};
    sum_steps<true, WidthA, WidthB>(product, row, column, steps * part / parts, steps * (part + 1) / parts, shared,
                                    totals);
    publish(totals, shared);
    cluster.sync();
    const int share = kTile / parts;
    for (int i = threadIdx.x; i < share * kTile; i += kThreads) {
        const int r = part * share + i / kTile, c = i % kTile;
        float sum = 0;
        for (int p = 0; p < parts; ++p) sum += cluster.map_shared_rank(shared, p)[r * kSumStride + c];
        write(product, row + r, column + c, sum);
    }
    cluster.sync();  // nobody leaves while others read from here
}

template <int WidthA, int WidthB>
__device__ void make_grad_weights(const Layer& layer, int tile, float* shared) {
    const Product product = {layer.grad, layer.x, layer.grad_weights, layer.outputs, layer.inputs, layer.rows};
    const int across = (product.n + kTile - 1) / kTile, steps = (product.depth + kStep - 1) / kStep;
    const int row = tile / across * kTile, column = tile % across * kTile, output = row + threadIdx.x;
    if (row >= product.m) return;
    Sums totals = {};
    const float bias = sum_steps<false, WidthA, WidthB>(product, row, column, 0, steps, shared, totals);
    publish(totals, shared);
    if (column == 0 && threadIdx.x < kTile && output < product.m) layer.grad_biases[output] = bias;
    __syncthreads();
    for (int i = threadIdx.x; i < kTile * kTile; i += kThreads)
        write(product, row + i / kTile, column + i % kTile, shared[i / kTile * kSumStride + i % kTile]);
}

template <int WidthA, int WidthB>
__global__ void __launch_bounds__(kThreads) tiles(Layer layer, int x_tiles, int parts) {
    extern __shared__ float shared[];
    const int x_blocks = x_tiles * parts, block = blockIdx.x;
    if (block < x_blocks) make_grad_x<WidthA, WidthB>(layer, block % parts, parts, block / parts, shared);
    else make_grad_weights<WidthA, WidthB>(layer, block - x_blocks, shared);
}

// grad_x gets whole clusters, and so does grad_weights, where the last one may have blocks without work.
template <int WidthA, int WidthB>
void launch_tiles(const Layer& layer) {
    const auto count = [](int size) { return (size + kTile - 1) / kTile; };
    const int x_tiles = count(layer.rows) * count(layer.inputs), steps = (layer.outputs + kStep - 1) / kStep;
    int parts = 1;
    while (parts < 8 && x_tiles * parts * 2 <= 2 * kProcessors && steps >= 4 * parts) parts *= 2;
    const int weight_tiles = (count(layer.outputs) * count(layer.inputs) + parts - 1) / parts * parts;
    const auto kernel = tiles<WidthA, WidthB>;
    C10_CUDA_CHECK(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes));
    launch_clusters(kernel, x_tiles * parts + weight_tiles, kThreads, kSharedBytes, parts, layer, x_tiles, parts);
}

void launch(const Layer& layer) {
    const bool wide_a = layer.outputs % 4 == 0, wide_b = layer.inputs % 4 == 0;
    if (layer.rows == 1) launch_few_rows<1>(layer);
    else if (layer.rows <= 4) launch_few_rows<4>(layer);
    else if (wide_a && wide_b) launch_tiles<4, 4>(layer);
    else if (wide_a) launch_tiles<4, 1>(layer);
    else if (wide_b) launch_tiles<1, 4>(layer);
    else launch_tiles<1, 1>(layer);
}

}  // namespace

std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x, torch::Tensor weights) {
    grad_output = grad_output.contiguous();
    x = x.contiguous();
    weights = weights.contiguous();
    const int64_t outputs = weights.size(0), inputs = weights.size(1), rows = x.size(0);
    TORCH_CHECK(x.numel() > 0 && outputs > 0, "nothing to do");
    auto grad_x = torch::empty(x.sizes(), x.options()), grad_weights = torch::empty(weights.sizes(), x.options());
    auto grad_biases = torch::empty({outputs}, x.options());
    launch({grad_output.const_data_ptr<float>(), x.const_data_ptr<float>(), weights.const_data_ptr<float>(),
            grad_x.mutable_data_ptr<float>(), grad_weights.mutable_data_ptr<float>(),
            grad_biases.mutable_data_ptr<float>(), int(rows), int(outputs), int(inputs)});
    return {grad_x, grad_weights, grad_biases};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
