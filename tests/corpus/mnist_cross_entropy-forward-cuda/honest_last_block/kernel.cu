// Every block adds up its rows; the last one adds up all blocks. A counter on the device tells which one is the last.
// It must pass and be replayed: the counter goes on from call to call and is zero after each.
#include "parts/cross_entropy.cuh"

__device__ unsigned arrived;

__global__ void by_the_last_block(Scores s, double* parts) {
    __shared__ bool is_last;
    const int row = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    const double sum = over_block(row < s.rows ? row_loss(s, row) : 0.0);
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = sum;
        __threadfence();
        is_last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();
    if (!is_last || threadIdx.x >= 32) return;
    __threadfence();
    double all = 0;
    for (int block = threadIdx.x; block < gridDim.x; block += 32) all += ((volatile double*)parts)[block];
    all = over_warp(all);
    if (threadIdx.x == 0) *s.loss = float(all / s.rows);
}

torch::Tensor forward(torch::Tensor predictions, torch::Tensor targets) {
    auto loss = empty_result(predictions);
    const auto s = problem(predictions, targets, loss);
    const int blocks = (s.rows + THREADS / 32 - 1) / (THREADS / 32);
    auto parts = torch::empty({2 * blocks}, predictions.options());
    by_the_last_block<<<blocks, THREADS, 0, current_stream()>>>(s, reinterpret_cast<double*>(parts.data_ptr()));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return loss;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
