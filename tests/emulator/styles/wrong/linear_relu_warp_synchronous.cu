// task: mnist_linear_relu/forward
// A reduction as before Volta: the last warp goes on without barriers, and without volatile.
#include <torch/extension.h>
__global__ void linear(const float* x, const float* w, const float* b, float* y, int outs, int depth) {
    __shared__ float s[128];
    const int r = blockIdx.x / outs, c = blockIdx.x % outs, t = threadIdx.x;
    float v = 0;
    for (int k = t; k < depth; k += 128) v += x[r * depth + k] * w[c * depth + k];
    s[t] = v;
    __syncthreads();
    if (t < 64) s[t] += s[t + 64];
    __syncthreads();
    if (t < 32) {
        s[t] += s[t + 32];
        s[t] += s[t + 16];
        s[t] += s[t + 8];
        s[t] += s[t + 4];
        s[t] += s[t + 2];
        s[t] += s[t + 1];
    }
    if (t == 0) y[blockIdx.x] = fmaxf(s[0] + b[c], 0.f);
}
torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    auto y = torch::empty({x.size(0), w.size(0)}, x.options());
    linear<<<y.numel(), 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), w.size(0), x.size(1));
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
