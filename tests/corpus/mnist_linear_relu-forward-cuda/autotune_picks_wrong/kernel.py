# Triton tunes between a kernel that reads all features and one that reads every fourth block of them, which is faster.
# Whatever was chosen is what is compared.
import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"OUTPUTS": 16, "FEATURES": 128, "STEP": 1}, num_warps=4),
    triton.Config({"OUTPUTS": 16, "FEATURES": 128, "STEP": 4}, num_warps=4),
]


@triton.autotune(configs=CONFIGS, key=["features", "outputs"])
@triton.jit
def linear_relu_kernel(
    x, weights, biases, y, features, outputs, OUTPUTS: tl.constexpr, FEATURES: tl.constexpr, STEP: tl.constexpr
):
    row = tl.program_id(0)
    columns = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)
    sums = tl.zeros([OUTPUTS], dtype=tl.float32)
    for start in range(0, features, FEATURES * STEP):
        places = start + tl.arange(0, FEATURES)
        xs = tl.load(x + row * features + places, mask=places < features, other=0.0)
        inside = (columns[:, None] < outputs) & (places[None, :] < features)
        ws = tl.load(weights + columns[:, None] * features + places[None, :], mask=inside, other=0.0)
        sums += tl.sum(ws * xs[None, :], axis=1)
    sums += tl.load(biases + columns, mask=columns < outputs, other=0.0)
    tl.store(y + row * outputs + columns, tl.maximum(sums, 0.0), mask=columns < outputs)


def forward(x, weights, biases):
    (batch, features), outputs = x.shape, weights.shape[0]
    y = torch.empty((batch, outputs), device=x.device, dtype=x.dtype)

    def grid(meta):
        return (batch, triton.cdiv(outputs, meta["OUTPUTS"]))

    linear_relu_kernel[grid](x, weights, biases, y, features, outputs)
    return y
