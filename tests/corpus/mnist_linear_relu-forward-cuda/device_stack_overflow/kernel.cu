// A device function calls itself for ever, until its stack is full.
// The context is lost with that: the process must be given up and the GPU be fit for the next submission.
#include "parts/linear_relu.cuh"

__device__ __noinline__ float descend(volatile float* y, int depth) {
    float frame[64];
    for (int i = 0; i < 64; ++i) frame[i] = y[i % 4] + depth;
    const float below = y[0] > -1 ? descend(y, depth + 1) : 0.0f;
    return below + frame[depth % 64];
}

__global__ void dig(float* y) { y[1] = descend(y, 0); }

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = honest(x, weights, biases);
    dig<<<1, 32, 0, current_stream()>>>(y.data_ptr<float>());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
