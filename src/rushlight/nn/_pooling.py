"""torch.nn.functional: pooling, with PyTorch's signatures."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

from ..core.dispatch import run_name
from ..core.errors import check
from ..core.out_calls import call_out
from ..core.registry import REGISTRY
from ..core.tensor import Tensor

__all__ = [
    "adaptive_avg_pool1d",
    "adaptive_avg_pool2d",
    "adaptive_avg_pool3d",
    "avg_pool1d",
    "avg_pool2d",
    "avg_pool3d",
    "lp_pool1d",
    "lp_pool2d",
    "lp_pool3d",
    "max_unpool1d",
    "max_unpool2d",
    "max_unpool3d",
]


def _numbers(value: Any, rank: int) -> tuple[Any, ...]:
    """A number for each dimension; of None, a stride that is the kernel's size, there are none."""
    if value is None:
        return ()
    return (value,) * rank if isinstance(value, int) else tuple(value)


def _described(public: str) -> str:
    """The docstring of a maximum over windows, by its name."""
    rank = int(re.search(r"(\d)d", public)[1])  # type: ignore[index]
    how, size = "of the given size", "2"
    if public.startswith("adaptive"):
        how, size = "as many as there shall be outputs", "1"
    elif public.startswith("fractional"):
        how, size = "at random places, a fraction as many as elements", "2, output_size=1"
    also = ", and where each maximum was" if public.endswith("indices") else ""
    extent = 4 if public.startswith("fractional") else 2
    call = f"F.{public}(rl.ones(1{f', {extent}' * rank}), {size}){'[1]' if also else ''}.shape"
    return (
        f"Maximum of each window over {rank} dimension{'s' * (rank > 1)}, {how}{also}.\n\n"
        f">>> {call}\nrushlight.Size([1{', 1' * rank}])\n"
    )


def _with_choice(
    name: str, pool: Callable[..., tuple[Tensor, Tensor]], plain: Callable[..., Tensor] | None = None
) -> None:
    """Make `name`, which returns indices if asked to, and `name`_with_indices, which always does.

    `plain` is the operator without indices, where it is one of its own.
    """

    def chosen(*args: Any, **kwargs: Any) -> Any:
        asked = kwargs.get("return_indices", args[position] if len(args) > position else False)
        if plain is not None and not asked:
            return plain(*args, **kwargs)
        values, indices = pool(*args, **kwargs)
        return (values, indices) if asked else values

    position = pool.__code__.co_varnames[: pool.__code__.co_argcount].index("return_indices")
    for function, public in ((chosen, name), (pool, f"{name}_with_indices")):
        function.__name__ = function.__qualname__ = public
        function.__doc__ = _described(public)
        globals()[public] = function
        __all__.append(public)


# Maxima.


