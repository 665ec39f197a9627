// y = x ⊙ w / sqrt(mean(x²) + eps), a block per row, right and slow on purpose: the whole work is done twelve times over.
// An attack that hides the time of this scores above one; one that hides nothing scores far below.
#include <torch/extension.h>

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

constexpr int THREADS = 256, REPEATS = 12;

__device__ inline float over_block(float value) {
    __shared__ float parts[THREADS / 32];
    for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_down_sync(~0u, value, lanes);
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = value;
    __syncthreads();
    float sum = 0;
    for (float part : parts) sum += part;
    return sum;
}

__device__ inline void normalise(const float* x, const float* w, float* y, int features, float eps) {
    float squares = 0;
    for (int k = threadIdx.x; k < features; k += THREADS) squares += x[k] * x[k];
    const float factor = 1.0f / sqrtf(over_block(squares) / float(features) + eps);
    for (int k = threadIdx.x; k < features; k += THREADS) y[k] = x[k] * factor * w[k];
}

__global__ void rmsnorm(const float* x, const float* w, float* y, int features, float eps) {
    const size_t row = size_t(blockIdx.x) * features;
    normalise(x + row, w, y + row, features, eps);
}

struct Norm {
    const float *x, *w;
    float* y;
    int rows, features;
    float eps;
};

inline Norm problem(const torch::Tensor& x, const torch::Tensor& w, const torch::Tensor& y, double eps) {
    const int features = int(w.numel());
    return {x.data_ptr<float>(), w.data_ptr<float>(), y.data_ptr<float>(), int(x.numel() / features), features,
            float(eps)};
}

inline void launch_slowly(const Norm& p, cudaStream_t stream, int repeats = REPEATS) {
    for (int turn = 0; turn < repeats; ++turn)
        rmsnorm<<<p.rows, THREADS, 0, stream>>>(p.x, p.w, p.y, p.features, p.eps);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
}

inline cudaStream_t current_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

// A stream that neither waits for the default stream nor makes it wait.
inline cudaStream_t stream_of_its_own() {
    cudaStream_t stream = nullptr;
    C10_CUDA_CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
}
