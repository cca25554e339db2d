"""What a call of an exported program must be like."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..core import pytree
from ..core.tensor import Tensor
from ..nn.modules.module import Module
from ._sizes import Condition


class CallSpec(NamedTuple):
    """The structures of what a call takes, (args, kwargs), and gives."""

    in_spec: pytree.TreeSpec
    out_spec: pytree.TreeSpec


@dataclass(frozen=True)
class Inputs:
    """What a call of an exported program must be like."""

    names: tuple[str, ...]  # of the leaves of its arguments
    positional: tuple[str, ...]  # the names of its arguments
    keywords: tuple[str, ...]
    spec: CallSpec
    shapes: tuple[
        tuple[int | None, ...] | None, ...
    ]  # of each leaf, None for a size that changes; None for no tensor
    constants: tuple[Any, ...]  # leaves that are no tensors
    symbols: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()

    def check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Raise an error if a call is of another kind than the one that was exported."""
        leaves, spec = pytree.flatten((tuple(args), _in_order(kwargs, self.keywords)))
        if spec != self.spec.in_spec:
            raise ValueError(
                f"Trying to flatten user inputs with exported input tree spec: "
                f"\n{self.spec.in_spec}\nbut actually "
                f"got inputs with tree spec of: \n{spec}.\nPlease check that the inputs have the same number and "
                "type of args and kwargs as the ones you used when tracing."
            )
        rows = zip(self.names, self.shapes, self.constants, leaves, strict=True)
        for name, shape, constant, leaf in rows:
            if shape is None:
                _require(leaf.__class__ is constant.__class__ and leaf == constant, f"{name} == {constant!r}")
                continue
            _require(isinstance(leaf, Tensor), f"isinstance({name}, Tensor)")
            _require(len(shape) == leaf.ndim, f"{name}.dim() == {len(shape)}")
            for d, size in enumerate(shape):
                _require(size is None or leaf.shape[d] == size, f"{name}.size()[{d}] == {size}")
        sizes = {symbol: leaves[leaf].shape[d] for symbol, (leaf, d) in self.symbols.items()}
        words = {symbol: f"{self.names[leaf]}.size()[{d}]" for symbol, (leaf, d) in self.symbols.items()}
        for condition in self.conditions:
            _require(condition.holds(sizes), condition.text(words))


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise AssertionError(f"Guard failed: {what}")


def _in_order(kwargs: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """Arguments by name in the order of the example; others behind them."""
    known = {name: kwargs[name] for name in names if name in kwargs}
    return {**known, **kwargs}


class CheckInputs:
    """What runs before a module that was exported: it looks at the arguments."""

    def __init__(self, inputs: Inputs) -> None:
        self._inputs = inputs

    def __call__(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self._inputs.check(args, kwargs)
        return args, _in_order(kwargs, self._inputs.keywords)
