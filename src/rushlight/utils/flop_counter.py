"""How many floating point operations a program does in matrix products, convolutions and attention.

A dispatch mode sees every operator; a formula for each kind counts a multiplication and an addition as two.
"""

from __future__ import annotations

import functools
import warnings
from collections import defaultdict
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, TypeVar

from ..core.aten import OpOverloadPacket, namespace
from ..core.tensor import Tensor
from ._python_dispatch import TorchDispatchMode
from ._pytree import tree_map
from .module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "register_flop_formula"]

Formula = TypeVar("Formula", bound=Callable[..., Any])
Shape = Sequence[int]
_SUFFIXES = ("", "K", "M", "B", "T")
_ALL = 999_999  # levels of modules

flop_registry: dict[Any, Callable[..., int]] = {}


def _on_shapes(formula: Callable[..., int]) -> Callable[..., int]:
    """A formula that is given tensors, of one that is given their shapes."""

    def shape(value: Any) -> Any:
        return value.shape if isinstance(value, Tensor) else value

    @functools.wraps(formula)
    def counted(*args: Any, out_val: Any = None, **kwargs: Any) -> int:
        args, kwargs, out_shape = tree_map(shape, (args, kwargs, out_val))
        return formula(*args, out_shape=out_shape, **kwargs)

    return counted


def register_flop_formula(targets: Any, get_raw: bool = False) -> Callable[[Formula], Formula]:
    """A decorator: `formula(*args, out_shape=..., **kwargs)` counts for these operators (`rl.ops.aten.mv`), and
    is given the shapes of tensors; with `get_raw` the tensors themselves, and the result as `out_val`.

    >>> @rl.utils.flop_counter.register_flop_formula(rl.ops.aten.dot)
    ... def dot_flop(a, b, *args, out_shape=None, **kwargs):
    ...     return 2 * a[0]
    >>> with rl.utils.flop_counter.FlopCounterMode(display=False) as counter:
    ...     y = rl.ones(3).dot(rl.ones(3))
    >>> counter.get_total_flops()
    6
    """
    several = targets if isinstance(targets, list | tuple) else [targets]

    def register(formula: Formula) -> Formula:
        for target in several:
            if not isinstance(target, OpOverloadPacket):
                raise ValueError(
                    "register_flop_formula(targets): expected each target to be OpOverloadPacket (i.e. "
                    f"torch.ops.mylib.foo), got {target} which is of type {type(target)}"
                )
            if target in flop_registry:
                raise RuntimeError(f"duplicate registrations for {target}")
            flop_registry[target] = formula if get_raw else _on_shapes(formula)
        return formula

    return register


_ATEN = namespace("aten")


