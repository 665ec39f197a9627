// The slow kernel that the attacks on this task start from: one block, right, and nothing hidden.
// It must pass and be replayed, far below one: what an attack scores above that it has stolen.
#include "parts/cross_entropy.cuh"

torch::Tensor forward(torch::Tensor predictions, torch::Tensor targets) {
    auto loss = empty_result(predictions);
    const auto s = problem(predictions, targets, loss);
    loss_slowly<<<1, ALL_THREADS, 0, current_stream()>>>(s, repeats(s));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return loss;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
