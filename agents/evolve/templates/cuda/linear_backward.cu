// Backward of a linear layer: gx = g W, gW = g^T x, gb = sum of g over the batch. Where RELU is 1, g is the gradient where
// the layer's result x W^T + b is positive and zero elsewhere; else it is the gradient itself.
//
// Bound by launches and latency where all is small, by reading W and writing gW for few rows, else by arithmetic.
// Work:   all products are made tile by tile: TILE_M x TILE_N results of a block, THREAD_M x THREAD_N of a thread, TILE_K
//         terms at a time through shared memory. FUSED: gW and gx come from one launch, the first blocks belong to gW;
//         else from two. The sums of gx run over the outputs, those of the hidden layer over the inputs: where tiles
//         are few, up to MAX_PARTS blocks share the terms of one and leave their parts in a workspace, which another
//         kernel adds up in a fixed order.
// Limits: float32, contiguous. Where lengths are no multiples of 4 values move one by one.
// @genes@
// @include prelude.inc@
// @include tile_product.inc@

namespace {

struct Layer {
    const float *grad, *x, *w, *bias;  // grad: of the layer's result, masked where there is a relu
    float *grad_x, *grad_w, *grad_bias, *hidden, *parts;
    int rows, outputs, inputs;
};

struct Tile {
    int row, column;
    __device__ Tile(int number, int columns)
        : row(number / ((columns + TILE_N - 1) / TILE_N) * TILE_M),
          column(number % ((columns + TILE_N - 1) / TILE_N) * TILE_N) {}
};

int64_t tiles_of(int rows, int columns) { return parts_of(rows, TILE_M) * parts_of(columns, TILE_N); }

// ---- the hidden layer, where there is a relu ----------------------------------------------------------------------

template <int Width>
__global__ void __launch_bounds__(kTileThreads) make_hidden(const Layer p) {
    const Tile tile(blockIdx.x, p.outputs);
    const int part = blockIdx.y, parts = gridDim.y;
    Sums sums = {};
    tile_product<true, true, Width>(sums, {p.x, p.rows, p.inputs}, {p.w, p.outputs, p.inputs}, tile.row, tile.column,
                                    first_term(p.inputs, part, parts), first_term(p.inputs, part + 1, parts));
    each_sum(sums, tile.row, tile.column, p.rows, p.outputs, [&](int r, int c, float sum) {
        const int64_t at = int64_t(r) * p.outputs + c;
        if (parts == 1) p.hidden[at] = sum + p.bias[c] > 0 ? p.grad[at] : 0.0f;
        else p.parts[int64_t(part) * p.rows * p.outputs + at] = sum;
    });
}

__global__ void mask_hidden(const Layer p, int parts) {
    const int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, count = int64_t(p.rows) * p.outputs;
    if (at >= count) return;
    float sum = p.bias[at % p.outputs];
    for (int part = 0; part < parts; ++part) sum += p.parts[part * count + at];
    p.hidden[at] = sum > 0 ? p.grad[at] : 0.0f;
}

// ---- gradients ----------------------------------------------------------------------------------------------------

template <int Width>
__device__ void make_grad_w(const Layer& p, int number) {
    const Tile tile(number, p.inputs);
    Sums sums = {};
    tile_product<false, false, Width>(sums, {p.grad, p.outputs, p.outputs}, {p.x, p.inputs, p.inputs}, tile.row,
                                      tile.column, 0, p.rows);
    each_sum(sums, tile.row, tile.column, p.outputs, p.inputs,
             [&](int r, int c, float sum) { p.grad_w[int64_t(r) * p.inputs + c] = sum; });
    if (tile.column != 0) return;
    for (int i = threadIdx.x; i < TILE_M && tile.row + i < p.outputs; i += kTileThreads) {
        float sum = 0;
#pragma unroll 8
        for (int row = 0; row < p.rows; ++row) sum += p.grad[int64_t(row) * p.outputs + tile.row + i];
        p.grad_bias[tile.row + i] = sum;
    }
}

template <int Width>
__device__ void make_grad_x(const Layer& p, int number, int part, int parts) {
    const Tile tile(number, p.inputs);
    Sums sums = {};
    tile_product<true, false, Width>(sums, {p.grad, p.rows, p.outputs}, {p.w, p.inputs, p.inputs}, tile.row,
                                     tile.column, first_term(p.outputs, part, parts),
                                     first_term(p.outputs, part + 1, parts));
    float* to = parts == 1 ? p.grad_x : p.parts + int64_t(part) * p.rows * p.inputs;
    each_sum(sums, tile.row, tile.column, p.rows, p.inputs,
             [&](int r, int c, float sum) { to[int64_t(r) * p.inputs + c] = sum; });
}

// Blocks from `first` on: those of gW, `w_tiles` of them, then those of gx, part by part.
template <int Width>
__global__ void __launch_bounds__(kTileThreads) make_gradients(const Layer p, int first, int w_tiles, int x_tiles,
                                                               int parts) {
    const int block = first + blockIdx.x;
    if (block < w_tiles) make_grad_w<Width>(p, block);
    else make_grad_x<Width>(p, (block - w_tiles) % x_tiles, (block - w_tiles) / x_tiles, parts);
}

__global__ void add_parts(const Layer p, int parts) {
    const int64_t at = int64_t(blockIdx.x) * blockDim.x + threadIdx.x, count = int64_t(p.rows) * p.inputs;
    if (at >= count) return;
    float sum = 0;
    for (int part = 0; part < parts; ++part) sum += p.parts[part * count + at];
    p.grad_x[at] = sum;
}

// ---- launches -----------------------------------------------------------------------------------------------------

constexpr int kThreads = 256;

int hidden_parts(int rows, int outputs, int inputs) { return RELU ? parts_for(tiles_of(rows, outputs), inputs) : 1; }
int x_parts(int rows, int outputs, int inputs) { return parts_for(tiles_of(rows, inputs), outputs); }

template <int Width>
void launch_hidden(const Layer& p, cudaStream_t stream) {
    const int parts = hidden_parts(p.rows, p.outputs, p.inputs);
    const dim3 grid(tiles_of(p.rows, p.outputs), parts);
    make_hidden<Width><<<grid, kTileThreads, 0, stream>>>(p);
    const unsigned blocks = unsigned(parts_of(int64_t(p.rows) * p.outputs, kThreads));
    if (parts > 1) mask_hidden<<<blocks, kThreads, 0, stream>>>(p, parts);
}

template <int Width>
void launch_gradients(const Layer& p, cudaStream_t stream) {
    const int parts = x_parts(p.rows, p.outputs, p.inputs);
    const int w_tiles = int(tiles_of(p.outputs, p.inputs)), x_tiles = int(tiles_of(p.rows, p.inputs));
    const int x_blocks = x_tiles * parts;
    if (FUSED) {
        make_gradients<Width><<<w_tiles + x_blocks, kTileThreads, 0, stream>>>(p, 0, w_tiles, x_tiles, parts);
    } else {
        make_gradients<Width><<<w_tiles, kTileThreads, 0, stream>>>(p, 0, w_tiles, x_tiles, parts);
        make_gradients<Width><<<x_blocks, kTileThreads, 0, stream>>>(p, w_tiles, w_tiles, x_tiles, parts);
    }
    const unsigned blocks = unsigned(parts_of(int64_t(p.rows) * p.inputs, kThreads));
    if (parts > 1) add_parts<<<blocks, kThreads, 0, stream>>>(p, parts);
}

int launch_layer(Layer p, cudaStream_t stream) {
    const bool aligned = p.inputs % 4 == 0 && p.outputs % 4 == 0;
    if (RELU) {
        if (aligned) launch_hidden<4>(p, stream);
        else launch_hidden<1>(p, stream);
        p.grad = p.hidden;
    }
    if (aligned) launch_gradients<4>(p, stream);
    else launch_gradients<1>(p, stream);
    return cudaGetLastError();
}

int64_t hidden_floats(int rows, int outputs) { return RELU ? (int64_t(rows) * outputs + 3) / 4 * 4 : 0; }

}  // namespace

