// Uses the C++ front end, which only the stock header has.
#include <torch/extension.h>

__global__ void scale(float* y, float by, int64_t n) {
    const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (i < n) y[i] *= by;
}

torch::Tensor forward(torch::Tensor x) {
    torch::NoGradGuard no_grad;
    auto y = torch::nn::functional::gelu(x).contiguous();
    scale<<<(y.numel() + 255) / 256, 256>>>(y.data_ptr<float>(), 2.0f, y.numel());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "gelu, doubled");
}
