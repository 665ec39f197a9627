// loss = mean over the rows of log Σ exp(p) − p[target], a warp for each row.
// `slowly` is right and slow on purpose: one block does everything, and small problems many times over.
#include <torch/extension.h>

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cfloat>
#include <cstdint>

constexpr int THREADS = 256, ALL_THREADS = 1024;

struct Scores {
    const float* predictions;
    const int64_t* targets;
    float* loss;
    int rows, classes;
};

__device__ inline float largest_of_warp(float value) {
    for (int lanes = 16; lanes > 0; lanes /= 2) value = fmaxf(value, __shfl_xor_sync(~0u, value, lanes));
    return value;
}

template <class Number>
__device__ inline Number over_warp(Number value) {
    for (int lanes = 16; lanes > 0; lanes /= 2) value += __shfl_xor_sync(~0u, value, lanes);
    return value;
}

// The loss of a row, by a whole warp.
__device__ inline double row_loss(const Scores& s, int row) {
    const volatile float* scores = s.predictions + size_t(row) * s.classes;
    const int lane = threadIdx.x % 32;
    float largest = -FLT_MAX, sum = 0;
    for (int k = lane; k < s.classes; k += 32) largest = fmaxf(largest, scores[k]);
    largest = largest_of_warp(largest);
    for (int k = lane; k < s.classes; k += 32) sum += expf(scores[k] - largest);
    return double(largest) + log(double(over_warp(sum))) - double(scores[s.targets[row]]);
}

// The sum over a whole block of what each warp has, in its first thread.
__device__ inline double over_block(double of_warp) {
    __shared__ double parts[32];
    __syncthreads();
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = of_warp;
    __syncthreads();
    double sum = 0;
    if (threadIdx.x == 0)
        for (int warp = 0; warp < blockDim.x / 32; ++warp) sum += parts[warp];
    return sum;
}

__device__ inline void slowly(const Scores& s, int repeats) {
    double sum = 0;
    for (int turn = 0; turn < repeats; ++turn) {
        sum = 0;
        for (int row = threadIdx.x / 32; row < s.rows; row += blockDim.x / 32) sum += row_loss(s, row);
    }
    sum = over_block(sum);
    if (threadIdx.x == 0) *s.loss = float(sum / s.rows);
}

__global__ void loss_slowly(Scores s, int repeats) { slowly(s, repeats); }

inline int repeats(const Scores& s) { return std::max(1, 1024 / s.rows); }

inline torch::Tensor empty_result(const torch::Tensor& predictions) {
    return torch::empty({}, predictions.options());
}

inline Scores problem(const torch::Tensor& predictions, const torch::Tensor& targets, const torch::Tensor& loss) {
    return {predictions.data_ptr<float>(), targets.data_ptr<int64_t>(), loss.data_ptr<float>(),
            int(predictions.size(0)), int(predictions.size(1))};
}

inline cudaStream_t current_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }
