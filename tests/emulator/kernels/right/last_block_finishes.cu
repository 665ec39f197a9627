// The block that is last adds up what all have left.
#include <torch/extension.h>

__device__ unsigned finished;

__global__ void linear(const float* x, const float* w, const float* b, float* y, int rows, int outputs, int depth, float* parts) {
    __shared__ bool last;
    const int count = rows * outputs, share = (depth + gridDim.x - 1) / gridDim.x;
    const int begin = blockIdx.x * share, end = min(begin + share, depth);
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        float sum = 0;
        for (int k = begin; k < end; ++k) sum += x[i / outputs * depth + k] * w[i % outputs * depth + k];
        parts[blockIdx.x * count + i] = sum;
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(&finished, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last) return;
    for (int i = threadIdx.x; i < count; i += blockDim.x) {
        float sum = 0;
        for (int block = 0; block < gridDim.x; ++block) sum += parts[block * count + i];
        y[i] = fmaxf(sum + b[i % outputs], 0.0f);
    }
    if (threadIdx.x == 0) finished = 0;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    const int rows = x.size(0), depth = x.size(1), outputs = w.size(0);
    auto y = torch::empty({rows, outputs}, x.options());
    auto parts = torch::empty({6, rows * outputs}, x.options());
    linear<<<6, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), rows, outputs, depth, parts.data_ptr<float>());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
