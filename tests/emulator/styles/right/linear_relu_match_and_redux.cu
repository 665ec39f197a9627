// task: mnist_linear_relu/forward
// __match_any_sync and __reduce_max_sync among the lanes of a row.
#include <torch/extension.h>
__global__ void linear(const float* x, const float* w, const float* b, float* y, int rows, int outs, int depth) {
    // lanes with the same row share the largest absolute value of it, which they find together
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const bool inside = i < rows * outs;
    const int r = inside ? i / outs : -1, c = inside ? i % outs : 0;
    const unsigned peers = __match_any_sync(~0u, r);
    unsigned scale = 0;
    float sum = 0;
    if (r >= 0) {
        const int rank = __popc(peers & ((1u << threadIdx.x % 32) - 1)), count = __popc(peers);
        for (int k = rank; k < depth; k += count) scale = max(scale, __float_as_uint(fabsf(x[r * depth + k])));
        scale = __reduce_max_sync(peers, scale);
        const float s = scale == 0 ? 1.f : __uint_as_float(scale);
        for (int k = 0; k < depth; ++k) sum += x[r * depth + k] / s * w[c * depth + k];
        y[i] = fmaxf(sum * s + b[c], 0.f);
    }
}
torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    const int rows = x.size(0), depth = x.size(1), outs = w.size(0);
    auto y = torch::empty({rows, outs}, x.options());
    linear<<<(rows * outs + 63) / 64, 64>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), rows, outs, depth);
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
