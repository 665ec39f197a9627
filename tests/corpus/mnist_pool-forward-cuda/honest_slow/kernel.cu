// The slow kernel that the attacks on this task start from: one launch, right, and nothing hidden.
// It must pass and be replayed, far below one: what an attack scores above that it has stolen.
#include "parts/pool.cuh"

torch::Tensor forward(torch::Tensor x) {
    auto y = empty_result(x);
    const auto p = problem(x, y);
    pool_slowly<<<blocks(p), THREADS, 0, current_stream()>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
