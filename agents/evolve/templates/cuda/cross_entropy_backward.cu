// Backward of the mean cross entropy: (softmax(p) - onehot(target)) * grad_output / rows.
//
// Bound by its launch for small batches, by reading the scores and writing as many gradients for large ones.
// Work:   LANES lanes take a row. Up to LANES x ITEMS classes stay in registers from the load to the store; longer rows
//         are swept three times. The target's own entry, (e - sum) / sum, is taken from the other terms, so it stays
//         exact where its softmax is close to one. A block has ROWS groups of rows one after the other.
// Limits: float32 scores, contiguous; int64 targets that are valid class numbers.
// @genes@
// @include prelude.inc@
// @include class_scores.inc@

namespace {

struct Scores {
    const float *grad_output, *predictions;
    const int64_t* targets;
    float* out;
    int rows, classes;
};

// `scale` is what the gradients of the row are multiplied with.
template <int Items, bool Held>
__device__ void row_gradient(const float* row, float* out, int64_t target, int classes, float scale, bool writes) {
    float scores[Items], top = -INFINITY, others = 0, own = 0;
    if constexpr (Held) load_scores(scores, row, threadIdx.x % LANES, classes);
    sweep<Items, Held>(scores, row, classes, [&](int) {
        for (float score : scores) top = fmaxf(top, score);
    });
    top = lanes_max(top);
    sweep<Items, Held>(scores, row, classes, [&](int first) {
#pragma unroll
        for (int i = 0; i < Items; ++i) {
            scores[i] = power(scores[i] - top);
            if (first + i * LANES == target) own += scores[i];
            else others += scores[i];
        }
    });
    others = lanes_sum<LANES>(others);
    const float factor = scale / (others + lanes_sum<LANES>(own));
    sweep<Items, Held>(scores, row, classes, [&](int first) {
#pragma unroll
        for (int i = 0; i < Items; ++i) {
            const int c = first + i * LANES;
            const float term = Held ? scores[i] : power(scores[i] - top);
            if (writes && c < classes) write(out + c, c == target ? -others * factor : term * factor);
        }
    });
}

template <int Items, bool Held>
__global__ void __launch_bounds__(THREADS) gradients(const Scores p) {
    const float scale = *p.grad_output / p.rows;
#pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        const int row = (blockIdx.x * ROWS + i) * kRowsPerBlock + threadIdx.x / LANES, valid = min(row, p.rows - 1);
        const int64_t at = int64_t(valid) * p.classes;
        row_gradient<Items, Held>(p.predictions + at, p.out + at, p.targets[valid], p.classes, scale, row < p.rows);
    }
}

}  // namespace

extern "C" int64_t workspace_floats(int, int) { return 0; }

extern "C" int launch(const float* grad_output, const float* predictions, const int64_t* targets, float* out, float*,
                      int rows, int classes, void* on) {
    const auto stream = static_cast<cudaStream_t>(on);
    const Scores scores = {grad_output, predictions, targets, out, rows, classes};
    const unsigned blocks = unsigned(parts_of(rows, kRowsPerBlock * ROWS));
    if (classes <= LANES * ITEMS) gradients<ITEMS, true><<<blocks, THREADS, 0, stream>>>(scores);
    else gradients<ITEMS, false><<<blocks, THREADS, 0, stream>>>(scores);
    return cudaGetLastError();
}

// ---- torch --------------------------------------------------------------------------------------------------------

// @include torch.inc@

torch::Tensor backward(torch::Tensor grad_output, torch::Tensor predictions, torch::Tensor targets) {
    grad_output = grad_output.contiguous();
    predictions = predictions.contiguous();
    targets = targets.contiguous();
    TORCH_CHECK(predictions.numel() > 0, "no scores");
    auto out = torch::empty(predictions.sizes(), predictions.options());
    check(launch(data(grad_output), data(predictions), targets.const_data_ptr<int64_t>(), room(out), nullptr,
                 int(predictions.size(0)), int(predictions.size(1)), stream()));
    return out;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("backward", &backward); }
