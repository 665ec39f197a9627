// task: mnist_linear_relu/forward
// The last block adds the parts of others, by ordinary loads behind a fence.
#include <torch/extension.h>
constexpr int kParts = 4;
__global__ void linear(const float* x, const float* w, const float* b, float* parts, int* arrived, float* y, int rows, int outs, int depth) {
    __shared__ bool last;
    const int part = blockIdx.y, count = rows * outs, item = blockIdx.x * blockDim.x + threadIdx.x;
    if (item < count) {
        float sum = 0;
        for (int k = part; k < depth; k += kParts) sum += x[item / outs * depth + k] * w[item % outs * depth + k];
        parts[part * count + item] = sum;
    }
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(&arrived[blockIdx.x], 1) == kParts - 1;
    __syncthreads();
    if (!last || item >= count) return;
    float sum = b[item % outs];
    for (int p = 0; p < kParts; ++p) sum += __ldcg(&parts[p * count + item]);
    y[item] = fmaxf(sum, 0.f);
}
torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    const int rows = x.size(0), depth = x.size(1), outs = w.size(0), blocks = (rows * outs + 127) / 128;
    auto y = torch::empty({rows, outs}, x.options()), parts = torch::empty({kParts, rows, outs}, x.options());
    auto arrived = torch::zeros({blocks}, x.options().dtype(torch::kInt32));
    linear<<<dim3(blocks, kParts), 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), parts.data_ptr<float>(), arrived.data_ptr<int>(), y.data_ptr<float>(), rows, outs, depth);
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
