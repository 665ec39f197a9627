// Rounds both factors to half precision and adds up in float32.
// Half precision overflows on large values and is off by one part in two thousand on all others.
#include "parts/linear_relu.cuh"

#include <cuda_fp16.h>

struct Half {
    __device__ float operator()(float a, float b) const {
        return __half2float(__float2half_rn(a)) * __half2float(__float2half_rn(b));
    }
};

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = empty_result(x, weights);
    launch<Half>(problem(x, weights, biases, y), current_stream());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
