// The second kernel may start as soon as the first one allows it, and waits for it before it reads its sums.
// It must pass and be replayed: an early start is part of the record.
#include "parts/cross_entropy.cuh"
#include "parts/early_launch.cuh"

__global__ void rows_of_blocks(Scores s, double* parts) {
    cudaTriggerProgrammaticLaunchCompletion();
    const int row = blockIdx.x * (THREADS / 32) + threadIdx.x / 32;
    const double sum = over_block(row < s.rows ? row_loss(s, row) : 0.0);
    if (threadIdx.x == 0) parts[blockIdx.x] = sum;
}

__global__ void average(Scores s, const double* parts, int count) {
    cudaGridDependencySynchronize();
    double sum = 0;
    for (int block = threadIdx.x; block < count; block += 32) sum += parts[block];
    sum = over_warp(sum);
    if (threadIdx.x == 0) *s.loss = float(sum / s.rows);
}

torch::Tensor forward(torch::Tensor predictions, torch::Tensor targets) {
    auto loss = empty_result(predictions);
    const auto s = problem(predictions, targets, loss);
    const int blocks = (s.rows + THREADS / 32 - 1) / (THREADS / 32);
    auto parts = torch::empty({2 * blocks}, predictions.options());
    auto* sums = reinterpret_cast<double*>(parts.data_ptr());
    rows_of_blocks<<<blocks, THREADS, 0, current_stream()>>>(s, sums);
    launch_early(average, dim3(1), 32, current_stream(), s, static_cast<const double*>(sums), blocks);
    return loss;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
