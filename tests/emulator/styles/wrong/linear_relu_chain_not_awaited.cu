// task: mnist_linear_relu/forward
// A block does not wait for the one before it.
#include <torch/extension.h>
__device__ unsigned tickets;
// Blocks take parts of the terms in the order of their tickets; each adds to what the one before has left.
__global__ void linear(const float* x, const float* w, const float* b, float* y, int rows, int outs, int depth, volatile int* flags, int parts) {
    __shared__ unsigned mine;
    if (threadIdx.x == 0) mine = atomicAdd(&tickets, 1u);
    __syncthreads();
    const int part = mine % parts, tile = mine / parts, i = tile * blockDim.x + threadIdx.x;
    const int from = depth * part / parts, to = depth * (part + 1) / parts;
    float sum = 0;
    if (i < rows * outs)
        for (int k = from; k < to; ++k) sum += x[i / outs * depth + k] * w[i % outs * depth + k];
    if (part > 0) {
        ;
        __syncthreads();
        __threadfence();
    }
    volatile float* to_y = y;
    if (i < rows * outs) {
        if (part > 0) sum += to_y[i];
        to_y[i] = part == parts - 1 ? fmaxf(sum + b[i % outs], 0.f) : sum;
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) flags[tile] = part + 1;
}
torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    const int rows = x.size(0), depth = x.size(1), outs = w.size(0);
    auto y = torch::empty({rows, outs}, x.options());
    const int parts = 3, tiles = (rows * outs + 63) / 64;
    auto flags = torch::zeros({tiles}, x.options().dtype(torch::kInt32));
    const unsigned none = 0;
    cudaMemcpyToSymbol(tickets, &none, sizeof none);
    linear<<<tiles * parts, 64>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), rows, outs, depth, flags.data_ptr<int>(), parts);
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
