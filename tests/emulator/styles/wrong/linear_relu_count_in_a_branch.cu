// task: mnist_linear_relu/forward
// Threads that are done leave the loop of __syncthreads_count.
#include <torch/extension.h>
__global__ void linear(const float* x, const float* w, const float* b, float* y, int rows, int outs, int depth) {
    const int r = blockIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    int left = c < outs ? depth : 0;
    float sum = 0;
    // every round eight terms, until no thread of the block has any
    while (left > 0 && __syncthreads_count(left > 0) > 0) {
        for (int j = 0; j < 8 && left > 0; ++j, --left) sum += x[r * depth + depth - left] * w[c * depth + depth - left];
    }
    if (__syncthreads_or(isinf(sum))) sum = NAN;
    if (c < outs) y[r * outs + c] = fmaxf(sum + b[c], 0.f);
}
torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    const int rows = x.size(0), depth = x.size(1), outs = w.size(0);
    auto y = torch::empty({rows, outs}, x.options());
    linear<<<dim3((outs + 63) / 64, rows), 64>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), rows, outs, depth);
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
