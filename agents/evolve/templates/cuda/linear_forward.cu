// Linear layer: y = x W^T + b, with a relu where RELU is 1.
//
// Bound by reading W for few rows, by arithmetic in float32 for many, by latency where all is small.
// Work:   lines: a block makes LINE_ROWS x LINE_COLUMNS results, its LINE_WARPS warps share the terms, and lanes take
//         neighbouring ones. tiles: a block makes TILE_M x TILE_N results, a thread THREAD_M x THREAD_N of them, TILE_K
//         terms at a time through shared memory; where tiles are few, up to MAX_PARTS blocks share the terms of one and
//         a second kernel adds their parts in a fixed order. tensor: the same with tiles on the tensor cores, as 3xTF32.
// Dispatch: PATH both: lines for up to 8 rows or 16 columns, else tiles; PATH mixed: else tensor.
// Limits: float32, contiguous. Rows whose length is no multiple of 4 move float by float.
// @genes@
// @include prelude.inc@
// @include tile_product.inc@
// @only PATH tensor mixed@
// @include tensor_product.inc@
// @end@

namespace {

struct Layer {
    const float *x, *w, *bias;
    float *y, *parts;
    int rows, columns, terms;
};

__device__ float finished(const Layer& p, int column, float sum) {
    sum += p.bias[column];
    return RELU ? fmaxf(sum, 0.0f) : sum;
}

// ---- lines --------------------------------------------------------------------------------------------------------

constexpr int kLineUnroll = LINE_UNROLL;

template <int Width>
__global__ void __launch_bounds__(32 * LINE_WARPS) lines(const Layer p) {
    __shared__ float shares[LINE_WARPS][LINE_ROWS * LINE_COLUMNS];
    const int row = blockIdx.y * LINE_ROWS, column = blockIdx.x * LINE_COLUMNS;
    float sums[LINE_ROWS][LINE_COLUMNS] = {};
#pragma unroll kLineUnroll
    for (int k = threadIdx.x * Width; k < p.terms; k += 32 * LINE_WARPS * Width) {
        alignas(16) float w[LINE_COLUMNS][Width], x[LINE_ROWS][Width];
#pragma unroll
        for (int c = 0; c < LINE_COLUMNS; ++c)
            load<Width>(w[c], p.w + int64_t(min(column + c, p.columns - 1)) * p.terms + k);
#pragma unroll
        for (int r = 0; r < LINE_ROWS; ++r)
            load<Width>(x[r], p.x + int64_t(min(row + r, p.rows - 1)) * p.terms + k);
#pragma unroll
        for (int i = 0; i < LINE_ROWS * LINE_COLUMNS * Width; ++i) {
            const int r = i / Width / LINE_COLUMNS, c = i / Width % LINE_COLUMNS;
            sums[r][c] = fmaf(x[r][i % Width], w[c][i % Width], sums[r][c]);
        }
    }
#pragma unroll
    for (int i = 0; i < LINE_ROWS * LINE_COLUMNS; ++i) {
        const float sum = lanes_sum(sums[i / LINE_COLUMNS][i % LINE_COLUMNS]);
        if (threadIdx.x % 32 == 0) shares[threadIdx.x / 32][i] = sum;
    }
    __syncthreads();
    for (int i = threadIdx.x; i < LINE_ROWS * LINE_COLUMNS; i += 32 * LINE_WARPS) {
        const int r = row + i / LINE_COLUMNS, c = column + i % LINE_COLUMNS;
        float sum = 0;
        for (int warp = 0; warp < LINE_WARPS; ++warp) sum += shares[warp][i];
        if (r < p.rows && c < p.columns) p.y[int64_t(r) * p.columns + c] = finished(p, c, sum);
    }
}

void launch_lines(const Layer& p, cudaStream_t stream) {
    const dim3 grid(parts_of(p.columns, LINE_COLUMNS), parts_of(p.rows, LINE_ROWS));
    if (p.terms % LINE_WIDTH == 0) lines<LINE_WIDTH><<<grid, 32 * LINE_WARPS, 0, stream>>>(p);
    else lines<1><<<grid, 32 * LINE_WARPS, 0, stream>>>(p);
}

// ---- tiles --------------------------------------------------------------------------------------------------------

// What a sum of part number `part` of `parts` becomes.
__device__ void leave(const Layer& p, int part, int parts, int r, int c, float sum) {
    const int64_t at = int64_t(r) * p.columns + c;
    if (parts == 1) p.y[at] = finished(p, c, sum);
    else p.parts[int64_t(part) * p.rows * p.columns + at] = sum;
}

template <int Width>
__global__ void __launch_bounds__(kTileThreads) tiles(const Layer p) {
    const int row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N, part = blockIdx.z, parts = gridDim.z;
    Sums sums = {};
    tile_product<true, true, Width>(sums, {p.x, p.rows, p.terms}, {p.w, p.columns, p.terms}, row, column,
                                    first_term(p.terms, part, parts), first_term(p.terms, part + 1, parts));
    each_sum(sums, row, column, p.rows, p.columns,
             [&](int r, int c, float sum) { leave(p, part, parts, r, c, sum); });
}

// @only PATH tensor mixed@
template <int CopyBytes>
__global__ void __launch_bounds__(kTensorThreads) tensor_tiles(const Layer p) {
    extern __shared__ float4 stages[];
    const int row = blockIdx.y * kTensorRows, column = blockIdx.x * TENSOR_COLUMNS;
    const int part = blockIdx.z, parts = gridDim.z;
    TensorSums sums = {};
    tensor_product<CopyBytes>(sums, {p.x, p.rows, p.terms}, {p.w, p.columns, p.terms}, row, column,
                              first_term(p.terms, part, parts), first_term(p.terms, part + 1, parts), stages);
    each_tensor_sum(sums, row, column, p.rows, p.columns,
                    [&](int r, int c, float sum) { leave(p, part, parts, r, c, sum); });
}

// @end@
__global__ void add_parts(const Layer p, int parts) {
    const int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, count = int64_t(p.rows) * p.columns;
    if (at >= count) return;
    float sum = 0;
    for (int part = 0; part < parts; ++part) sum += p.parts[part * count + at];
    p.y[at] = finished(p, int(at % p.columns), sum);
}

#if PATH == PATH_TENSOR || PATH == PATH_MIXED
constexpr int kRows = kTensorRows, kColumns = TENSOR_COLUMNS;
#else
constexpr int kRows = TILE_M, kColumns = TILE_N;
#endif

int parts_of_layer(int rows, int columns, int terms) {
    return parts_for(parts_of(rows, kRows) * parts_of(columns, kColumns), terms);
}

void launch_tiles(const Layer& p, cudaStream_t stream) {
    const int parts = parts_of_layer(p.rows, p.columns, p.terms);
    const dim3 grid(parts_of(p.columns, kColumns), parts_of(p.rows, kRows), parts);
    const int64_t count = int64_t(p.rows) * p.columns;
#if PATH == PATH_TENSOR || PATH == PATH_MIXED
    const auto kernel = p.terms % 4 == 0 ? tensor_tiles<16> : tensor_tiles<4>;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kTensorBytes);
    kernel<<<grid, kTensorThreads, kTensorBytes, stream>>>(p);
#else
    if (p.terms % 4 == 0) tiles<4><<<grid, kTileThreads, 0, stream>>>(p);
    else tiles<1><<<grid, kTileThreads, 0, stream>>>(p);
#endif
    if (parts > 1) add_parts<<<unsigned(parts_of(count, 256)), 256, 0, stream>>>(p, parts);
}

