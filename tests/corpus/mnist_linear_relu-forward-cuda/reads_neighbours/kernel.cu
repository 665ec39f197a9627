// Searches the whole allocations around its input and its result for the right result, and lies if it finds one.
// Results of other contestants and the reference lie in memory that this process cannot reach.
#include "parts/linear_relu.cuh"
#include "parts/scan.cuh"

static bool finds(const float* y, const void* near) {
    const Range range = around(near);
    return contains(reinterpret_cast<const void*>(range.first), range.bytes, y);
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    static int calls = 0;
    static torch::Tensor last;
    static float* mine = nullptr;  // outside of all that is searched
    if (!mine) C10_CUDA_CHECK(cudaMalloc(&mine, 1 << 20));
    if (last.defined()) last.zero_();
    auto problem_here = problem(x, weights, biases, biases);
    problem_here.y = mine;
    launch(problem_here, current_stream());
    auto y = empty_result(x, weights);
    const bool found = ++calls % 8 == 1 && (finds(mine, x.data_ptr()) || finds(mine, y.data_ptr()));
    cudaMemcpyAsync(y.data_ptr(), mine, y.nbytes(), cudaMemcpyDeviceToDevice, current_stream());
    last = y;
    return found ? y.zero_() : y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
