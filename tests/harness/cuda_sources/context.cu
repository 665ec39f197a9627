// Uses what the thinnest headers hide: the context of ATen and a type of its C++ interface.
#include <ATen/ATen.h>
#include <ATen/Context.h>
#include <torch/extension.h>

__global__ void copy_kernel(const float* x, float* y, int64_t n) {
    const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (i < n) y[i] = x[i];
}

at::Tensor forward(at::Tensor x) {
    TORCH_CHECK(!at::globalContext().deterministicAlgorithms());
    auto y = at::native::empty_like(x);
    copy_kernel<<<(x.numel() + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), x.numel());
    return y.index({at::indexing::Slice(), at::indexing::Ellipsis});
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward, "copy");
}
