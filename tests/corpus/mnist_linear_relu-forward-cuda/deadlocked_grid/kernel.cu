// Every block waits for a neighbour, and there are more blocks than the GPU can hold at once.
// The call runs out of time, and nothing of the process may be left on the GPU.
#include "parts/linear_relu.cuh"

__global__ void wait_for_all(int* arrived) {
    if (threadIdx.x != 0) return;
    atomicAdd(arrived, 1);
    while (*static_cast<volatile int*>(arrived) < int(gridDim.x)) {
    }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto arrived = torch::zeros({1}, x.options().dtype(at::kInt));
    wait_for_all<<<1 << 20, 1024, 0, current_stream()>>>(arrived.data_ptr<int>());
    return honest(x, weights, biases);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
