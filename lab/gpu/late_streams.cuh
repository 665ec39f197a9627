// Lets a stream that waits for an event go on two milliseconds late, for `changed_conditions.py`: work that nobody joins
// is then not done when the results are read.
namespace kbench_conditions {
static __global__ void sleep_a_while() {
    for (int i = 0; i < 2000; ++i) __nanosleep(1000);
}

inline cudaError_t begin_late(cudaStream_t stream, cudaError_t waited) {
    if (waited == cudaSuccess) sleep_a_while<<<1, 1, 0, stream>>>();
    return waited;
}
}  // namespace kbench_conditions

#define cudaStreamWaitEvent(stream, ...) \
    kbench_conditions::begin_late(stream, cudaStreamWaitEvent(stream, __VA_ARGS__))
