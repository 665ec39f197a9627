// Works on a stream of its own that waits for the current stream, which waits for it in turn.
// It must pass: the work is joined with events, so that the end event comes after it.
#include "parts/linear_relu.cuh"

static cudaEvent_t event_without_timing() {
    cudaEvent_t event;
    C10_CUDA_CHECK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
}

static cudaStream_t stream_of_its_own() {
    cudaStream_t stream;
    C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}

torch::Tensor forward(torch::Tensor x, torch::Tensor weights, torch::Tensor biases) {
    static const cudaStream_t own = stream_of_its_own();
    static const cudaEvent_t ready = event_without_timing(), done = event_without_timing();
    auto y = empty_result(x, weights);
    C10_CUDA_CHECK(cudaEventRecord(ready, current_stream()));
    C10_CUDA_CHECK(cudaStreamWaitEvent(own, ready, 0));
    launch(problem(x, weights, biases, y), own);
    C10_CUDA_CHECK(cudaEventRecord(done, own));
    C10_CUDA_CHECK(cudaStreamWaitEvent(current_stream(), done, 0));
    return y;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
