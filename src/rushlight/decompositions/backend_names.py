"""Operators that PyTorch names after a GPU library: the same mathematics, served by the generic operators."""

from __future__ import annotations

from typing import Any

from ..core.dispatch import run_name
from ..core.registry import FUNCTION, INTERNAL, composite
from ..core.tensor import Tensor
from .normalization import Parts
from .normalization_batch import reserve

_BATCH_NORM = (
    "Tensor input, Tensor weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, bool "
    "training, float exponential_average_factor, float epsilon"
)
_BATCH_NORM_BACKWARD = (
    "Tensor input, Tensor grad_output, Tensor weight, Tensor? running_mean, Tensor? "
    "running_var, Tensor? save_mean, Tensor? save_var, float epsilon"
)


@composite(f"miopen_batch_norm({_BATCH_NORM}) -> (Tensor, Tensor, Tensor)", api=FUNCTION)
def miopen_batch_norm(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    exponential_average_factor: float,
    epsilon: float,
) -> Parts:
    return run_name(
        "native_batch_norm",
        input,
        weight,
        bias,
        running_mean,
        running_var,
        training,
        exponential_average_factor,
        epsilon,
    )


@composite(f"cudnn_batch_norm({_BATCH_NORM}) -> (Tensor, Tensor, Tensor, Tensor)", api=FUNCTION)
def cudnn_batch_norm(
    input: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    training: bool,
    exponential_average_factor: float,
    epsilon: float,
) -> Parts:
    return (
        *miopen_batch_norm(
            input, weight, bias, running_mean, running_var, training, exponential_average_factor, epsilon
        ),
        reserve(input),
    )


@composite(
    f"miopen_batch_norm_backward({_BATCH_NORM_BACKWARD}) -> (Tensor, Tensor, Tensor)",
    f"cudnn_batch_norm_backward({_BATCH_NORM_BACKWARD}, Tensor reserveSpace) -> (Tensor, Tensor, Tensor)",
    api=INTERNAL,
)
def batch_norm_backward(
    input: Tensor,
    grad_output: Tensor,
    weight: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    save_mean: Tensor | None,
    save_var: Tensor | None,
    epsilon: float,
) -> Parts:
    return run_name(
        "native_batch_norm_backward",
        grad_output,
        input,
        weight,
        running_mean,
        running_var,
        save_mean,
        save_var,
        True,
        epsilon,
        (True, True, True),
    )


def _declare_ctc(overload: str, lengths: str) -> None:
    @composite(
        f"_cudnn_ctc_loss{overload}(Tensor log_probs, Tensor targets, {lengths}, int blank, bool "
        "deterministic, bool zero_infinity) -> (Tensor, Tensor)",
        f"miopen_ctc_loss{overload}(Tensor log_probs, Tensor targets, {lengths}, int blank, bool "
        "deterministic, bool zero_infinity) -> (Tensor, Tensor)",
        api=FUNCTION,
    )
    def ctc_loss(
        log_probs: Tensor,
        targets: Tensor,
        input_lengths: Any,
        target_lengths: Any,
        blank: int,
        zero_infinity: bool,
    ) -> Parts:
        return run_name(
            f"_ctc_loss{overload}", log_probs, targets, input_lengths, target_lengths, blank, zero_infinity
        )


_declare_ctc("", "int[] input_lengths, int[] target_lengths")
_declare_ctc(".Tensor", "Tensor input_lengths, Tensor target_lengths")
