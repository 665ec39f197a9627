// task: mnist_linear_relu/forward
// Sums of floats by a loop of atomicCAS.
#include <torch/extension.h>
__device__ void add(float* to, float v) {
    int* place = reinterpret_cast<int*>(to);
    int old = *place, assumed;
    do {
        assumed = old;
        old = atomicCAS(place, assumed, __float_as_int(__int_as_float(assumed) + v));
    } while (old != assumed);
}
__global__ void parts(const float* x, const float* w, const float* b, float* y, int rows, int outs, int depth) {
    const int c = blockIdx.x, r = blockIdx.y;
    float sum = 0;
    for (int k = threadIdx.x; k < depth; k += blockDim.x) sum += x[r * depth + k] * w[c * depth + k];
    add(&y[r * outs + c], sum);
}
__global__ void finish(const float* b, float* y, int rows, int outs) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < rows * outs; i += gridDim.x * blockDim.x) y[i] = fmaxf(y[i] + b[i % outs], 0.f);
}
torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    const int rows = x.size(0), depth = x.size(1), outs = w.size(0);
    auto y = torch::zeros({rows, outs}, x.options());
    parts<<<dim3(outs, rows), 32>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), rows, outs, depth);
    finish<<<8, 64>>>(b.data_ptr<float>(), y.data_ptr<float>(), rows, outs);
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