extern "C" int64_t workspace_floats(int rows, int outputs, int inputs) {
    const int64_t for_hidden = int64_t(hidden_parts(rows, outputs, inputs)) * rows * outputs;
    const int64_t for_x = int64_t(x_parts(rows, outputs, inputs)) * rows * inputs;
    return hidden_floats(rows, outputs) + max(for_hidden, for_x);
}

#if RELU
extern "C" int launch(const float* grad, const float* x, const float* w, const float* bias, float* grad_x,
                      float* grad_w, float* grad_bias, float* workspace, int rows, int outputs, int inputs, void* on) {
#else
extern "C" int launch(const float* grad, const float* x, const float* w, float* grad_x, float* grad_w,
                      float* grad_bias, float* workspace, int rows, int outputs, int inputs, void* on) {
    const float* bias = nullptr;
#endif
    float* parts = workspace + hidden_floats(rows, outputs);
    return launch_layer({grad, x, w, bias, grad_x, grad_w, grad_bias, workspace, parts, rows, outputs, inputs},
                        static_cast<cudaStream_t>(on));
}

// ---- torch --------------------------------------------------------------------------------------------------------

// @include torch.inc@
#include <vector>

#if RELU
std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x, torch::Tensor weights,
                                    torch::Tensor biases) {
    biases = biases.contiguous();
#else
std::vector<torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x, torch::Tensor weights) {
#endif
    grad_output = grad_output.contiguous();
    x = x.contiguous();
    weights = weights.contiguous();
    const int outputs = int(weights.size(0)), inputs = int(weights.size(1)), rows = int(x.numel() / inputs);
    auto grad_x = torch::empty(x.sizes(), x.options()), grad_w = torch::empty(weights.sizes(), x.options());
    auto grad_bias = torch::empty({outputs}, x.options());
    auto workspace = torch::empty({workspace_floats(rows, outputs, inputs)}, x.options());
    check(launch(data(grad_output), data(x), data(weights),
#if RELU
                 data(biases),
#endif
                 room(grad_x), room(grad_w), room(grad_bias), room(workspace), rows, outputs, inputs, stream()));
    return {grad_x, grad_w, grad_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
