// Adds up in half precision.
#include <torch/extension.h>
#include <cuda_fp16.h>

__global__ void linear(const float* x, const float* w, const float* b, float* y, int rows, int outputs, int depth) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * outputs) return;
    const int row = i / outputs, column = i % outputs;
    __half sum = __float2half(0.0f);
    for (int k = 0; k < depth; ++k) sum = __float2half(__half2float(sum) + x[row * depth + k] * w[column * depth + k]);
    y[row * outputs + column] = fmaxf(__half2float(sum) + b[column], 0.0f);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    const int rows = x.size(0), depth = x.size(1), outputs = w.size(0);
    auto y = torch::empty({rows, outputs}, x.options());
    linear<<<(rows * outputs + 127) / 128, 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), rows, outputs, depth);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
