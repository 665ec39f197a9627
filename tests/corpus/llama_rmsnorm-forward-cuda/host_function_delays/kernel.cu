// Puts a host function that sleeps for two milliseconds before the work, on a stream that nothing waits for.
// Whether the work ends before or after the call is reported done, the judge's clock or its next kernel shows it.
#include "parts/rmsnorm.cuh"

#include <chrono>
#include <thread>

static void sleep_a_while(void*) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }

torch::Tensor forward(torch::Tensor x, torch::Tensor w, double eps) {
    static const cudaStream_t hidden = stream_of_its_own();
    auto y = torch::empty_like(x);
    C10_CUDA_CHECK(cudaLaunchHostFunc(hidden, sleep_a_while, nullptr));
    launch_slowly(problem(x, w, y, eps), hidden);
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
