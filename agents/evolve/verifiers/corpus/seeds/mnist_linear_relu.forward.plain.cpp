#include <torch/extension.h>

at::Tensor linear_relu(const at::Tensor& x, const at::Tensor& weights, const at::Tensor& biases) {
    const auto input = x.contiguous();
    const int64_t rows = input.size(0), depth = input.size(1), outputs = weights.size(0);
    at::Tensor y = at::empty({rows, outputs}, input.options());
    const float *px = input.data_ptr<float>(), *pw = weights.data_ptr<float>(), *pb = biases.data_ptr<float>();
    float* py = y.data_ptr<float>();
    at::parallel_for(0, outputs, 4, [&](int64_t begin, int64_t end) {
        for (int64_t o = begin; o < end; ++o) {
            for (int64_t i = 0; i < rows; ++i) {
                double sum = pb[o];
                for (int64_t k = 0; k < depth; ++k) sum += double(px[i * depth + k]) * pw[o * depth + k];
                py[i * outputs + o] = sum > 0 ? float(sum) : 0.0f;
            }
        }
    });
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &linear_relu, "linear layer with relu");
}
