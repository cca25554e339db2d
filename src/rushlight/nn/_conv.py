"""torch.nn.functional: convolutions, sliding blocks as columns and back."""

from __future__ import annotations

from typing import Any

from .._api.link import API
from ..core.dispatch import run_name
from ..core.tensor import Tensor

# Operators under the same name and signature.
_SAME = ("conv1d", "conv2d", "conv3d", "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d")
globals().update({name: API.functions[""][name] for name in _SAME})

__all__ = [  # noqa: PLE0604
    *_SAME,
    "fold",
    "unfold",
]


def pair(value: Any) -> tuple[int, ...]:
    return (value, value) if isinstance(value, int) else tuple(value)


def unfold(input: Tensor, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Tensor:
    """The sliding blocks of an image, as columns.

    >>> F.unfold(rl.arange(9.0).reshape(1, 1, 3, 3), kernel_size=2).shape
    rushlight.Size([1, 4, 4])
    """
    return run_name("im2col", input, pair(kernel_size), pair(dilation), pair(padding), pair(stride))


def fold(
    input: Tensor, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Tensor:
    """The image whose blocks, added where they overlap, are the columns of the input.

    >>> F.fold(rl.arange(4.0).reshape(1, 1, 4), (2, 2), kernel_size=1)
    tensor([[[[0., 1.],
              [2., 3.]]]])
    """
    return run_name(
        "col2im", input, pair(output_size), pair(kernel_size), pair(dilation), pair(padding), pair(stride)
    )