bool use_lines(int rows, int columns) {
    const bool few = rows <= 8 || columns <= 16;
    return (PATH == PATH_LINES || ((PATH == PATH_BOTH || PATH == PATH_MIXED) && few)) && parts_of(rows, LINE_ROWS) < 65536;
}

}  // namespace

extern "C" int64_t workspace_floats(int rows, int columns, int terms) {
    const int parts = use_lines(rows, columns) ? 1 : parts_of_layer(rows, columns, terms);
    return parts == 1 ? 0 : int64_t(parts) * rows * columns;
}

extern "C" int launch(const float* x, const float* w, const float* bias, float* y, float* workspace, int rows,
                      int columns, int terms, void* on) {
    const Layer layer = {x, w, bias, y, workspace, rows, columns, terms};
    if (use_lines(rows, columns)) launch_lines(layer, static_cast<cudaStream_t>(on));
    else launch_tiles(layer, static_cast<cudaStream_t>(on));
    return cudaGetLastError();
}

// ---- torch --------------------------------------------------------------------------------------------------------

// @include torch.inc@

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    x = x.contiguous();
    weights = weights.contiguous();
    biases = biases.contiguous();
    const int columns = int(weights.size(0)), terms = int(weights.size(1)), rows = int(x.numel() / terms);
    auto shape = x.sizes().vec();
    shape.back() = columns;
    auto y = torch::empty(shape, x.options());
    auto workspace = torch::empty({workspace_floats(rows, columns, terms)}, x.options());
    check(launch(data(x), data(weights), data(biases), room(y), room(workspace), rows, columns, terms, stream()));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
