// Calls cuBLAS with torch's own handle, then adds the bias in a kernel.
// It must pass; cuBLAS itself is there because torch has loaded it.
#include <torch/extension.h>

#include <ATen/cuda/CUDAContext.h>
#include <cublas_v2.h>

__global__ void add_bias_relu(float* y, const float* biases, int count, int outputs) {
    const int place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place < count) y[place] = fmaxf(y[place] + biases[place % outputs], 0.0f);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    const int batch = int(x.size(0)), features = int(x.size(1)), outputs = int(weights.size(0));
    auto y = torch::empty({batch, outputs}, x.options());
    const float one = 1, zero = 0;
    const auto status = cublasSgemm(at::cuda::getCurrentCUDABlasHandle(), CUBLAS_OP_T, CUBLAS_OP_N, outputs, batch,
                                    features, &one, weights.data_ptr<float>(), features, x.data_ptr<float>(), features,
                                    &zero, y.data_ptr<float>(), outputs);
    TORCH_CHECK(status == CUBLAS_STATUS_SUCCESS, "cuBLAS said ", int(status));
    const int count = batch * outputs;
    add_bias_relu<<<(count + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        y.data_ptr<float>(), biases.data_ptr<float>(), count, outputs);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
