// task: mnist_cross_entropy/forward
// A barrier in a loop whose rounds depend on the thread.
#include <torch/extension.h>
__global__ void losses(const float* p, const int64_t* t, float* out, int rows, int classes) {
    __shared__ float sums[256];
    float own = 0;
    for (int row = threadIdx.x; row < rows; row += blockDim.x) {
        const float* r = p + row * classes;
        float m = r[0], s = 0;
        for (int c = 1; c < classes; ++c) m = fmaxf(m, r[c]);
        for (int c = 0; c < classes; ++c) s += expf(r[c] - m);
        own += m + logf(s) - r[t[row]];
        __syncthreads();
    }
    sums[threadIdx.x] = own;
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int i = 1; i < 256; ++i) own += sums[i];
        *out = own / rows;
    }
}
torch::Tensor forward(torch::Tensor p, torch::Tensor t) {
    auto out = torch::empty({}, p.options());
    losses<<<1, 256>>>(p.data_ptr<float>(), t.data_ptr<int64_t>(), out.data_ptr<float>(), p.size(0), p.size(1));
    return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
