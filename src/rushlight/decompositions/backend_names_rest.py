"""Products, samplers, attention and layouts that PyTorch names after a library, by the generic operators.

A layout of another library is no layout here: tensors stay dense, and what would convert them copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dispatch import run_name
from ..core.dtypes import DTYPES
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, METHOD, Api, composite
from ..core.tensor import Tensor
from .attention import causal_mask, scale_of

# Linear layers.


@composite("mkldnn_linear(Tensor self, Tensor weight, Tensor? bias=None) -> Tensor", api=INTERNAL)
def mkldnn_linear(self: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return run_name("linear", self, weight, bias)


@composite(
    *[
        f"{name}(Tensor self, Tensor grad_output, Tensor weight, bool[3] output_mask) -> (Tensor, Tensor, "
        f"Tensor)"
        for name in ("linear_backward", "mkldnn_linear_backward")
    ],
    api=INTERNAL,
)
def linear_backward(
    self: Tensor, grad_output: Tensor, weight: Tensor, output_mask: Sequence[bool]
) -> tuple[Tensor | None, ...]:
    rows = grad_output.reshape((-1, grad_output.shape[-1]))
    return (
        grad_output @ weight if output_mask[0] else None,
        rows.mT @ self.reshape((-1, self.shape[-1])) if output_mask[1] else None,
        rows.sum(0) if output_mask[2] else None,
    )


@composite(
    "mkldnn_linear_backward_input(int[] input_size, Tensor grad_output, Tensor weight) -> Tensor",
    api=INTERNAL,
)
def mkldnn_linear_backward_input(input_size: Sequence[int], grad_output: Tensor, weight: Tensor) -> Tensor:
    return (grad_output @ weight).reshape(input_size)


@composite(
    "mkldnn_linear_backward_weights(Tensor grad_output, Tensor input, Tensor weight, bool bias_defined) -> "
    "(Tensor, Tensor)",
    api=FUNCTION,
)
def mkldnn_linear_backward_weights(
    grad_output: Tensor, input: Tensor, weight: Tensor, bias_defined: bool
) -> tuple[Tensor | None, ...]:
    return linear_backward(input, grad_output, weight, (False, True, bias_defined))[1:]


# Layouts and memory.


@composite("_mkldnn_reshape(Tensor self, int[] shape) -> Tensor", api=FUNCTION)
def mkldnn_reshape(self: Tensor, shape: Sequence[int]) -> Tensor:
    return run_name("_reshape_copy", self, shape)


@composite(
    "_mkldnn_transpose(Tensor self, int dim0, int dim1) -> Tensor",
    api=FUNCTION | Api.INPLACE_FUNCTION,
)
def mkldnn_transpose(self: Tensor, dim0: int, dim1: int) -> Tensor:
    return self.transpose(dim0, dim1).clone()


@composite("to_mkldnn(Tensor self, ScalarType? dtype=None) -> Tensor", api=METHOD)
def to_mkldnn(self: Tensor, dtype: Any) -> Tensor:
    return run_name("_to_copy", self, dtype, None, None, None, False, None)


@composite("to_mkldnn_backward(Tensor grad, Tensor input) -> Tensor", api=INTERNAL)
def to_mkldnn_backward(grad: Tensor, input: Tensor) -> Tensor:
    return grad.to(input.dtype)


@composite("_pin_memory(Tensor self, Device? device=None) -> Tensor", api=INTERNAL)
def _pin_memory(self: Tensor) -> Tensor:
    """All memory is the processor's own, where pages need not be pinned."""
    return self.clone()


# Samplers.


@composite("cudnn_grid_sampler(Tensor self, Tensor grid) -> Tensor output", api=FUNCTION)
def cudnn_grid_sampler(self: Tensor, grid: Tensor) -> Tensor:
    return run_name("grid_sampler_2d", self, grid, 0, 0, True)


@composite(
    "cudnn_grid_sampler_backward(Tensor self, Tensor grid, Tensor grad_output) -> (Tensor grad_self, Tensor "
    "grad_grid)",
    api=INTERNAL,
)
def cudnn_grid_sampler_backward(self: Tensor, grid: Tensor, grad_output: Tensor) -> tuple[Tensor, Tensor]:
    return run_name("grid_sampler_2d_backward", grad_output, self, grid, 0, 0, True, (True, True))


@composite(
    "cudnn_affine_grid_generator(Tensor theta, int N, int C, int H, int W) -> Tensor grid", api=FUNCTION
)
def cudnn_affine_grid_generator(theta: Tensor, N: int, C: int, H: int, W: int) -> Tensor:
    return run_name("affine_grid_generator", theta, (N, C, H, W), True)


@composite(
    "cudnn_affine_grid_generator_backward(Tensor grad, int N, int C, int H, int W) -> Tensor grad_theta",
    api=INTERNAL,
)
def cudnn_affine_grid_generator_backward(grad: Tensor, N: int, C: int, H: int, W: int) -> Tensor:
    return run_name("affine_grid_generator_backward", grad, (N, C, H, W), True)


# Attention. A seed and an offset belong to dropout on a device and are zeros here.


