"""torch.nn.functional: operators as functions, with PyTorch's names, signatures and defaults.

Those that are operators as they stand come from the registry; the others adapt the signature.
"""

from __future__ import annotations

from collections.abc import Sequence

from .._api.link import API
from ..core.dispatch import run_name
from ..core.errors import check
from ..core.tensor import Tensor
from . import grad  # noqa: F401  a name of torch.nn.functional
from ._activation import *  # noqa: F403
from ._attention import *  # noqa: F403
from ._conv import *  # noqa: F403
from ._embedding import *  # noqa: F403
from ._loss import *  # noqa: F403
from ._loss_margins import *  # noqa: F403
from ._normalization import *  # noqa: F403
from ._pooling import *  # noqa: F403
from ._resample import *  # noqa: F403
from ._scaled import *  # noqa: F403

# Operators under the same name and signature.
_SAME = (
    "bilinear",
    "channel_shuffle",
    "cosine_similarity",
    "native_channel_shuffle",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
)
globals().update({name: API.functions[""][name] for name in _SAME})
globals().update(API.functions["nn.functional"])


def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """`input` with pairs of widths before and after, for the last dimension first.

    >>> F.pad(rl.tensor([1, 2]), (1, 1))
    tensor([0, 1, 2, 0])
    """
    return API.functions["nn.functional"]["pad"](input, pad, mode, value)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """Rows of zeros with a one at each class.

    >>> F.one_hot(rl.tensor([0, 2]), 3)
    tensor([[1, 0, 0],
            [0, 0, 1]])
    """
    return run_name("one_hot", tensor, num_classes)


def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """Rows of `weight`, those longer than `max_norm` shortened first, in place.

    >>> F.embedding(rl.tensor([1, 0]), rl.tensor([[0.0, 1.0], [2.0, 3.0]]))
    tensor([[2., 3.],
            [0., 1.]])
    """
    if padding_idx is None:
        padding_idx = -1
    else:
        rows = weight.shape[0]
        check(
            -rows <= padding_idx < rows,
            f"Padding_idx must be within num_embeddings, got {padding_idx}",
            AssertionError,
        )
        padding_idx = padding_idx % rows
    if max_norm is not None:
        weight.detach().copy_(
            run_name("embedding_renorm", weight.detach(), input.contiguous(), max_norm, norm_type)
        )
    return run_name("embedding", weight, input, padding_idx, scale_grad_by_freq, sparse)


__all__ = [
    name
    for name in dir()
    if not name.startswith("_") and name not in ("API", "Tensor", "annotations", "check", "grad", "run_name")
]