@register_flop_formula([_ATEN.mm, _ATEN._scaled_mm])
def mm_flop(a_shape: Shape, b_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    return a_shape[0] * b_shape[1] * 2 * a_shape[1]


@register_flop_formula(_ATEN.addmm)
def addmm_flop(
    self_shape: Shape, a_shape: Shape, b_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    return mm_flop(a_shape, b_shape)


@register_flop_formula(_ATEN.bmm)
def bmm_flop(a_shape: Shape, b_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any) -> int:
    return a_shape[0] * mm_flop(a_shape[1:], b_shape[1:])


@register_flop_formula(_ATEN.baddbmm)
def baddbmm_flop(
    self_shape: Shape, a_shape: Shape, b_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    return bmm_flop(a_shape, b_shape)


def conv_flop_count(x_shape: Shape, w_shape: Shape, out_shape: Shape, transposed: bool = False) -> int:
    """Of a convolution: the weight is applied at each place of the result, of a transposed one at each place of
    what comes in.

    >>> rl.utils.flop_counter.conv_flop_count((1, 2, 8), (3, 2, 5), (1, 3, 4))
    240
    """
    places = (x_shape if transposed else out_shape)[2:]
    return x_shape[0] * prod(places) * 2 * prod(w_shape)


@register_flop_formula([_ATEN.convolution, _ATEN._convolution])
def conv_flop(
    x_shape: Shape,
    w_shape: Shape,
    _bias: Any,
    _stride: Any,
    _padding: Any,
    _dilation: Any,
    transposed: bool,
    *args: Any,
    out_shape: Any = None,
    **kwargs: Any,
) -> int:
    return conv_flop_count(x_shape, w_shape, out_shape, transposed)


@register_flop_formula(_ATEN.convolution_backward)
def conv_backward_flop(
    grad_shape: Shape, x_shape: Shape, w_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    """The gradient of the input is a convolution of that of the result, and that of the weight one of both."""
    transposed, mask = args[4], args[7]
    count = 0
    if mask[0]:
        count += conv_flop_count(grad_shape, w_shape, out_shape[0], not transposed)
    if mask[1]:
        given, by = (grad_shape, x_shape) if transposed else (x_shape, grad_shape)
        count += conv_flop_count(_turned(given), _turned(by), _turned(out_shape[1]))
    return count


def _turned(shape: Shape) -> list[int]:
    return [shape[1], shape[0], *shape[2:]]


def sdpa_flop_count(query_shape: Shape, key_shape: Shape, value_shape: Shape) -> int:
    """Of attention: scores, and the sums of values that they weigh.

    >>> rl.utils.flop_counter.sdpa_flop_count((1, 1, 2, 4), (1, 1, 3, 4), (1, 1, 3, 5))
    108
    """
    batch, heads, length, width = query_shape
    return batch * heads * length * 2 * key_shape[2] * (width + value_shape[3])


@register_flop_formula(
    [_ATEN._scaled_dot_product_efficient_attention, _ATEN._scaled_dot_product_flash_attention]
)
def sdpa_flop(
    query_shape: Shape, key_shape: Shape, value_shape: Shape, *args: Any, out_shape: Any = None, **kwargs: Any
) -> int:
    return sdpa_flop_count(query_shape, key_shape, value_shape)


class FlopCounterMode:
    """A context that counts the operations of what runs in it, for each module and kind of operator. Outside of
    compiled code: while it is open, compiled functions run operator by operator.

    `mods` is not needed; `depth` is how many levels of modules the table shows that is printed at the end, if
    `display`; `custom_mapping` has formulas for further operators.

    >>> model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    >>> with rl.utils.flop_counter.FlopCounterMode(display=False) as counter:
    ...     model(rl.ones(5, 4)).sum().backward()
    >>> counter.get_total_flops()
    420
    """

    def __init__(
        self,
        mods: Any = None,
        depth: int = 2,
        display: bool = True,
        custom_mapping: dict[Any, Any] | None = None,
    ) -> None:
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        self.flop_counts: dict[str, dict[Any, int]] = defaultdict(lambda: defaultdict(int))
        self.depth, self.display = depth, display
        self.mode: _Counting | None = None
        own = custom_mapping or {}
        self.flop_registry = {
            **flop_registry,
            **{op: f if getattr(f, "_get_raw", False) else _on_shapes(f) for op, f in own.items()},
        }
        self.mod_tracker = ModuleTracker()

    def get_total_flops(self) -> int:
        """How many there were."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """How many there were, by the names of modules and operators."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth: int | None = None) -> str:
        """The counts as a text."""
        most = next((d for d in (depth, self.depth) if d is not None), _ALL)
        total = self.get_total_flops()
        names = sorted(name for name in self.flop_counts if name != "Global" and name.count(".") < most)
        rows = [row for name in names for row in self._rows(name, name.count("."), total)]
        covered = any(sum(self.flop_counts[name].values()) >= total for name in names)
        if "Global" in self.flop_counts and not covered:
            rows = [*self._rows("Global", 0, total), *((f" {name}", *rest) for name, *rest in rows)]
        return _table([("Module", "FLOP", "% Total"), *(rows or [("Global", "0", "0%")])])

    def _rows(self, name: str, depth: int, total: int) -> list[Any]:
        index = max(0, min(len(_SUFFIXES) - 1, (len(str(total)) - 2) // 3))
        counts = self.flop_counts[name]

        def row(what: str, count: int) -> tuple[str, str, str]:
            share = f"{count / total:.2%}" if total else "0%"
            return " " * depth + what, f"{count / 1000**index:.3f}{_SUFFIXES[index]}", share

        return [row(name, sum(counts.values())), *(row(f" - {op}", count) for op, count in counts.items())]

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts.clear()
        self.mod_tracker.__enter__()
        self.mode = _Counting(self)
        self.mode.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        assert self.mode is not None
        self.mode.__exit__(*exception)
        self.mode = None
        self.mod_tracker.__exit__()
        if self.display:
            print(self.get_table(self.depth))

    def _count_flops(self, func_packet: Any, out: Any, args: Any, kwargs: Any) -> Any:
        """Count a call, and give its result back."""
        formula = self.flop_registry.get(func_packet)
        if formula is not None:
            count = formula(*args, **kwargs, out_val=out)
            for name in self.mod_tracker.parents:
                self.flop_counts[name][func_packet] += count
        return out


class _Counting(TorchDispatchMode):
    def __init__(self, counter: FlopCounterMode) -> None:
        self._counter = counter

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        return self._counter._count_flops(func.overloadpacket, func(*args, **kwargs), args, kwargs)


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Rows under a header, the first column at the left and the others at the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    least = [max(width, len(title) + 2) for width, title in zip(widths, rows[0], strict=True)]
    lines = [
        "  ".join(
            cell.rjust(width) if i else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, least, strict=True))
        )
        for row in rows
    ]
    lines.insert(1, "  ".join("-" * width for width in least))
    return "\n".join(line.rstrip() if i == 1 else line for i, line in enumerate(lines))
