// Python objects as arguments and results, and a pointer that carries a float4 along.
#include <pybind11/pybind11.h>
#include <torch/extension.h>

__global__ void pool_backward(const float4* grad, float4* result, int64_t n, float share) {
    const int64_t i = blockIdx.x * static_cast<int64_t>(blockDim.x) + threadIdx.x;
    if (i < n) result[i] = make_float4(grad[i].x * share, grad[i].y * share, grad[i].z * share, grad[i].w * share);
}

torch::Tensor backward(py::tuple inputs, torch::Tensor grad_output, py::object shape) {
    if (inputs.size() != 1) throw py::value_error("expected one tensor");
    auto x = inputs[0].cast<torch::Tensor>();
    const auto sizes = shape.cast<std::vector<int64_t>>();
    TORCH_CHECK(static_cast<int64_t>(sizes.size()) <= x.dim());
    auto result = at::empty_like(x, at::MemoryFormat::Contiguous);
    pool_backward<<<1, 128>>>(reinterpret_cast<const float4*>(grad_output.data_ptr()),
                              reinterpret_cast<float4*>(result.data_ptr()), grad_output.numel() / 4, 0.25f);
    return result;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("backward", &backward, py::arg("inputs"), py::arg("grad_output"), py::arg("shape"));
    m.def("about", []() { return py::str("mean pooling"); });
}
