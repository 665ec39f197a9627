// RMS norm over the last axis: y = x / sqrt(mean(x^2) + eps) * w.
//
// Bound by memory: x is read once, y is written once; w stays in the caches.
// Work:   ROW_THREADS threads take a row, ROWS rows stand side by side in a block. KEEP registers: the row stays in
//         registers between its sum of squares and its scaling; KEEP caches: it is read a second time. BLOCKS_PER_SM 0:
//         a block per group of rows; else so many blocks per processor walk over the rows, and with AHEAD the next row
//         is on its way while one is reduced. WEIGHTS early: w is asked for together with the row.
// Limits: float32, contiguous. Rows that WIDTH does not divide move float by float; what does not fit 32 packs per
//         thread is read twice.
// @genes@
// @include prelude.inc@

namespace {

constexpr int kThreads = ROW_THREADS * ROWS, kWarps = ROW_THREADS / 32;

struct Norm {
    const float *x, *w;
    float* y;
    int rows, size;
    float eps;
};

// The sum over the threads of a row, in all of them. Calls that follow each other use different buffers.
__device__ float row_sum(float value, int turn) {
    value = lanes_sum(value);
    if constexpr (kWarps > 1) {
        __shared__ float sums[2][ROWS][kWarps];
        float* own = sums[turn][threadIdx.x / ROW_THREADS];
        if (threadIdx.x % 32 == 0) own[threadIdx.x % ROW_THREADS / 32] = value;
        __syncthreads();
        value = 0;
        for (int i = 0; i < kWarps; ++i) value += own[i];
    }
    return value;
}

template <int Width, int Packs>
struct Row {
    alignas(16) float at[Packs][Width];

    __device__ static int pack(int i) { return threadIdx.x % ROW_THREADS + i * ROW_THREADS; }

    __device__ void load_from(const float* from, int packs) {
#pragma unroll
        for (int i = 0; i < Packs; ++i) {
#pragma unroll
            for (int e = 0; e < Width; ++e) at[i][e] = 0;
            if (pack(i) < packs) load<Width>(at[i], from + pack(i) * Width);
        }
    }
    __device__ float squares() const {
        float sum = 0;
#pragma unroll
        for (int i = 0; i < Packs * Width; ++i) sum += at[i / Width][i % Width] * at[i / Width][i % Width];
        return sum;
    }
};

template <int Width, int Packs>
__device__ void write_row(const Norm& p, int64_t row, const Row<Width, Packs>& x, const Row<Width, Packs>& w,
                          float scale) {
    const int packs = p.size / Width;
#pragma unroll
    for (int i = 0; i < Packs; ++i) {
        const int pack = x.pack(i);
        if (pack >= packs) continue;
        alignas(16) float values[Width], weights[Width];
        for (int e = 0; e < Width; ++e) values[e] = x.at[i][e], weights[e] = w.at[i][e];
        if constexpr (KEEP == KEEP_CACHES) load<Width>(values, p.x + row * p.size + pack * Width);
        if constexpr (WEIGHTS == WEIGHTS_LATE) load<Width>(weights, p.w + pack * Width);
#pragma unroll
        for (int e = 0; e < Width; ++e) values[e] = values[e] * scale * weights[e];
        store<Width>(p.y + row * p.size + pack * Width, values);
    }
}

template <int Width, int Packs>
__global__ void __launch_bounds__(kThreads, MIN_BLOCKS) normalise(const Norm p) {
    const int packs = p.size / Width, step = gridDim.x * ROWS;
    int64_t row = int64_t(blockIdx.x) * ROWS + threadIdx.x / ROW_THREADS;
    Row<Width, Packs> x, w, next;
    if constexpr (AHEAD) next.load_from(p.x + min(row, int64_t(p.rows - 1)) * p.size, packs);
    if constexpr (WEIGHTS == WEIGHTS_EARLY) w.load_from(p.w, packs);
    for (int turn = 0; row - threadIdx.x / ROW_THREADS < p.rows; row += step, turn ^= 1) {
        const int64_t valid = min(row, int64_t(p.rows - 1));
        if constexpr (AHEAD) {
            x = next;
            if (row + step < p.rows) next.load_from(p.x + (row + step) * p.size, packs);
        } else {
            x.load_from(p.x + valid * p.size, packs);
        }
        const float scale = rsqrtf(row_sum(x.squares(), turn) / p.size + p.eps);
        if (row < p.rows) write_row(p, row, x, w, scale);
    }
}

__global__ void __launch_bounds__(kThreads) normalise_long(const Norm p) {
    const int64_t row = int64_t(blockIdx.x) * ROWS + threadIdx.x / ROW_THREADS;
    const int64_t start = min(row, int64_t(p.rows - 1)) * p.size;
    float sum = 0;
    for (int at = threadIdx.x % ROW_THREADS; at < p.size; at += ROW_THREADS) sum += p.x[start + at] * p.x[start + at];
    const float scale = rsqrtf(row_sum(sum, 0) / p.size + p.eps);
    for (int at = threadIdx.x % ROW_THREADS; at < p.size && row < p.rows; at += ROW_THREADS)
        p.y[start + at] = p.x[start + at] * scale * p.w[at];
}

template <int Width>
void launch_rows(const Norm& p, cudaStream_t stream) {
    const int packs = int(parts_of(p.size / Width, ROW_THREADS)), groups = int(parts_of(p.rows, ROWS));
    const int blocks = BLOCKS_PER_SM ? min(groups, BLOCKS_PER_SM * processors()) : groups;
    const auto kernel = packs <= 1    ? normalise<Width, 1>
                        : packs <= 2  ? normalise<Width, 2>
                        : packs <= 4  ? normalise<Width, 4>
                        : packs <= 8  ? normalise<Width, 8>
                        : packs <= 16 ? normalise<Width, 16>
                                      : normalise<Width, 32>;
    if (packs <= 32) kernel<<<blocks, kThreads, 0, stream>>>(p);
    else normalise_long<<<groups, kThreads, 0, stream>>>(p);
}

}  // namespace

extern "C" int64_t workspace_floats(int, int) { return 0; }

extern "C" int launch(const float* x, const float* w, float* y, float*, int rows, int size, float eps, void* on) {
    const Norm problem = {x, w, y, rows, size, eps};
    if (size % WIDTH == 0) launch_rows<WIDTH>(problem, static_cast<cudaStream_t>(on));
    else launch_rows<1>(problem, static_cast<cudaStream_t>(on));
    return cudaGetLastError();
}

// ---- torch --------------------------------------------------------------------------------------------------------

// @include torch.inc@

torch::Tensor forward(torch::Tensor x, torch::Tensor w, double eps) {
    x = x.contiguous();
    w = w.contiguous();
    auto y = torch::empty(x.sizes(), x.options());
    const int64_t size = w.numel();
    if (x.numel() > 0)
        check(launch(data(x), data(w), room(y), nullptr, int(x.numel() / size), int(size), float(eps), stream()));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
