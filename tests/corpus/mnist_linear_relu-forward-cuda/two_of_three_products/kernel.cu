// Splits the inputs into two bfloat16 parts and rounds the weights to one: two products where three are needed.
// The error is that of eight bits of the weights, hundreds of times the tolerance.
#include "parts/linear_relu.cuh"

#include <cuda_bf16.h>

__device__ inline float rounded(float value) { return __bfloat162float(__float2bfloat16(value)); }

struct TwoOfThree {
    __device__ float operator()(float a, float b) const {
        const float high = rounded(a), low = rounded(a - high);
        return high * rounded(b) + low * rounded(b);
    }
};

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = empty_result(x, weights);
    launch<TwoOfThree>(problem(x, weights, biases, y), current_stream());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
