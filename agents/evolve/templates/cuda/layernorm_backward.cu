// Backward of layer norm over the last three axes. With n = (x - mean) * rstd and h = gy * weight: gx = rstd * (h -
// mean(h) - n * mean(h * n)), gweight = sum of gy * n and gbias = sum of gy over the batch.
//
// Bound by memory: x and gy are read once for the sums of a row and once more for the results.
// Work:   three kernels. (1) A block owns a tile of columns, SUM_THREADS x SUM_PACKS packs, keeps their weights in
//         registers, walks over rows and leaves four sums per row and tile. (2) One block per row merges them in
//         double. (3) A block owns a tile of columns, with their weights and their sums over the batch in registers,
//         and walks over the rows, AT_ONCE at a time: no sum crosses a thread. REVERSED: tiles and rows run backwards
//         here, so that what (1) read last is still in L2. Variances use x - pivot, which removes a large mean before
//         squaring; the pivot of a row is the median of its first three elements.
// Limits: float32, contiguous. Rows whose length is no multiple of 4 move float by float.
// @genes@
// @include prelude.inc@

namespace {

struct Problem {
    const float *grad_output, *x, *weight;
    float *grad_x, *grad_weight, *grad_bias;
    float4* sums;       // per row and tile: of x', x' * x', h and h * x', where x' = x - pivot
    float4* rows_done;  // per row: mean, rstd, mean(h), mean(h * n)
    int rows, tiles;
    int64_t size;
    float eps;
};

// The columns of a thread within a tile; reads nothing and writes nothing behind the end of the row.
template <int Threads, int Packs, int Width>
struct Columns {
    using Values = float[Packs][Width];
    int64_t first, size;
    __device__ Columns(int64_t tile, int64_t size)
        : first(tile * Threads * Packs * Width + int64_t(threadIdx.x) * Width), size(size) {}
    __device__ int64_t place(int i) const { return first + int64_t(i) * Threads * Width; }
    __device__ bool inside(int i) const { return place(i) < size; }
    __device__ void read_to(Values& values, const float* row) const {
#pragma unroll
        for (int i = 0; i < Packs; ++i) {
#pragma unroll
            for (int e = 0; e < Width; ++e) values[i][e] = 0;
            if (inside(i)) load<Width>(values[i], row + place(i));
        }
    }
    __device__ void write_from(const Values& values, float* row) const {
#pragma unroll
        for (int i = 0; i < Packs; ++i)
            if (inside(i)) store<Width>(row + place(i), values[i]);
    }
};

__device__ float pivot_of(const Problem& p, int64_t row) {
    const float* x = p.x + row * p.size;
    const float a = x[0], b = x[p.size > 1 ? 1 : 0], c = x[p.size > 2 ? 2 : 0];
    return fmaxf(fminf(a, b), fminf(fmaxf(a, b), c));
}

__device__ float4 plus(float4 a, float4 b) { return {a.x + b.x, a.y + b.y, a.z + b.z, a.w + b.w}; }

template <int Width>
__global__ void __launch_bounds__(SUM_THREADS) sum_tiles(const Problem p) {
    __shared__ float4 buffers[2][SUM_THREADS / 32];
    const Columns<SUM_THREADS, SUM_PACKS, Width> columns(blockIdx.x, p.size);
    alignas(16) float weight[SUM_PACKS][Width], gy[SUM_PACKS][Width], x[SUM_PACKS][Width];
    columns.read_to(weight, p.weight);
    int turn = 0;
    for (int64_t row = blockIdx.y; row < p.rows; row += gridDim.y, turn ^= 1) {
        columns.read_to(gy, p.grad_output + row * p.size);
        columns.read_to(x, p.x + row * p.size);
        const float pivot = pivot_of(p, row);
        float4 sums = {0, 0, 0, 0};
#pragma unroll
        for (int i = 0; i < SUM_PACKS * Width; ++i) {
            const float centred = columns.inside(i / Width) ? x[i / Width][i % Width] - pivot : 0.0f;
            const float h = gy[i / Width][i % Width] * weight[i / Width][i % Width];
            sums = plus(sums, {centred, centred * centred, h, h * centred});
        }
        sums = {lanes_sum(sums.x), lanes_sum(sums.y), lanes_sum(sums.z), lanes_sum(sums.w)};
        if (threadIdx.x % 32 == 0) buffers[turn][threadIdx.x / 32] = sums;
        __syncthreads();  // the buffer of the row before is free: its reader came past here
        if (threadIdx.x != 0) continue;
        for (int warp = 1; warp < SUM_THREADS / 32; ++warp) sums = plus(sums, buffers[turn][warp]);
        p.sums[row * p.tiles + blockIdx.x] = sums;
    }
}

constexpr int kMergeThreads = 256;

__device__ double block_sum(double v) {
    __shared__ double sums[kMergeThreads / 32];
    v = lanes_sum(v);
    __syncthreads();  // the last call's readers are done
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = v;
    __syncthreads();
    double result = 0;
    for (int i = 0; i < kMergeThreads / 32; ++i) result += sums[i];
    return result;
}

__global__ void __launch_bounds__(kMergeThreads) merge_rows(const Problem p) {
    const int64_t row = blockIdx.x;
    double x = 0, xx = 0, h = 0, hx = 0;
#pragma unroll 4
    for (int tile = threadIdx.x; tile < p.tiles; tile += kMergeThreads) {
        const float4 sums = p.sums[row * p.tiles + tile];
        x += sums.x, xx += sums.y, h += sums.z, hx += sums.w;
    }
    const double offset = block_sum(x) / p.size, variance = block_sum(xx) / p.size - offset * offset;
    const double mean_h = block_sum(h) / p.size, mean_hx = block_sum(hx) / p.size;
    if (threadIdx.x != 0) return;
    const double rstd = rsqrt(fmax(variance, 0.0) + p.eps);
    p.rows_done[row] = {float(pivot_of(p, row) + offset), float(rstd), float(mean_h),
                        float((mean_hx - mean_h * offset) * rstd)};
}

constexpr int kAtOnce = AT_ONCE;

template <int Width>
__global__ void __launch_bounds__(THREADS) write_gradients(const Problem p, int tiles) {
    const int tile = REVERSED ? tiles - 1 - int(blockIdx.x) : int(blockIdx.x);
    const Columns<THREADS, PACKS, Width> columns(tile, p.size);
    alignas(16) float weight[PACKS][Width], grad_weight[PACKS][Width] = {}, grad_bias[PACKS][Width] = {};
    columns.read_to(weight, p.weight);
#pragma unroll kAtOnce
    for (int step = 0; step < p.rows; ++step) {
        const int64_t row = REVERSED ? p.rows - 1 - step : step;
        alignas(16) float gy[PACKS][Width], x[PACKS][Width];
        columns.read_to(gy, p.grad_output + row * p.size);
        columns.read_to(x, p.x + row * p.size);
        const float4 all = p.rows_done[row];
        const float rstd = all.y, shift = -all.x * rstd, mean_h = all.z, mean_hn = all.w;
#pragma unroll
        for (int i = 0; i < PACKS * Width; ++i) {
            const int k = i / Width, e = i % Width;
            const float g = gy[k][e], n = x[k][e] * rstd + shift;
            grad_bias[k][e] += g;
            grad_weight[k][e] += g * n;
            gy[k][e] = rstd * (g * weight[k][e] - mean_h - n * mean_hn);
        }
        columns.write_from(gy, p.grad_x + row * p.size);
    }
    columns.write_from(grad_weight, p.grad_weight);
    columns.write_from(grad_bias, p.grad_bias);
}

template <int Width>
int64_t sum_tiles_of(int64_t size) { return parts_of(size, SUM_THREADS * SUM_PACKS * Width); }

template <int Width>
void launch_all(Problem p, cudaStream_t stream) {
    p.tiles = int(sum_tiles_of<Width>(p.size));
    const int groups = max(1, min(p.rows, min(SUM_BLOCKS * processors() / p.tiles, 65535)));
    const int tiles = int(parts_of(p.size, THREADS * PACKS * Width));
    sum_tiles<Width><<<dim3(p.tiles, groups), SUM_THREADS, 0, stream>>>(p);
    merge_rows<<<p.rows, kMergeThreads, 0, stream>>>(p);
    write_gradients<Width><<<tiles, THREADS, 0, stream>>>(p, tiles);
}

}  // namespace

