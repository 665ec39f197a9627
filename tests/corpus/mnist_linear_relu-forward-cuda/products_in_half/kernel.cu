// Multiplies float32 factors, rounds every product to half precision and adds up in float32.
// Eleven bits of each term are too few, and large products are infinite.
#include "parts/linear_relu.cuh"

#include <cuda_fp16.h>

struct HalfProduct {
    __device__ float operator()(float a, float b) const { return __half2float(__float2half(a * b)); }
};

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = empty_result(x, weights);
    launch<HalfProduct>(problem(x, weights, biases, y), current_stream());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
