"""Connectionist temporal classification: schemas and shape rules.

Lengths are lists of numbers, or tensors. The shape of log_alpha, which backward reads, depends on the longest
target; where lengths are tensors, nobody looks at them for that, and it has room for all there could be.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, define
from ..core.shapes import Spec
from ..core.tensor import Tensor
from .rules import like

_WIDE = (DTYPES["float32"], DTYPES["float64"])
_INTEGERS = (DTYPES["int32"], DTYPES["int64"])
_LISTS = "int[] input_lengths, int[] target_lengths"
_TENSORS = "Tensor input_lengths, Tensor target_lengths"


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int
) -> tuple[Spec, Spec]:
    name = "ctc_loss"
    check(
        log_probs.dtype in _WIDE,
        f"\"{name}\" not implemented for '{log_probs.dtype.torch_name}'",
        NotImplementedError,
    )
    check(
        targets.dtype in _INTEGERS,
        f"{name}: Expected tensor for argument 'targets' to have one of the "
        f"following scalar types: Long, Int; but got {targets.dtype.torch_name} instead",
    )
    check(
        log_probs.ndim == 3,
        f"{name}: log_probs must be (time, batch, classes), but its shape is {list(log_probs.shape)}",
    )
    time, batch, classes = log_probs.shape
    check(log_probs.numel() > 0, f"{name}: log_probs tensor must not be empty")
    check(0 <= blank < classes, f"{name}: blank must be in label range, 0 to {classes - 1}, not {blank}")
    check(
        targets.ndim in (1, 2) and (targets.ndim == 1 or targets.shape[0] == batch),
        f"{name}: targets "
        f"must be ({batch}, longest target) or the targets one after the other, but the shape is "
        f"{list(targets.shape)}",
    )
    longest = targets.shape[-1]
    if isinstance(input_lengths, Tensor):
        for what, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
            check(lengths.dtype in _INTEGERS, f"{name}: {what} must be integral")
            check(
                tuple(lengths.shape) == (batch,),
                f"{name}: {what} must be of size batch_size {batch}, but the shape is {list(lengths.shape)}",
            )
    else:
        check_lengths(input_lengths, target_lengths, time, batch, tuple(targets.shape))
        longest = max(target_lengths, default=0)
    return (Spec((batch,), log_probs.dtype), Spec((batch, time, 2 * longest + 1), log_probs.dtype))


def check_lengths(
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    time: int,
    batch: int,
    targets: tuple[int, ...],
) -> None:
    name = "ctc_loss"
    for what, lengths in (("input_lengths", input_lengths), ("target_lengths", target_lengths)):
        check(len(lengths) == batch, f"{name}: {what} must be of size batch_size {batch}, not {len(lengths)}")
        check(min(lengths, default=0) >= 0, f"{name}: {what} must not be negative: {list(lengths)}")
    check(
        max(input_lengths, default=0) <= time,
        f"{name}: Expected input_lengths to have value at most "
        f"{time}, but got value {max(input_lengths, default=0)}",
    )
    if len(targets) == 1:
        check(
            sum(target_lengths) == targets[0],
            f"{name}: Expected tensor to have size {sum(target_lengths)}"
            f" at dimension 0, but got size {targets[0]} for argument 'targets'",
        )
    else:
        longest = max(target_lengths, default=0)
        check(
            longest <= targets[1],
            f"{name}: Expected tensor to have size at least {longest} at dimension "
            f"1, but got size {targets[1]} for argument 'targets'",
        )


for _overload, _lengths in (("", _LISTS), (".Tensor", _TENSORS)):
    define(
        f"_ctc_loss{_overload}(Tensor log_probs, Tensor targets, {_lengths}, int blank=0, bool "
        "zero_infinity=False) -> (Tensor, Tensor)",
        shape=ctc_loss,
        api=FUNCTION,
    )
    define(
        f"_ctc_loss_backward{_overload}(Tensor grad, Tensor log_probs, Tensor targets, {_lengths}, Tensor "
        "neg_log_likelihood, Tensor log_alpha, int blank, bool zero_infinity=False) -> Tensor",
        shape=lambda log_probs: like(log_probs),
        api=INTERNAL,
    )
    # The gradient of _ctc_loss_backward with respect to log_probs, for the gradient `grad` of its result.
    define(
        f"_ctc_loss_backward_backward{_overload}(Tensor grad, Tensor grad_output, Tensor log_probs, "
        f"Tensor targets, {_lengths}, Tensor neg_log_likelihood, Tensor log_alpha, int blank, bool "
        "zero_infinity=False) -> Tensor",
        shape=lambda log_probs: like(log_probs),
        api=INTERNAL,
    )
