// Layer norm over the last three axes: y = (x - mean) / sqrt(var + eps) * weight + bias.
//
// Bound by memory: a row of millions of floats is to be read once and written once, though its mean and variance are
// known only after the last element.
// Work:   two kernels. (1) A block takes a slice of a row, THREADS x PACKS packs, and leaves its mean and the sum of its
//         squared deviations, both exact for the slice (two passes over registers). (2) A block takes a slice, merges
//         the statistics of all slices of the row, in double, and writes. With EARLY it has asked for its part of x
//         before; with REVERSED it begins with the slices that (1) read last, which are still in L2. OVERLAP starts
//         (2) while (1) runs; it waits on the device before it needs the statistics.
// Limits: float32, contiguous. Rows whose length is no multiple of 4 move float by float.
// @genes@
// @include prelude.inc@

namespace {

constexpr int kWarps = THREADS / 32;

struct Norm {
    const float *x, *weight, *bias;
    float* y;
    float2* slices;  // per row and slice: mean, sum of squared deviations
    int rows;
    int64_t size;
    float eps;
    int count;  // slices of a row
};

template <int Width>
constexpr int kSlice = THREADS * PACKS * Width;

template <class T>
__device__ T block_sum(T value) {
    __shared__ T sums[kWarps];
    value = lanes_sum(value);
    __syncthreads();  // the last call's readers are done
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
    __syncthreads();
    T total = 0;
    for (int i = 0; i < kWarps; ++i) total += sums[i];
    return total;
}

// The part of a slice that a thread holds; zeros behind the end of the row.
template <int Width>
struct Part {
    alignas(16) float at[PACKS][Width];
    int64_t first;
    int64_t size;

    __device__ Part(int64_t slice, int64_t size) : first(slice * kSlice<Width> + threadIdx.x * Width), size(size) {}
    __device__ int64_t place(int i) const { return first + int64_t(i) * THREADS * Width; }
    __device__ bool inside(int i) const { return place(i) < size; }
    __device__ void load_from(const float* row) {
#pragma unroll
        for (int i = 0; i < PACKS; ++i) {
#pragma unroll
            for (int e = 0; e < Width; ++e) at[i][e] = 0;
            if (inside(i)) load<Width>(at[i], row + place(i));
        }
    }
};

template <int Width>
__global__ void __launch_bounds__(THREADS) measure_slices(const Norm p) {
    if (OVERLAP) cudaTriggerProgrammaticLaunchCompletion();
    Part<Width> x(blockIdx.x, p.size);
    x.load_from(p.x + blockIdx.y * p.size);
    const float length = float(min(int64_t(kSlice<Width>), p.size - int64_t(blockIdx.x) * kSlice<Width>));
    float sum = 0, squares = 0;
#pragma unroll
    for (int i = 0; i < PACKS * Width; ++i) sum += x.at[i / Width][i % Width];
    const float mean = block_sum(sum) / length;
#pragma unroll
    for (int i = 0; i < PACKS * Width; ++i) {
        const float away = x.inside(i / Width) ? x.at[i / Width][i % Width] - mean : 0.0f;
        squares += away * away;
    }
    squares = block_sum(squares);
    if (threadIdx.x == 0) p.slices[int64_t(blockIdx.y) * p.count + blockIdx.x] = {mean, squares};
}

// Mean and 1 / deviation of a row, in every thread.
template <int Width>
__device__ float2 merged(const Norm& p, int row) {
    const float2* slices = p.slices + int64_t(row) * p.count;
    const double rest = double(p.size - int64_t(p.count - 1) * kSlice<Width>);
    double sum = 0, squares = 0, spread = 0;
    const double pivot = slices[0].x;
    for (int i = threadIdx.x; i < p.count; i += THREADS) {
        const float2 slice = slices[i];
        const double length = i + 1 < p.count ? double(kSlice<Width>) : rest, away = slice.x - pivot;
        sum += length * away;
        spread += length * away * away;
        squares += slice.y;
    }
    const double offset = block_sum(sum) / p.size;
    const double variance = (block_sum(squares) + block_sum(spread)) / p.size - offset * offset;
    return {float(pivot + offset), float(rsqrt(fmax(variance, 0.0) + p.eps))};
}

template <int Width>
__global__ void __launch_bounds__(THREADS) normalise(const Norm p) {
    const int row = REVERSED ? p.rows - 1 - blockIdx.y : blockIdx.y;
    const int64_t slice = REVERSED ? p.count - 1 - int(blockIdx.x) : int(blockIdx.x);
    Part<Width> x(slice, p.size);
    const float* from = p.x + row * p.size;
    if constexpr (EARLY) x.load_from(from);
    if (OVERLAP) cudaGridDependencySynchronize();
    const float2 all = merged<Width>(p, row);
    if constexpr (!EARLY) x.load_from(from);
#pragma unroll
    for (int i = 0; i < PACKS; ++i) {
        if (!x.inside(i)) continue;
        alignas(16) float weight[Width], bias[Width];
        load<Width>(weight, p.weight + x.place(i));
        load<Width>(bias, p.bias + x.place(i));
#pragma unroll
        for (int e = 0; e < Width; ++e) x.at[i][e] = (x.at[i][e] - all.x) * all.y * weight[e] + bias[e];
        store<Width>(p.y + row * p.size + x.place(i), x.at[i]);
    }
}

template <int Width>
void launch_both(Norm p, cudaStream_t stream) {
    p.count = int(parts_of(p.size, kSlice<Width>));
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = OVERLAP;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(p.count, p.rows);
    config.blockDim = dim3(THREADS);
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    measure_slices<Width><<<config.gridDim, THREADS, 0, stream>>>(p);
    cudaLaunchKernelEx(&config, normalise<Width>, p);
}

}  // namespace

extern "C" int64_t workspace_floats(int rows, int size) { return 2 * rows * parts_of(size, kSlice<1>); }

extern "C" int launch(const float* x, const float* weight, const float* bias, float* y, float* workspace, int rows,
                      int size, float eps, void* on) {
    const Norm norm = {x, weight, bias, y, reinterpret_cast<float2*>(workspace), rows, size, eps, 0};
    if (size % 4 == 0 && WIDTH == 4) launch_both<4>(norm, static_cast<cudaStream_t>(on));
    else launch_both<1>(norm, static_cast<cudaStream_t>(on));
    return cudaGetLastError();
}

// ---- torch --------------------------------------------------------------------------------------------------------

// @include torch.inc@

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
    x = x.contiguous();
    weight = weight.contiguous();
    bias = bias.contiguous();
    auto y = torch::empty(x.sizes(), x.options());
    const int size = int(weight.numel()), rows = int(x.numel() / size);
    auto workspace = torch::empty({workspace_floats(rows, size)}, x.options());
    check(launch(data(x), data(weight), data(bias), room(y), room(workspace), rows, size, float(eps), stream()));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
