// One cooperative launch: blocks write partial sums, the whole grid synchronises, then the parts are added up.
// It must pass.
#include "parts/linear_relu.cuh"

#include <cooperative_groups.h>

#include <algorithm>

constexpr int SPLITS = 4;

__global__ void in_two_phases(Linear p, float* parts) {
    const int count = p.batch * p.outputs, length = (p.features + SPLITS - 1) / SPLITS;
    const int lane = threadIdx.x % 32, warps = gridDim.x * (blockDim.x / 32);
    for (int job = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32; job < count * SPLITS; job += warps) {
        const int place = job / SPLITS, first = job % SPLITS * length;
        const float* x = p.x + size_t(place / p.outputs) * p.row_length;
        const float* weights = p.weights + size_t(place % p.outputs) * p.row_length;
        float sum = 0;
        for (int k = first + lane; k < min(first + length, p.features); k += 32) sum += x[k] * weights[k];
        sum = over_warp(sum);
        if (lane == 0) parts[job] = sum;
    }
    cooperative_groups::this_grid().sync();
    for (int place = blockIdx.x * blockDim.x + threadIdx.x; place < count; place += gridDim.x * blockDim.x) {
        float sum = p.biases[place % p.outputs];
        for (int split = 0; split < SPLITS; ++split) sum += parts[place * SPLITS + split];
        p.y[place] = fmaxf(sum, 0.0f);
    }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = empty_result(x, weights);
    auto parts = torch::empty({y.numel() * SPLITS}, x.options());
    auto p = problem(x, weights, biases, y);
    float* scratch = parts.data_ptr<float>();
    int processors = 0;
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, 0));
    void* arguments[] = {&p, &scratch};
    C10_CUDA_CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(&in_two_phases), dim3(processors),
                                               dim3(256), arguments, 0, current_stream()));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
