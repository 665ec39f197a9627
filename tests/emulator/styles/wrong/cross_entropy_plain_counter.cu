// task: mnist_cross_entropy/forward
// The mean is read by each block as soon as it has added its own share.
#include <torch/extension.h>
__global__ void losses(const float* p, const int64_t* t, float* total, float* out, int rows, int classes) {
    const int row = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= rows) return;
    const float* r = p + row * classes;
    float m = r[0], s = 0;
    for (int c = 1; c < classes; ++c) m = fmaxf(m, r[c]);
    for (int c = 0; c < classes; ++c) s += expf(r[c] - m);
    atomicAdd(total, (m + logf(s) - r[t[row]]) / rows);
    *out = *total;
}
torch::Tensor forward(torch::Tensor p, torch::Tensor t) {
    auto total = torch::zeros({1}, p.options());
    auto out = torch::empty({}, p.options());
    losses<<<(p.size(0) + 63) / 64, 64>>>(p.data_ptr<float>(), t.data_ptr<int64_t>(), total.data_ptr<float>(), out.data_ptr<float>(), p.size(0), p.size(1));
    return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
