// Finds the four places of a window in a table in constant memory, whose values the module brings.
// It must pass and be replayed: nothing is copied there in a call.
#include "parts/pool.cuh"

__constant__ int ROWS_OF_WINDOW[4] = {0, 0, 1, 1};
__constant__ int COLUMNS_OF_WINDOW[4] = {0, 1, 0, 1};

__global__ void by_table(Pool p) {
    const int place = place_of_thread();
    if (place >= p.count) return;
    const float* x = p.x + window(p, place);
    float value = x[0];
    for (int corner = 1; corner < 4; ++corner)
        value = fmaxf(value, x[ROWS_OF_WINDOW[corner] * p.width + COLUMNS_OF_WINDOW[corner]]);
    p.y[place] = value;
}

torch::Tensor forward(torch::Tensor x) {
    auto y = empty_result(x);
    const auto p = problem(x, y);
    by_table<<<blocks(p), THREADS, 0, current_stream()>>>(p);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
