// task: mnist_cross_entropy/forward
// Online softmax, a tile of 32 threads per row, cooperative groups; a second kernel adds the losses.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <torch/extension.h>
namespace cg = cooperative_groups;

struct MD {
    float m, d;
};

__global__ void row_losses(const float* __restrict__ p, const int64_t* __restrict__ t, double* losses, int rows, int classes) {
    auto block = cg::this_thread_block();
    auto tile = cg::tiled_partition<32>(block);
    const int row = blockIdx.x * tile.meta_group_size() + tile.meta_group_rank();
    if (row >= rows) return;
    const float* r = p + static_cast<size_t>(row) * classes;
    MD s{-INFINITY, 0.f};
    for (int c = tile.thread_rank(); c < classes; c += tile.size()) {
        const float v = r[c];
        if (v > s.m) s.d = s.d * __expf(s.m - v) + 1.f, s.m = v;
        else s.d += __expf(v - s.m);
    }
    const float m = cg::reduce(tile, s.m, cg::greater<float>());
    const float d = cg::reduce(tile, s.d == 0.f ? 0.f : s.d * __expf(s.m - m), cg::plus<float>());
    if (tile.thread_rank() == 0) losses[row] = double(m) + log(double(d)) - r[t[row]];
}

__global__ void mean_of(const double* losses, float* out, int rows) {
    __shared__ double shared[256];
    double sum = 0.0;
    for (int i = threadIdx.x; i < rows; i += blockDim.x) sum += losses[i];
    shared[threadIdx.x] = sum;
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) shared[threadIdx.x] += shared[threadIdx.x + half];
    }
    if (threadIdx.x == 0) *out = static_cast<float>(shared[0] / rows);
}

torch::Tensor forward(torch::Tensor predictions, torch::Tensor targets) {
    const int rows = predictions.size(0), classes = predictions.size(1);
    auto losses = torch::empty({rows}, predictions.options().dtype(torch::kFloat64));
    auto out = torch::empty({}, predictions.options());
    constexpr int threads = 128;
    const dim3 grid((rows + threads / 32 - 1) / (threads / 32));
    row_losses<<<grid, threads>>>(predictions.data_ptr<float>(), targets.data_ptr<int64_t>(), losses.data_ptr<double>(), rows, classes);
    mean_of<<<1, 256>>>(losses.data_ptr<double>(), out.data_ptr<float>(), rows);
    return out;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
