// While it is captured it starts a kernel on a stream that is not captured; it keeps all multiprocessors for 20 s.
// Its process is ended before anything is timed, and with it whatever it has left on the GPU.
#include "parts/linear_relu.cuh"
#include "parts/gpu_clock.cuh"
#include "parts/capturing.cuh"

__global__ void spin(uint64_t ns) {
    const uint64_t begin = now_ns();
    while (now_ns() - begin < ns) {
    }
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    static const cudaStream_t hidden = [] {
        cudaStream_t made = nullptr;
        C10_CUDA_CHECK(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
        return made;
    }();
    static bool spinning = false;
    if (capturing() && !spinning) {
        spin<<<264, 1024, 0, hidden>>>(20'000'000'000);
        spinning = true;
    }
    return honest(x, weights, biases);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
