"""Basic residual block with batch norms in evaluation mode: running statistics are used, not updated."""

from torch import Tensor
from torch.nn import functional


def _norm(x: Tensor, statistics: tuple[Tensor, Tensor, Tensor, Tensor], eps: float) -> Tensor:
    weight, bias, mean, var = statistics
    return functional.batch_norm(x, mean, var, weight, bias, training=False, eps=eps)


def forward(  # noqa: PLR0913, PLR0917 - the arguments are those of a submission
    x: Tensor,
    conv1_weight: Tensor,
    conv1_bias: Tensor | None,
    bn1_weight: Tensor,
    bn1_bias: Tensor,
    bn1_mean: Tensor,
    bn1_var: Tensor,
    conv2_weight: Tensor,
    conv2_bias: Tensor | None,
    bn2_weight: Tensor,
    bn2_bias: Tensor,
    bn2_mean: Tensor,
    bn2_var: Tensor,
    downsample_weight: Tensor | None,
    downsample_bias: Tensor | None,
    downsample_bn_weight: Tensor | None,
    downsample_bn_bias: Tensor | None,
    downsample_bn_mean: Tensor | None,
    downsample_bn_var: Tensor | None,
    stride: int,
    eps: float,
) -> Tensor:
    """x (batch, in, height, width) -> (batch, out, height / stride, width / stride), rounded up.

    conv1_weight (out, in, 3, 3), conv2_weight (out, out, 3, 3), downsample_weight (out, in, 1, 1), all others (out).
    The downsample arguments are all None where the shortcut is x itself; the biases of convolutions are always None.
    """
    hidden = functional.conv2d(x, conv1_weight, conv1_bias, stride, 1)
    hidden = functional.relu(_norm(hidden, (bn1_weight, bn1_bias, bn1_mean, bn1_var), eps))
    hidden = functional.conv2d(hidden, conv2_weight, conv2_bias, 1, 1)
    hidden = _norm(hidden, (bn2_weight, bn2_bias, bn2_mean, bn2_var), eps)
    if downsample_weight is None:
        return functional.relu(hidden + x)
    assert downsample_bn_weight is not None and downsample_bn_bias is not None  # noqa: S101, PT018
    assert downsample_bn_mean is not None and downsample_bn_var is not None  # noqa: S101, PT018
    shortcut = functional.conv2d(x, downsample_weight, downsample_bias, stride)
    statistics = (downsample_bn_weight, downsample_bn_bias, downsample_bn_mean, downsample_bn_var)
    return functional.relu(hidden + _norm(shortcut, statistics, eps))
