// 3x3 convolution, relu and 2x2 max pooling with the weights in constant memory.
#include <ATen/cuda/CUDAContext.h>
#include <torch/extension.h>

#define CHECK_CUDA(x) TORCH_CHECK(x.device().is_cuda(), #x " must be a CUDA tensor")
#define CHECK_CONTIGUOUS(x) TORCH_CHECK(x.is_contiguous(), #x " must be contiguous")
#define CHECK_INPUT(x) CHECK_CUDA(x); CHECK_CONTIGUOUS(x)

constexpr int MAX_WEIGHTS = 8192;
__constant__ float c_weights[MAX_WEIGHTS];

template <typename T>
struct Window {
    T best = T(0);
    __device__ void see(T value) { best = value > best ? value : best; }
};

__global__ void conv_relu_pool_kernel(const float* __restrict__ x, const float* __restrict__ bias,
                                      float* __restrict__ y, int in_channels, int out_channels, int height, int width) {
    const int pooled_h = (height - 2) / 2, pooled_w = (width - 2) / 2;
    const int col = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y * blockDim.y + threadIdx.y;
    const int image = blockIdx.z / out_channels, channel = blockIdx.z % out_channels;
    if (col >= pooled_w || row >= pooled_h) return;
    Window<float> window;
    for (int p = 0; p < 4; ++p) {
        const int top = 2 * row + p / 2, left = 2 * col + p % 2;
        float sum = bias[channel];
        for (int c = 0; c < in_channels; ++c)
#pragma unroll
            for (int k = 0; k < 9; ++k)
                sum += x[((image * in_channels + c) * height + top + k / 3) * width + left + k % 3] *
                       c_weights[(channel * in_channels + c) * 9 + k];
        window.see(sum);
    }
    y[((image * out_channels + channel) * pooled_h + row) * pooled_w + col] = window.best;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    CHECK_INPUT(x);
    CHECK_INPUT(weights);
    CHECK_INPUT(biases);
    TORCH_CHECK(weights.numel() <= MAX_WEIGHTS, "too many weights");
    cudaStream_t stream = at::cuda::getCurrentCUDAStream().stream();
    AT_CUDA_CHECK(cudaMemcpyToSymbolAsync(c_weights, weights.data_ptr<float>(), weights.numel() * sizeof(float), 0,
                                          cudaMemcpyDeviceToDevice, stream));
    const auto batch = x.size(0), out_channels = weights.size(0), height = x.size(2), width = x.size(3);
    auto y = torch::empty({batch, out_channels, (height - 2) / 2, (width - 2) / 2}, x.options());
    const dim3 threads(16, 16), blocks((y.size(3) + 15) / 16, (y.size(2) + 15) / 16, batch * out_channels);
    conv_relu_pool_kernel<<<blocks, threads, 0, stream>>>(x.data_ptr<float>(), biases.data_ptr<float>(),
                                                          y.data_ptr<float>(), x.size(1), out_channels, height, width);
    AT_CUDA_CHECK(cudaGetLastError());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "convolution, relu, pooling");
}
