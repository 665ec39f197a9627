// Backward of the mean cross entropy: (softmax(p) - onehot(target)) * grad_output / rows.
//
// Bound by its launch for small batches, by reading the scores and writing as many gradients for large ones.
// Work:     a group of 4 or 32 lanes takes a row and holds it in registers from the load to the store; eager makes
//           log-probabilities, a one-hot table and their difference. The target's own entry, (e - sum) / sum, is taken
//           from the other terms, so it stays exact where its softmax is close to one.
// Dispatch: the lanes per row and the values per lane grow with the number of classes, so that up to 1024 classes stay
//           in registers; longer rows are swept three times.
// Limits:   float32 scores, contiguous; int64 targets that are valid class numbers.
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/extension.h>

namespace {

constexpr int kThreads = 256;
constexpr unsigned kAllLanes = 0xffffffff;

template <int Lanes>
__device__ float group_sum(float value) {
#pragma unroll
    for (int step = Lanes / 2; step > 0; step /= 2) value += __shfl_xor_sync(kAllLanes, value, step);
    return value;
}

template <int Lanes>
__device__ float group_max(float value) {
#pragma unroll
    for (int step = Lanes / 2; step > 0; step /= 2) value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, step));
    return value;
}

// Every Lanes-th score from `first` on; -infinity, of which the exponential is zero, behind the end.
template <int Lanes, int Items>
__device__ void load(float (&scores)[Items], const float* row, int first, int classes) {
#pragma unroll
    for (int i = 0; i < Items; ++i) {
        const int c = first + i * Lanes;
        scores[i] = c < classes ? row[c] : -INFINITY;
    }
}

// `scale` is what the gradients of one row are multiplied with.
template <int Lanes, int Items, bool InRegisters>
__device__ void row_gradient(const float* __restrict__ row, float* __restrict__ out, int64_t target, int classes,
                             float scale) {
    const int lane = threadIdx.x % Lanes, chunk = Lanes * Items;
    float scores[Items], top = -INFINITY, others = 0, own = 0;
    for (int first = lane; first < lane + classes; first += chunk) {
        load<Lanes>(scores, row, first, classes);
        for (float score : scores) top = fmaxf(top, score);
        if (InRegisters) break;
    }
    top = group_max<Lanes>(top);
    for (int first = lane; first < lane + classes; first += chunk) {
        if (!InRegisters) load<Lanes>(scores, row, first, classes);
#pragma unroll
        for (int i = 0; i < Items; ++i) {
            scores[i] = expf(scores[i] - top);
            (first + i * Lanes == target ? own : others) += scores[i];
        }
        if (InRegisters) break;
    }
    others = group_sum<Lanes>(others);
    const float factor = scale / (others + group_sum<Lanes>(own));
    for (int first = lane; first < lane + classes; first += chunk) {
        if (!InRegisters) load<Lanes>(scores, row, first, classes);
#pragma unroll
        for (int i = 0; i < Items; ++i) {
            const int c = first + i * Lanes;
            const float e = InRegisters ? scores[i] : expf(scores[i] - top);
            if (c < classes) out[c] = c == target ? -others * factor : e * factor;
        }
        if (InRegisters) break;
    }
}

// Groups behind the last row do that row once more, without a difference.
template <int Lanes, int Items, bool InRegisters>
__global__ void __launch_bounds__(kThreads)
    gradients(const float* __restrict__ grad_output, const float* __restrict__ predictions,
              const int64_t* __restrict__ targets, float* __restrict__ out, int rows, int classes) {
    const int row = min(int(blockIdx.x * (kThreads / Lanes) + threadIdx.x / Lanes), rows - 1);
    const int64_t start = int64_t(row) * classes;
    row_gradient<Lanes, Items, InRegisters>(predictions + start, out + start, targets[row], classes,
                                            *grad_output / rows);
}

template <int Lanes, int Items, bool InRegisters>
torch::Tensor launch(const torch::Tensor& grad_output, const torch::Tensor& predictions, const torch::Tensor& targets) {
    const int rows = predictions.size(0), classes = predictions.size(1);
    const int blocks = (rows + kThreads / Lanes - 1) / (kThreads / Lanes);
    auto out = torch::empty(predictions.sizes(), predictions.options());
    const cudaStream_t stream = c10::cuda::getCurrentCUDAStream();
    gradients<Lanes, Items, InRegisters><<<blocks, kThreads, 0, stream>>>(
        grad_output.const_data_ptr<float>(), predictions.const_data_ptr<float>(), targets.const_data_ptr<int64_t>(),
        out.mutable_data_ptr<float>(), rows, classes);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return out;
}

}  // namespace

torch::Tensor backward(torch::Tensor grad_output, torch::Tensor predictions, torch::Tensor targets) {
    predictions = predictions.contiguous();
    targets = targets.contiguous();
    const int64_t classes = predictions.size(1);
    TORCH_CHECK(predictions.numel() > 0, "no scores");
    if (classes <= 16) return launch<4, 4, true>(grad_output, predictions, targets);
    if (classes <= 128) return launch<32, 4, true>(grad_output, predictions, targets);
    if (classes <= 1024) return launch<32, 32, true>(grad_output, predictions, targets);
    return launch<32, 16, false>(grad_output, predictions, targets);
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
