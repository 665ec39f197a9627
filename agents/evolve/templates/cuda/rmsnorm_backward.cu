// Backward of RMS norm over the last axis. With h = gy * w, n = x * rstd:  gx = rstd * (h - n * mean(h * n)), gw = sum
// of gy * n over the rows.
//
// Bound by memory: x and gy are read once, gx is written once.
// Work:   BLOCKS_PER_SM blocks per multiprocessor walk over the rows. A thread owns the same columns in every row, so
//         that its part of gw stays in registers; with WEIGHTS kept also w. With AHEAD the loads of the next row are
//         under way while a row is reduced and written. Both sums of a row need one barrier: warps leave their sums in
//         one of two buffers, used in turn. Each block leaves its part of gw in a workspace; a second kernel adds the
//         parts in a fixed order, FOLD_ROWS threads to a column.
// Limits: float32, contiguous. Rows that WIDTH does not divide move float by float; what does not fit 16 packs per
//         thread is read twice and keeps its part of gw in memory.
// @genes@
// @include prelude.inc@

namespace {

constexpr int kWarps = THREADS / 32;

struct Norm {
    const float *grad_output, *x, *w;
    float *grad_x, *grad_w, *parts;
    int rows, size;
    float eps;
};

// The sums over the block, in every thread. Calls that follow each other use different buffers.
__device__ float2 block_sums(float2 v, int turn) {
    __shared__ float2 buffers[2][kWarps];
    v = {lanes_sum(v.x), lanes_sum(v.y)};
    if (threadIdx.x % 32 == 0) buffers[turn][threadIdx.x / 32] = v;
    __syncthreads();
    float2 sum = {0, 0};
    for (int i = 0; i < kWarps; ++i) sum.x += buffers[turn][i].x, sum.y += buffers[turn][i].y;
    return sum;
}

template <int Width, int Packs>
struct Row {
    alignas(16) float at[Packs][Width];

    __device__ static int pack(int i) { return threadIdx.x + i * THREADS; }
    __device__ void clear() {
        for (int i = 0; i < Packs * Width; ++i) at[i / Width][i % Width] = 0;
    }
    __device__ void load_from(const float* from, int packs) {
        clear();
#pragma unroll
        for (int i = 0; i < Packs; ++i)
            if (pack(i) < packs) load<Width>(at[i], from + pack(i) * Width);
    }
    __device__ void store_to(float* to, int packs) const {
#pragma unroll
        for (int i = 0; i < Packs; ++i)
            if (pack(i) < packs) store<Width>(to + pack(i) * Width, at[i]);
    }
    __device__ float& operator[](int i) { return at[i / Width][i % Width]; }
};

template <int Width, int Packs>
__global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) grad_rows(const Norm p) {
    constexpr int kFloats = Width * Packs;
    const int packs = p.size / Width;
    Row<Width, Packs> weight, part, gy, x, next_gy, next_x;
    part.clear();
    if constexpr (WEIGHTS == WEIGHTS_KEPT) weight.load_from(p.w, packs);
    if constexpr (AHEAD) {
        next_gy.load_from(p.grad_output + int64_t(blockIdx.x) * p.size, packs);
        next_x.load_from(p.x + int64_t(blockIdx.x) * p.size, packs);
    }
    int turn = 0;
    for (int row = blockIdx.x; row < p.rows; row += gridDim.x, turn ^= 1) {
        if constexpr (AHEAD) {
            gy = next_gy;
            x = next_x;
            if (const int64_t next = row + int64_t(gridDim.x); next < p.rows) {
                next_gy.load_from(p.grad_output + next * p.size, packs);
                next_x.load_from(p.x + next * p.size, packs);
            }
        } else {
            gy.load_from(p.grad_output + int64_t(row) * p.size, packs);
            x.load_from(p.x + int64_t(row) * p.size, packs);
        }
        if constexpr (WEIGHTS != WEIGHTS_KEPT) weight.load_from(p.w, packs);
        float2 sums = {0, 0};
#pragma unroll
        for (int i = 0; i < kFloats; ++i) sums.x += x[i] * x[i], sums.y += gy[i] * weight[i] * x[i];
        sums = block_sums(sums, turn);
        const float rstd = rsqrtf(sums.x / p.size + p.eps), projection = rstd * rstd * (sums.y / p.size) * rstd;
#pragma unroll
        for (int i = 0; i < kFloats; ++i) {
            part[i] += gy[i] * x[i] * rstd;
            gy[i] = gy[i] * weight[i] * rstd - x[i] * projection;
        }
        gy.store_to(p.grad_x + int64_t(row) * p.size, packs);
    }
    part.store_to((gridDim.x == 1 ? p.grad_w : p.parts + int64_t(blockIdx.x) * p.size), packs);
}

__global__ void __launch_bounds__(THREADS) grad_long_rows(const Norm p) {
    float* part = gridDim.x == 1 ? p.grad_w : p.parts + int64_t(blockIdx.x) * p.size;
    for (int at = threadIdx.x; at < p.size; at += THREADS) part[at] = 0;
    int turn = 0;
    for (int row = blockIdx.x; row < p.rows; row += gridDim.x, turn ^= 1) {
        const float *gy = p.grad_output + int64_t(row) * p.size, *x = p.x + int64_t(row) * p.size;
        float2 sums = {0, 0};
        for (int at = threadIdx.x; at < p.size; at += THREADS)
            sums.x += x[at] * x[at], sums.y += gy[at] * p.w[at] * x[at];
        sums = block_sums(sums, turn);
        const float rstd = rsqrtf(sums.x / p.size + p.eps), projection = rstd * rstd * (sums.y / p.size) * rstd;
        for (int at = threadIdx.x; at < p.size; at += THREADS) {
            part[at] += gy[at] * x[at] * rstd;
            p.grad_x[int64_t(row) * p.size + at] = gy[at] * p.w[at] * rstd - x[at] * projection;
        }
    }
}

// grad_w = the sum of the parts. A block owns 32 columns, each of its rows of threads some of the parts.
__global__ void fold_parts(const Norm p, int count) {
    __shared__ float sums[FOLD_ROWS][32];
    const int column = blockIdx.x * 32 + threadIdx.x;
    float sum = 0;
    if (column < p.size) {
#pragma unroll 8
        for (int i = threadIdx.y; i < count; i += FOLD_ROWS) sum += p.parts[int64_t(i) * p.size + column];
    }
    sums[threadIdx.y][threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.y != 0 || column >= p.size) return;
    for (int i = 1; i < FOLD_ROWS; ++i) sum += sums[i][threadIdx.x];
    p.grad_w[column] = sum;
}

int blocks_for(int rows) { return min(rows, BLOCKS_PER_SM * processors()); }

template <int Width>
void launch_rows(const Norm& p, cudaStream_t stream) {
    const int packs = int(parts_of(p.size / Width, THREADS)), blocks = blocks_for(p.rows);
    const auto kernel = packs <= 1   ? grad_rows<Width, 1>
                        : packs <= 2 ? grad_rows<Width, 2>
                        : packs <= 4 ? grad_rows<Width, 4>
                        : packs <= 8 ? grad_rows<Width, 8>
                                     : grad_rows<Width, 16>;
    if (packs <= 16) kernel<<<blocks, THREADS, 0, stream>>>(p);
    else grad_long_rows<<<blocks, THREADS, 0, stream>>>(p);
    if (blocks > 1) fold_parts<<<unsigned(parts_of(p.size, 32)), dim3(32, FOLD_ROWS), 0, stream>>>(p, blocks);
}

}  // namespace

extern "C" int64_t workspace_floats(int rows, int size) { return int64_t(blocks_for(rows)) * size; }

extern "C" int launch(const float* grad_output, const float* x, const float* w, float* grad_x, float* grad_w,
                      float* workspace, int rows, int size, float eps, void* on) {
    const Norm norm = {grad_output, x, w, grad_x, grad_w, workspace, rows, size, eps};
    if (size % WIDTH == 0) launch_rows<WIDTH>(norm, static_cast<cudaStream_t>(on));
    else launch_rows<1>(norm, static_cast<cudaStream_t>(on));
    return cudaGetLastError();
}

// ---- torch --------------------------------------------------------------------------------------------------------

// @include torch.inc@

std::tuple<torch::Tensor, torch::Tensor> backward(torch::Tensor grad_output, torch::Tensor x, torch::Tensor w,
                                                  double eps) {
    grad_output = grad_output.contiguous();
    x = x.contiguous();
    w = w.contiguous();
    const int size = int(w.numel()), rows = int(x.numel() / size);
    auto grad_x = torch::empty(x.sizes(), x.options()), grad_w = torch::empty(w.sizes(), x.options());
    auto workspace = torch::empty({workspace_floats(rows, size)}, x.options());
    check(launch(data(grad_output), data(x), data(w), room(grad_x), room(grad_w), room(workspace), rows, size,
                 float(eps), stream()));
    return {grad_x, grad_w};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