def _max_pool(operator: str, rank: int) -> Callable[..., Any]:
    def max_pool(
        input: Tensor,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        numbers = (_numbers(given, rank) for given in (kernel_size, stride, padding, dilation))
        return run_name(operator, input, *numbers, ceil_mode)

    return max_pool


def _declare_max(rank: int) -> None:
    def adaptive_max_pool(
        input: Tensor, output_size: Any, return_indices: bool = False
    ) -> tuple[Tensor, Tensor]:
        return run_name(f"adaptive_max_pool{rank}d", input, _sizes(input, output_size, rank))

    name = f"max_pool{rank}d"
    _with_choice(name, _max_pool(f"{name}_with_indices", rank), _max_pool(name, rank))
    _with_choice(f"adaptive_max_pool{rank}d", adaptive_max_pool)


def _sizes(input: Tensor, output_size: Any, rank: int) -> tuple[int, ...]:
    """Sizes of an adaptive pool's output; None is the input's size."""
    if isinstance(output_size, int):
        return (output_size,) * rank
    sizes = (output_size,) * rank if output_size is None else _numbers(output_size, rank)
    check(input.ndim > len(sizes), f"Input dimension should be at least {len(sizes) + 1}", ValueError)
    return tuple(
        n if size is None else size
        for size, n in zip(sizes, input.shape[input.ndim - len(sizes) :], strict=True)
    )


for _rank in (1, 2, 3):
    _declare_max(_rank)


def _declare_fractional(rank: int) -> None:
    def fractional_max_pool(
        input: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        name = f"fractional_max_pool{rank}d"
        check(
            output_size is not None or output_ratio is not None,
            f"{name} requires specifying either an output_size or an output_ratio",
            ValueError,
        )
        if output_size is None:
            check(
                input.ndim in (rank + 1, rank + 2),
                f"{name}: Expected {rank + 1}D or {rank + 2}D (batch "
                f"mode) tensor for input, but got: {list(input.shape)}",
            )
            ratios = (output_ratio,) * rank if isinstance(output_ratio, float) else tuple(output_ratio)
            check(
                len(ratios) == rank,
                f"{name} requires output_ratio to either be a single Int or tuple of "
                f"Ints. It takes {rank} of them, or floats.",
                ValueError,
            )
            output_size = [
                math.trunc(n * ratio) for n, ratio in zip(input.shape[-rank:], ratios, strict=True)
            ]
        samples = _random_samples
        if samples is None:
            images = 1 if input.ndim == rank + 1 else input.shape[0]
            samples = run_name(
                "rand", (images, input.shape[-rank - 1], rank), input.dtype, None, input.device, None
            )
        return run_name(name, input, _numbers(kernel_size, rank), _numbers(output_size, rank), samples)

    _with_choice(f"fractional_max_pool{rank}d", fractional_max_pool)


for _rank in (2, 3):
    _declare_fractional(_rank)


# Means.


def avg_pool1d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Mean of each window along one spatial dimension.

    >>> F.avg_pool1d(rl.tensor([[1.0, 3.0, 2.0, 4.0]]), 2)
    tensor([[2., 3.]])
    """
    numbers = (_numbers(given, 1) for given in (kernel_size, stride, padding))
    return run_name("avg_pool1d", input, *numbers, ceil_mode, count_include_pad)


def avg_pool2d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Mean of each window of images.

    >>> F.avg_pool2d(rl.arange(4.0).reshape(1, 2, 2), 2)
    tensor([[[1.5000]]])
    """
    numbers = (_numbers(given, 2) for given in (kernel_size, stride, padding))
    args = (input, *numbers, ceil_mode, count_include_pad, divisor_override)
    return run_name("avg_pool2d", *args) if out is None else call_out(REGISTRY["avg_pool2d"], args, out)


def avg_pool3d(
    input: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Mean of each window of volumes.

    >>> F.avg_pool3d(rl.ones(1, 2, 2, 2), 2)
    tensor([[[[1.]]]])
    """
    numbers = (_numbers(given, 3) for given in (kernel_size, stride, padding))
    args = (input, *numbers, ceil_mode, count_include_pad, divisor_override)
    return run_name("avg_pool3d", *args) if out is None else call_out(REGISTRY["avg_pool3d"], args, out)


def adaptive_avg_pool1d(input: Tensor, output_size: Any) -> Tensor:
    """Means of as many windows as there shall be outputs.

    >>> F.adaptive_avg_pool1d(rl.tensor([[1.0, 3.0, 2.0, 4.0]]), 2)
    tensor([[2., 3.]])
    """
    return run_name("adaptive_avg_pool1d", input, _numbers(output_size, 1))


def adaptive_avg_pool2d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows of images, to a given size.

    >>> F.adaptive_avg_pool2d(rl.arange(4.0).reshape(1, 2, 2), 1)
    tensor([[[1.5000]]])
    """
    return run_name("adaptive_avg_pool2d", input, _sizes(input, output_size, 2))


def adaptive_avg_pool3d(input: Tensor, output_size: Any) -> Tensor:
    """Means of windows of volumes, to a given size.

    >>> F.adaptive_avg_pool3d(rl.ones(1, 2, 2, 2), 1)
    tensor([[[[1.]]]])
    """
    return run_name("adaptive_avg_pool3d", input, _sizes(input, output_size, 3))


def _lp_pool(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any, ceil_mode: bool, rank: int
) -> Tensor:
    kernel = _numbers(kernel_size, rank)
    settings = (kernel, _numbers(stride, rank), (0,) * rank, ceil_mode, True)
    powers = input.pow(norm_type)
    mean = run_name(f"avg_pool{rank}d", powers, *settings, *([] if rank == 1 else [None]))
    return (mean.sign() * mean.abs().relu() * prod(kernel)).pow(1.0 / norm_type)


def lp_pool1d(
    input: Tensor, norm_type: float, kernel_size: int, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window along one spatial dimension.

    >>> F.lp_pool1d(rl.tensor([[3.0, 4.0]]), 2, 2)
    tensor([[5.]])
    """
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 1)


def lp_pool2d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window of images.

    >>> F.lp_pool2d(rl.ones(1, 2, 2), 2, 2)
    tensor([[[2.]]])
    """
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 2)


def lp_pool3d(
    input: Tensor, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False
) -> Tensor:
    """The p-norm of each window of volumes.

    >>> F.lp_pool3d(rl.ones(1, 2, 2, 2), 2, 2).shape
    rushlight.Size([1, 1, 1, 1])
    """
    return _lp_pool(input, norm_type, kernel_size, stride, ceil_mode, 3)


# Back from maxima.


def _unpooled_size(
    input: Tensor, kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], output_size: Any
) -> tuple[int, ...]:
    """The size before pooling: the least that there can be, or `output_size` if it is near to that."""
    rank = len(kernel)
    sizes = input.shape[input.ndim - rank :]
    default = [(sizes[d] - 1) * stride[d] + kernel[d] - 2 * padding[d] for d in range(rank)]
    if output_size is None:
        return tuple(default)
    wanted = list(output_size)
    wanted = wanted[2:] if len(wanted) == rank + 2 else wanted
    check(
        len(wanted) == rank,
        f"output_size should be a sequence containing {rank} or {rank + 2} elements, "
        f"but it has a length of '{len(wanted)}'",
        ValueError,
    )
    for d in range(rank):
        least, most = default[d] - stride[d], default[d] + stride[d]
        check(
            least < wanted[d] < most,
            f"invalid output_size '{wanted}' (dim {d} must be between {least} and {most})",
            ValueError,
        )
    return tuple(wanted)


def _unpool(
    input: Tensor, indices: Tensor, kernel_size: Any, stride: Any, padding: Any, output_size: Any, rank: int
) -> Tensor:
    kernel, borders = _numbers(kernel_size, rank), _numbers(padding, rank)
    steps = _numbers(stride, rank) or kernel
    size = _unpooled_size(input, kernel, steps, borders, output_size)
    if rank == 1:
        return run_name("max_unpool2d", input.unsqueeze(-1), indices.unsqueeze(-1), (*size, 1)).squeeze(-1)
    more = (steps, borders) if rank == 3 else ()
    return run_name(f"max_unpool{rank}d", input, indices, size, *more)


def max_unpool1d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Puts maxima back where `max_pool1d` found them, zeros elsewhere.

    >>> F.max_unpool1d(rl.tensor([[3.0]]), rl.tensor([[1]]), 2)
    tensor([[0., 3.]])
    """
    return _unpool(input, indices, kernel_size, stride, padding, output_size, 1)


def max_unpool2d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Puts maxima back where `max_pool2d` found them, zeros elsewhere.

    >>> F.max_unpool2d(rl.tensor([[[3.0]]]), rl.tensor([[[3]]]), 2)
    tensor([[[0., 0.],
             [0., 3.]]])
    """
    return _unpool(input, indices, kernel_size, stride, padding, output_size, 2)


def max_unpool3d(
    input: Tensor,
    indices: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    output_size: Any = None,
) -> Tensor:
    """Puts maxima back where `max_pool3d` found them, zeros elsewhere.

    >>> F.max_unpool3d(rl.tensor([[[[3.0]]]]), rl.tensor([[[[7]]]]), 2).sum()
    tensor(3.)
    """
    return _unpool(input, indices, kernel_size, stride, padding, output_size, 3)
