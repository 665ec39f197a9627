// Mean cross entropy: the mean over rows of log(sum(exp(p - max))) + max - p[target].
//
// Bound by launches for small batches, by reading the scores once for large ones.
// Work:   LANES lanes take a row. Up to LANES x ITEMS classes stay in registers, so that they are read once; longer rows
//         are swept three times. PICK registers: the target's score is picked out of what was read; memory: it is read
//         by itself. Blocks leave the sum of their rows' losses. ENDING kernel: a second kernel adds them up; OVERLAP
//         starts it while the first runs. ENDING block: one block takes all rows.
// Limits: float32 scores, contiguous; int64 targets that are valid class numbers.
// @genes@
// @include prelude.inc@
// @include class_scores.inc@

namespace {

struct Scores {
    const float* predictions;
    const int64_t* targets;
    float *loss, *shares;
    int rows, classes;
};

// The total over the block, in thread 0.
__device__ float block_sum(float value) {
    __shared__ float sums[THREADS / 32];
    value = lanes_sum(value);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = value;
    __syncthreads();
    return threadIdx.x < 32 ? lanes_sum(threadIdx.x < THREADS / 32 ? sums[threadIdx.x] : 0.0f) : 0.0f;
}

// The loss of one row, the same in all lanes of its group.
template <int Items, bool Held>
__device__ float row_loss(const float* row, int64_t target, int classes) {
    float scores[Items], top = -INFINITY, sum = 0, picked = 0;
    if constexpr (Held) load_scores(scores, row, threadIdx.x % LANES, classes);
    sweep<Items, Held>(scores, row, classes, [&](int) {
        for (float score : scores) top = fmaxf(top, score);
    });
    top = lanes_max(top);
    sweep<Items, Held>(scores, row, classes, [&](int first) {
#pragma unroll
        for (int i = 0; i < Items; ++i) {
            sum += power(scores[i] - top);
            if (PICK == PICK_REGISTERS && first + i * LANES == target) picked = scores[i] - top;
        }
    });
    picked = PICK == PICK_REGISTERS ? lanes_sum<LANES>(picked) : row[target] - top;
    return logf(lanes_sum<LANES>(sum)) - picked;
}

template <int Items, bool Held>
__global__ void __launch_bounds__(THREADS) block_losses(const Scores p) {
    if (OVERLAP) cudaTriggerProgrammaticLaunchCompletion();
    float losses = 0;
    for (int first = blockIdx.x * kRowsPerBlock; first < p.rows; first += gridDim.x * kRowsPerBlock) {
        const int row = first + threadIdx.x / LANES, valid = min(row, p.rows - 1);
        const float loss = row_loss<Items, Held>(p.predictions + int64_t(valid) * p.classes, p.targets[valid],
                                                 p.classes);
        if (row < p.rows && threadIdx.x % LANES == 0) losses += loss;
    }
    losses = block_sum(losses);
    if (threadIdx.x == 0) (gridDim.x == 1 ? p.loss : p.shares)[blockIdx.x] = losses / p.rows;
}

__global__ void __launch_bounds__(THREADS) add_up(const Scores p, int count) {
    if (OVERLAP) cudaGridDependencySynchronize();
    float sum = 0;
    for (int i = threadIdx.x; i < count; i += THREADS) sum += p.shares[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0) *p.loss = sum;
}

void launch_add_up(const Scores& p, int count, cudaStream_t stream) {
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = OVERLAP;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1);
    config.blockDim = dim3(THREADS);
    config.stream = stream;
    config.attrs = &early;
    config.numAttrs = 1;
    cudaLaunchKernelEx(&config, add_up, p, count);
}

int blocks_for(int rows) { return ENDING == ENDING_BLOCK ? 1 : int(parts_of(rows, kRowsPerBlock * ROWS)); }

}  // namespace

extern "C" int64_t workspace_floats(int rows, int) { return blocks_for(rows); }

extern "C" int launch(const float* predictions, const int64_t* targets, float* loss, float* workspace, int rows,
                      int classes, void* on) {
    const auto stream = static_cast<cudaStream_t>(on);
    const Scores scores = {predictions, targets, loss, workspace, rows, classes};
    const int blocks = blocks_for(rows);
    if (classes <= LANES * ITEMS) block_losses<ITEMS, true><<<blocks, THREADS, 0, stream>>>(scores);
    else block_losses<ITEMS, false><<<blocks, THREADS, 0, stream>>>(scores);
    if (blocks > 1) launch_add_up(scores, blocks, stream);
    return cudaGetLastError();
}

// ---- torch --------------------------------------------------------------------------------------------------------

// @include torch.inc@

torch::Tensor forward(torch::Tensor predictions, torch::Tensor targets) {
    predictions = predictions.contiguous();
    targets = targets.contiguous();
    TORCH_CHECK(predictions.numel() > 0, "no scores");
    const int rows = int(predictions.size(0)), classes = int(predictions.size(1));
    auto loss = torch::empty({}, predictions.options());
    auto workspace = torch::empty({workspace_floats(rows, classes)}, predictions.options());
    check(launch(data(predictions), targets.const_data_ptr<int64_t>(), room(loss), room(workspace), rows, classes,
                 stream()));
    return loss;
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }
