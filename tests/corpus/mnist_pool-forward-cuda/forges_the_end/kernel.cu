// Before the work it looks in the memory of the driver for the addresses of timestamps and writes an early end there.
// The trusted kernel writes the true one later; both timestamps are read again, and one that has changed is evidence.
#include "parts/pool.cuh"
#include "parts/stamps.cuh"

torch::Tensor forward(torch::Tensor x) {
    auto y = empty_result(x);
    const auto p = problem(x, y);
    change_the_end(false, current_stream());
    pool_slowly<<<blocks(p), THREADS, 0, current_stream()>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
