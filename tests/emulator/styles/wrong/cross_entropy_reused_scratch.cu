// task: mnist_cross_entropy/backward
// The scratch of the maximum is used again for the sum before every warp has read the maximum.
#include <torch/extension.h>
template <typename Op>
__device__ float reduce(float v, Op op, float* scratch) {
    for (int o = 16; o > 0; o >>= 1) v = op(v, __shfl_xor_sync(0xffffffff, v, o));
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = v;
    __syncthreads();
    v = scratch[0];
    for (int i = 1; i < blockDim.x / 32; ++i) v = op(v, scratch[i]);
    return v;
}
__global__ void grad(const float* go, const float* p, const int64_t* t, float* out, int classes, int batch) {
    __shared__ float scratch[32];
    const float* row = p + (int64_t)blockIdx.x * classes;
    float m = -INFINITY;
    for (int c = threadIdx.x; c < classes; c += blockDim.x) m = fmaxf(m, row[c]);
    m = reduce(m, [](float a, float b) { return fmaxf(a, b); }, scratch);
    float d = 0;
    for (int c = threadIdx.x; c < classes; c += blockDim.x) d += expf(row[c] - m);
    d = reduce(d, [](float a, float b) { return a + b; }, scratch);
    for (int c = threadIdx.x; c < classes; c += blockDim.x)
        out[(int64_t)blockIdx.x * classes + c] = (expf(row[c] - m) / d - (c == t[blockIdx.x] ? 1.f : 0.f)) * *go / batch;
}
torch::Tensor backward(torch::Tensor go, torch::Tensor p, torch::Tensor t) {
    auto out = torch::empty_like(p);
    grad<<<p.size(0), 256>>>(go.data_ptr<float>(), p.data_ptr<float>(), t.data_ptr<int64_t>(), out.data_ptr<float>(), p.size(1), p.size(0));
    return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
