// No kernel of its own: operators of torch, through functions and methods, and a kernel only for the end.
#include <torch/extension.h>
#include <c10/util/Optional.h>

__global__ void add_relu(float* y, const float* bias, int64_t rows, int64_t columns) {
    const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (i < rows * columns) y[i] = fmaxf(y[i] + bias[i % columns], 0.0f);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, c10::optional<torch::Tensor> biases) {
    if (!biases.has_value()) return at::relu(at::linear(x, weights));
    auto flat = x.reshape({-1, x.size(-1)});
    auto y = torch::matmul(flat, weights.t()).contiguous();
    add_relu<<<(y.numel() + 255) / 256, 256>>>(y.mutable_data_ptr<float>(), biases->const_data_ptr<float>(), y.size(0),
                                               y.size(1));
    auto sizes = x.sizes().vec();
    sizes.back() = weights.size(0);
    return y.view(sizes);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "linear, relu");
}