def attention_with_normalizer(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, Tensor]:
    """The output, and the logarithm of each row's normalizer, which no gradient flows through."""
    if dropout_p == 0.0 and bias is None:
        output, normalizer = run_name(
            "_scaled_dot_product_flash_attention_for_cpu", query, key, value, 0.0, is_causal, None, scale
        )
        return output, normalizer.detach()
    mask = causal_mask(query, query.shape[-2], key.shape[-2]) if is_causal else None
    scores = (query * scale_of(query, scale)) @ key.mT
    scores = scores if bias is None else scores + bias
    scores = scores if mask is None else scores.masked_fill(mask.logical_not(), float("-inf"))
    weights = run_name("_safe_softmax", scores, -1, None)
    weights = weights if dropout_p == 0.0 else run_name("dropout", weights, dropout_p, True)
    return weights @ value, run_name("logsumexp", scores.detach(), (-1,), False)


def no_seed(like: Tensor) -> Tensor:
    return like.new_zeros((), dtype=DTYPES["int64"])


@composite(
    "_scaled_dot_product_efficient_attention(Tensor query, Tensor key, Tensor value, Tensor? attn_bias, bool "
    "compute_log_sumexp, float dropout_p=0., bool is_causal=False, *, float? scale=None) -> (Tensor output, "
    "Tensor log_sumexp, Tensor philox_seed, Tensor philox_offset)",
    api=INTERNAL,
)
def efficient_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attn_bias: Tensor | None,
    compute_log_sumexp: bool,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
) -> tuple[Tensor, ...]:
    output, normalizer = attention_with_normalizer(query, key, value, attn_bias, dropout_p, is_causal, scale)
    kept = normalizer if compute_log_sumexp else normalizer.new_empty((*normalizer.shape[:-1], 0))
    return output, kept, no_seed(query), no_seed(query)


@composite(
    "_scaled_dot_product_flash_attention(Tensor query, Tensor key, Tensor value, float dropout_p=0., bool "
    "is_causal=False, bool return_debug_mask=False, *, float? scale=None) -> (Tensor output, Tensor "
    "logsumexp, Tensor cum_seq_q, Tensor cum_seq_k, SymInt max_q, SymInt max_k, Tensor rng_state, Tensor "
    "unused, Tensor debug_attn_mask)",
    api=INTERNAL,
)
def flash_attention(
    query: Tensor, key: Tensor, value: Tensor, dropout_p: float, is_causal: bool, scale: float | None
) -> tuple[Any, ...]:
    output, normalizer = attention_with_normalizer(query, key, value, None, dropout_p, is_causal, scale)
    none = query.new_empty((0,))
    return (
        output,
        normalizer,
        none,
        none,
        query.shape[-2],
        key.shape[-2],
        no_seed(query),
        no_seed(query),
        none,
    )


@composite(
    "_flash_attention_forward(Tensor query, Tensor key, Tensor value, Tensor? cum_seq_q, Tensor? cum_seq_k, "
    "SymInt max_q, SymInt max_k, float dropout_p, bool is_causal, bool return_debug_mask, *, float? "
    "scale=None, SymInt? window_size_left=None, SymInt? window_size_right=None, Tensor? seqused_k=None, "
    "Tensor? alibi_slopes=None, Tensor? block_table=None, int? num_splits=None) -> (Tensor output, Tensor "
    "softmax_logsumexp, Tensor rng_state, Tensor unused, Tensor debug_attn_mask)",
    api=INTERNAL,
)
def flash_attention_forward(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    cum_seq_q: Tensor | None,
    cum_seq_k: Tensor | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    window_size_left: int | None,
    window_size_right: int | None,
    seqused_k: Tensor | None,
    alibi_slopes: Tensor | None,
    block_table: Tensor | None,
) -> tuple[Tensor, ...]:
    """Heads come after the rows; with `cum_seq_q`, sequences follow each other along the rows."""
    named = {
        "window_size_left": window_size_left,
        "window_size_right": window_size_right,
        "seqused_k": seqused_k,
        "alibi_slopes": alibi_slopes,
        "block_table": block_table,
    }
    given = [name for name, setting in named.items() if setting is not None]
    check(not given, f"_flash_attention_forward: {', '.join(given)} is not supported; leave it out")

    def attend(*parts: Tensor) -> tuple[Tensor, Tensor]:
        q, k, v = (t.transpose(-3, -2) for t in parts)
        output, normalizer = attention_with_normalizer(q, k, v, None, dropout_p, is_causal, scale)
        return output.transpose(-3, -2), normalizer

    if cum_seq_q is None or cum_seq_k is None:
        output, normalizer = attend(query, key, value)
    else:
        ends = [[int(n) for n in t.tolist()] for t in (cum_seq_q, cum_seq_k, cum_seq_k)]
        parts = [
            tuple(t[e[i] : e[i + 1]].unsqueeze(0) for t, e in zip((query, key, value), ends, strict=True))
            for i in range(len(ends[0]) - 1)
        ]
        outputs, normalizers = zip(*[attend(*part) for part in parts], strict=True)
        output = run_name("cat", tuple(t.squeeze(0) for t in outputs), 0)
        normalizer = run_name("cat", tuple(t.squeeze(0) for t in normalizers), -1)
    return output, normalizer, no_seed(query), no_seed(query), query.new_empty((0,))
