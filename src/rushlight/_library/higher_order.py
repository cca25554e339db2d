"""Operators that a program defines by rules of its own for every transform, mode, class and dispatch key.

In: a call. Out: what the rule gives that was registered for whoever is first to run it: the innermost open
transform, else autograd, else the innermost dispatch mode, else a class among the arguments, else the device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from .._functorch.pyfunctorch import interpreter_of
from ..core import pytree
from ..core.dispatch_keys import DispatchKey
from ..core.modes import MODES
from ..core.overrides import modes_replaced
from ..core.python_dispatch import dispatching_types
from ..core.tensor import Tensor

Rule = Callable[..., Any]


class HigherOrderOperator:
    """Subclass it, give the instance a name, and register rules with `py_impl`."""

    _known: ClassVar[dict[str, HigherOrderOperator]] = {}

    def __init__(self, name: str) -> None:
        if type(self) is HigherOrderOperator:
            raise RuntimeError(
                "Direct instantiation of HigherOrderOperator is not allowed. Please subclass it."
            )
        self._name = self.__name__ = name
        self._rules: dict[Any, Rule] = {}
        self._known[name] = self

    def name(self) -> str:
        return self._name

    @property
    def namespace(self) -> str:
        return "higher_order"

    def __str__(self) -> str:
        return f"higher_order.{self._name}"

    def py_impl(self, key: Any) -> Callable[[Rule], Rule]:
        """Register the decorated function for a transform, a mode, a class of tensors or a dispatch key."""
        if key in self._rules:
            raise RuntimeError(f"Trying to override a python impl for {key} on operator {self._name}")

        def register(rule: Rule) -> Rule:
            self._rules[key] = rule
            return rule

        return register

    def _rule(self, key: Any, what: str) -> Rule:
        if key not in self._rules:
            raise NotImplementedError(
                f"There was no rule registered for HigherOrderOperator {self._name} and {what}"
            )
        return self._rules[key]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        if MODES.transforms:
            transform = MODES.transforms[-1]
            rule = self._rule(transform.kind, f"the transform {transform.kind.name}")
            return rule(interpreter_of(transform), *args, **kwargs)
        tensors = [leaf for leaf in pytree.flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
        device = "Meta" if any(tensor.is_meta for tensor in tensors) else "CPU"
        recorded = None if MODES.below else self._first(f"Autograd{device}", "Autograd")
        if recorded is not None:
            return recorded(*args, **kwargs)
        found = NotImplemented if MODES.undispatched else self._dispatched(tensors, args, kwargs)
        if found is not NotImplemented:
            return found
        computed = self._first(device, "CompositeExplicitAutograd", "CompositeImplicitAutograd")
        return (computed or self._rule(DispatchKey[device], f"the dispatch key {device}"))(*args, **kwargs)

    def _first(self, *names: str) -> Rule | None:
        """The first rule that there is for some dispatch keys."""
        return next((self._rules[DispatchKey[n]] for n in names if DispatchKey[n] in self._rules), None)

    def _dispatched(self, tensors: list[Tensor], args: Any, kwargs: Any) -> Any:
        """What the innermost mode, or else a class of the arguments, makes of a call."""
        modes = MODES.dispatchers
        found: Any = NotImplemented
        if modes:
            with modes_replaced(modes[:-1]):
                found = self._rule(type(modes[-1]), f"the mode {modes[-1]}")(modes[-1], *args, **kwargs)
        for kind in dispatching_types(tensors):
            if found is NotImplemented:
                found = self._rule(kind, f"the class {kind.__name__}")(*args, **kwargs)
        return found
