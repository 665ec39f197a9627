// task: mnist_linear_relu/forward
// The last warp of a block to arrive at a counter adds the parts of all; a lock guards a second sum.
#include <torch/extension.h>
__global__ void linear(const float* x, const float* w, const float* b, float* y, int outs, int depth) {
    __shared__ float parts[4], locked;
    __shared__ unsigned arrived;
    __shared__ int lock;
    const int r = blockIdx.x / outs, c = blockIdx.x % outs, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (threadIdx.x == 0) arrived = 0, lock = 0, locked = 0.f;
    __syncthreads();
    float s = 0;
    for (int k = threadIdx.x; k < depth; k += 128) s += x[r * depth + k] * w[c * depth + k];
    for (int o = 16; o > 0; o >>= 1) s += __shfl_xor_sync(0xffffffff, s, o);
    if (lane == 0) {
        parts[warp] = s;
        while (atomicCAS(&lock, 0, 1) != 0) {
        }
        __threadfence_block();
        locked += s;
        __threadfence_block();
        atomicExch(&lock, 0);
        __threadfence_block();
        if (atomicAdd(&arrived, 1u) == 3) {
            __threadfence_block();
            const float sum = parts[0] + parts[1] + parts[2] + parts[3];
            y[blockIdx.x] = fmaxf((sum + locked) * 0.5f + b[c], 0.f);
        }
    }
}
torch::Tensor forward(torch::Tensor x, torch::Tensor w, torch::Tensor b) {
    auto y = torch::empty({x.size(0), w.size(0)}, x.options());
    linear<<<y.numel(), 128>>>(x.data_ptr<float>(), w.data_ptr<float>(), b.data_ptr<float>(), y.data_ptr<float>(), w.size(0), x.size(1));
    return y;
}
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
