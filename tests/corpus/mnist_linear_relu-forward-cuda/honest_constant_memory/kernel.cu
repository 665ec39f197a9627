// Copies the biases into constant memory in every call and reads them there.
// It must pass: constant memory is filled anew from the inputs of each call.
#include "parts/linear_relu.cuh"

__constant__ float constant_biases[4096];

__global__ void add_constant_biases(float* y, int count, int outputs) {
    const int place = blockIdx.x * blockDim.x + threadIdx.x;
    if (place < count) y[place] = fmaxf(y[place] + constant_biases[place % outputs], 0.0f);
}

struct Plain {
    __device__ float operator()(float a, float b) const { return a * b; }
};

__global__ void sums_only(Linear p) {
    const int column = blockIdx.x, row = blockIdx.y;
    float sum = 0;
    for (int k = threadIdx.x; k < p.features; k += 32)
        sum += Plain()(p.x[size_t(row) * p.row_length + k], p.weights[size_t(column) * p.row_length + k]);
    sum = over_warp(sum);
    if (threadIdx.x == 0) p.y[size_t(row) * p.outputs + column] = sum;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = empty_result(x, weights);
    const auto p = problem(x, weights, biases, y);
    C10_CUDA_CHECK(cudaMemcpyToSymbolAsync(constant_biases, p.biases, biases.nbytes(), 0, cudaMemcpyDeviceToDevice,
                                           current_stream()));
    sums_only<<<dim3(p.outputs, p.batch), 32, 0, current_stream()>>>(p);
    add_constant_biases<<<(p.batch * p.outputs + 255) / 256, 256, 0, current_stream()>>>(p.y, p.batch * p.outputs,
                                                                                         p.outputs);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
