// Softmax over the last axis in bfloat16.
//
// Bound by memory: x is read once, y is written once.
// Work:     a team has a row: 32 threads up to 1024 columns, four rows to a block, else a block of 128. The row stays in
//           registers, as bfloat16, while its maximum and then its sum are found; exponentials are computed twice, which
//           costs less than the registers to keep them.
// Dispatch: rows whose length is a multiple of 8 are read 16 bytes at a time, others one value at a time, because their
//           starts are not aligned. The number of packs per thread is a template argument, up to 32. Longer rows are
//           read three times.
// Numerics: float32 throughout, rounded once at the end.
// Limits:   bfloat16, contiguous; a single row uses one block. Not measured yet.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_bf16.h>
#include <torch/extension.h>

namespace {

constexpr int kThreads = 128;
constexpr float kLowest = -INFINITY;

// Eight values or one, as they lie in memory.
using Vector = uint4;
using Single = unsigned short;
template <typename Pack>
constexpr int kWidth = int(sizeof(Pack) / 2);

__device__ void widen(Vector v, float (&to)[8]) {
    const unsigned words[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
    for (int i = 0; i < 4; ++i) {
        to[2 * i] = __uint_as_float(words[i] << 16);
        to[2 * i + 1] = __uint_as_float(words[i] & 0xffff0000u);
    }
}
__device__ void widen(Single v, float (&to)[1]) { to[0] = __uint_as_float(unsigned(v) << 16); }

__device__ unsigned rounded(float low, float high) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return reinterpret_cast<const unsigned&>(both);
}
__device__ Vector narrowed(const float (&v)[8]) {
    return {rounded(v[0], v[1]), rounded(v[2], v[3]), rounded(v[4], v[5]), rounded(v[6], v[7])};
}
__device__ Single narrowed(const float (&v)[1]) { return Single(rounded(v[0], 0.0f)); }

struct Largest {
    static constexpr float kNone = kLowest;
    static __device__ float of(float a, float b) { return fmaxf(a, b); }
};
struct Sum {
    static constexpr float kNone = 0;
    static __device__ float of(float a, float b) { return a + b; }
};

// v of all threads of a team, in each of them. Called once for each kind: its buffer is not protected against reuse.
template <typename Kind, int kTeam>
__device__ float of_team(float v) {
    for (int offset = 16; offset > 0; offset /= 2) v = Kind::of(v, __shfl_xor_sync(0xffffffff, v, offset));
    if constexpr (kTeam == 32) return v;
    __shared__ float parts[kTeam / 32];
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = v;
    __syncthreads();
    v = Kind::kNone;
    for (int i = 0; i < kTeam / 32; ++i) v = Kind::of(v, parts[i]);
    return v;
}

template <typename Pack>
__device__ float largest_of(Pack pack) {
    float v[kWidth<Pack>], most = kLowest;
    widen(pack, v);
#pragma unroll
    for (int i = 0; i < kWidth<Pack>; ++i) most = fmaxf(most, v[i]);
    return most;
}

template <typename Pack>
__device__ float sum_of(Pack pack, float most) {
    float v[kWidth<Pack>], sum = 0;
    widen(pack, v);
#pragma unroll
    for (int i = 0; i < kWidth<Pack>; ++i) sum += __expf(v[i] - most);
    return sum;
}

template <typename Pack>
__device__ Pack results_of(Pack pack, float most, float factor) {
    float v[kWidth<Pack>];
    widen(pack, v);
#pragma unroll
    for (int i = 0; i < kWidth<Pack>; ++i) v[i] = __expf(v[i] - most) * factor;
    return narrowed(v);
}

// Visits the packs of a row: those that a thread keeps in registers, or all of them again where kPacks is 0.
template <typename Pack, int kTeam, int kPacks>
struct Row {
    const Pack* from;
    int packs;
    Pack kept[kPacks > 0 ? kPacks : 1];

    __device__ Row(const Pack* from, int packs) : from(from), packs(packs) {
#pragma unroll
        for (int i = 0; i < kPacks; ++i) {
            const int at = threadIdx.x % kTeam + i * kTeam;
            kept[i] = at < packs ? from[at] : Pack{};
        }
    }
    template <typename Visit>
    __device__ void each(Visit visit) const {
        if constexpr (kPacks > 0) {
#pragma unroll
            for (int i = 0; i < kPacks; ++i) {
                const int at = threadIdx.x % kTeam + i * kTeam;
                if (at < packs) visit(at, kept[i]);
            }
        } else {
#pragma unroll 8
            for (int at = threadIdx.x % kTeam; at < packs; at += kTeam) visit(at, from[at]);
        }
    }
};

template <typename Pack, int kTeam, int kPacks>
__global__ void __launch_bounds__(kThreads)
    softmax(const Pack* __restrict__ x, Pack* __restrict__ y, int64_t rows, int packs) {
    const int64_t number = int64_t(blockIdx.x) * (kThreads / kTeam) + threadIdx.x / kTeam;
    if (number >= rows) return;  // a whole team
    const Row<Pack, kTeam, kPacks> row(x + number * packs, packs);
    float most = kLowest, sum = 0;
    row.each([&](int, Pack pack) { most = fmaxf(most, largest_of(pack)); });
    most = of_team<Largest, kTeam>(most);
    row.each([&](int, Pack pack) { sum += sum_of(pack, most); });
    sum = of_team<Sum, kTeam>(sum);
    Pack* out = y + number * packs;
    row.each([&](int at, Pack pack) { out[at] = results_of(pack, most, 1 / sum); });
}

template <typename Pack, int kTeam>
void launch(const void* x, void* y, int64_t rows, int packs) {
    const int each = (packs + kTeam - 1) / kTeam;
    const auto kernel = each <= 1    ? softmax<Pack, kTeam, 1>
                        : each <= 2  ? softmax<Pack, kTeam, 2>
                        : each <= 4  ? softmax<Pack, kTeam, 4>
                        : each <= 8  ? softmax<Pack, kTeam, 8>
                        : each <= 16 ? softmax<Pack, kTeam, 16>
                        : each <= 32 ? softmax<Pack, kTeam, 32>
                                     : softmax<Pack, kTeam, 0>;
    constexpr int kTogether = kThreads / kTeam;
    kernel<<<unsigned((rows + kTogether - 1) / kTogether), kThreads, 0, c10::cuda::getCurrentCUDAStream()>>>(
        static_cast<const Pack*>(x), static_cast<Pack*>(y), rows, packs);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

template <typename Pack>
void launch_teams(const void* x, void* y, int64_t rows, int columns) {
    const auto run = columns <= 1024 ? launch<Pack, 32> : launch<Pack, kThreads>;
    run(x, y, rows, columns / kWidth<Pack>);
}

}  // namespace

torch::Tensor forward(torch::Tensor x) {
    x = x.contiguous();
    const int64_t columns = x.size(-1), rows = x.numel() / columns;
    auto y = torch::empty(x.sizes(), x.options());
    const bool aligned = reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 16 == 0;
    const auto run = columns % 8 == 0 && aligned ? launch_teams<Vector> : launch_teams<Single>;
    run(x.const_data_ptr(), y.mutable_data_ptr(), rows, int(columns));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