extern "C" int64_t workspace_floats(int rows, int size) { return 4 * rows * (sum_tiles_of<1>(size) + 1); }

extern "C" int launch(const float* grad_output, const float* x, const float* weight, float* grad_x,
                      float* grad_weight, float* grad_bias, float* workspace, int rows, int size, float eps,
                      void* on) {
    float4* place = reinterpret_cast<float4*>(workspace);
    const Problem problem = {grad_output, x, weight, grad_x, grad_weight, grad_bias, place + rows, place, rows, 0,
                             size, eps};
    if (size % 4 == 0 && WIDTH == 4) launch_all<4>(problem, static_cast<cudaStream_t>(on));
    else launch_all<1>(problem, static_cast<cudaStream_t>(on));
    return cudaGetLastError();
}

// ---- torch --------------------------------------------------------------------------------------------------------

// @include torch.inc@

std::tuple<torch::Tensor, torch::Tensor, torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x,
                                                                 torch::Tensor weight, torch::Tensor /*bias*/,
                                                                 double eps,
                                                                 std::vector<int64_t> /*normalized_shape*/) {
    grad_output = grad_output.contiguous();
    x = x.contiguous();
    weight = weight.contiguous();
    auto grad_x = torch::empty(x.sizes(), x.options());
    auto grad_weight = torch::empty(weight.sizes(), x.options()), grad_bias = torch::empty(weight.sizes(), x.options());
    const int size = int(weight.numel()), rows = int(x.numel() / size);
    auto workspace = torch::empty({workspace_floats(rows, size)}, x.options());
    check(launch(data(grad_output), data(x), data(weight), room(grad_x), room(grad_weight), room(grad_bias),
                 room(workspace), rows, size, float(eps), stream()));
    return {grad_x, grad_weight, grad_bias};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
