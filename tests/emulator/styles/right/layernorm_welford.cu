// task: layernorm/forward
// One block per sample; Welford statistics merged by shuffles, float4 loads with a scalar tail.
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>
#include <cuda_runtime.h>
#include <torch/extension.h>

namespace {
struct Welford {
    float mean, m2, n;
};
__device__ __forceinline__ Welford combine(Welford a, Welford b) {
    if (b.n == 0.f) return a;
    if (a.n == 0.f) return b;
    const float n = a.n + b.n, d = b.mean - a.mean;
    return {a.mean + d * (b.n / n), a.m2 + b.m2 + d * d * (a.n * b.n / n), n};
}
__device__ __forceinline__ Welford warp_combine(Welford w) {
#pragma unroll
    for (int offset = 16; offset; offset >>= 1) {
        Welford other;
        other.mean = __shfl_down_sync(0xffffffffu, w.mean, offset);
        other.m2 = __shfl_down_sync(0xffffffffu, w.m2, offset);
        other.n = __shfl_down_sync(0xffffffffu, w.n, offset);
        w = combine(w, other);
    }
    return w;
}
template <int BLOCK, bool VEC>
__global__ void __launch_bounds__(BLOCK) ln_kernel(const float* __restrict__ x, const float* __restrict__ g, const float* __restrict__ b,
                                                   float* __restrict__ y, int64_t n, float eps) {
    static_assert(BLOCK % 32 == 0 && BLOCK <= 1024);
    __shared__ Welford parts[BLOCK / 32];
    __shared__ float2 stats;
    const float* row = x + blockIdx.x * n;
    Welford w{0.f, 0.f, 0.f};
    auto push = [&](float v) {
        w.n += 1.f;
        const float d = v - w.mean;
        w.mean += d / w.n;
        w.m2 += d * (v - w.mean);
    };
    int64_t done = 0;
    if constexpr (VEC) {
        const int64_t n4 = n / 4;
        const float4* row4 = reinterpret_cast<const float4*>(row);
        for (int64_t i = threadIdx.x; i < n4; i += BLOCK) {
            const float4 v = __ldg(row4 + i);
            push(v.x), push(v.y), push(v.z), push(v.w);
        }
        done = n4 * 4;
    }
    for (int64_t i = done + threadIdx.x; i < n; i += BLOCK) push(row[i]);
    w = warp_combine(w);
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
    if (lane == 0) parts[warp] = w;
    __syncthreads();
    if (warp == 0) {
        w = lane < BLOCK / 32 ? parts[lane] : Welford{0.f, 0.f, 0.f};
        w = warp_combine(w);
        if (lane == 0) stats = make_float2(w.mean, rsqrtf(w.m2 / w.n + eps));
    }
    __syncthreads();
    const float mean = stats.x, rstd = stats.y;
    for (int64_t i = threadIdx.x; i < n; i += BLOCK) y[blockIdx.x * n + i] = fmaf((row[i] - mean) * rstd, g[i], b[i]);
}
}  // namespace

torch::Tensor forward(torch::Tensor x, torch::Tensor weight, torch::Tensor bias, double eps) {
    TORCH_CHECK(x.is_cuda(), "x must be a CUDA tensor");
    const at::cuda::OptionalCUDAGuard guard(device_of(x));
    auto xc = x.contiguous();
    auto y = torch::empty_like(xc);
    const int64_t n = weight.numel(), rows = xc.numel() / n;
    auto stream = at::cuda::getCurrentCUDAStream();
    if (n % 4 == 0)
        ln_kernel<512, true><<<rows, 512, 0, stream>>>(xc.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), n, static_cast<float>(eps));
    else
        ln_kernel<512, false><<<rows, 512, 0, stream>>>(xc.data_ptr<float>(), weight.data_ptr<float>(), bias.data_ptr<float>(), y.data_ptr<float>(), n, static_cast<float>(eps));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward, "layer norm"); }
