// Multiplies and adds in inline PTX.
// It must pass, with a label that says so.
#include "parts/linear_relu.cuh"

struct Assembled {
    __device__ float operator()(float a, float b) const {
        float product;
        asm("mul.rn.f32 %0, %1, %2;" : "=f"(product) : "f"(a), "f"(b));
        return product;
    }
};

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    auto y = empty_result(x, weights);
    launch<Assembled>(problem(x, weights, biases, y), current_stream());
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
