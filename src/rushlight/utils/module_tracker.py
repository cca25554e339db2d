"""Which modules are running, forward or backward."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from ..autograd.graph import register_multi_grad_hook
from ..autograd.variable import Variable
from ..core.modes import MODES
from ..core.tensor import Tensor
from ..nn.modules.module import Module, register_module_forward_hook, register_module_forward_pre_hook
from ._pytree import tree_leaves

__all__ = ["ModuleTracker"]


class ModuleTracker:
    """While it is open as a context, `parents` has the names of the modules that are running, and "Global";
    `is_bw` says whether a backward pass is.

    A module's name begins with the class of the outermost one: "Net.first".

    >>> seen, layer = [], nn.Linear(2, 2)
    >>> with rl.utils.module_tracker.ModuleTracker() as tracker:
    ...     handle = layer.register_forward_hook(lambda *_: seen.extend(sorted(tracker.parents)))
    ...     y = layer(rl.ones(1, 2))
    >>> seen
    ['Global', 'Linear']
    """

    parents: set[str]

    def __init__(self) -> None:
        self.parents = {"Global"}
        self._names: weakref.WeakKeyDictionary[Module, str] = weakref.WeakKeyDictionary()
        self._named: weakref.WeakSet[Module] = weakref.WeakSet()  # whose parts have names as well
        self._hooks: list[Any] = []  # their handles
        self._ends = False  # whether the backward pass that runs tells when it ends

    @property
    def is_bw(self) -> bool:
        return MODES.run is not None

    def __enter__(self) -> ModuleTracker:
        self._hooks = [
            register_module_forward_pre_hook(self._begins),
            register_module_forward_hook(self._ended),
        ]
        return self

    def __exit__(self, *exception: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _name(self, module: Module) -> str:
        name = self._names.setdefault(module, type(module).__name__)
        if module not in self._named:
            self._named.add(module)
            for part, inner in module.named_children():
                self._names[inner] = f"{name}.{part}"
                self._name(inner)
        return name

    def _begins(self, module: Module, args: Any) -> None:
        name = self._name(module)
        self.parents.add(name)
        self._when_all_arrive(args, lambda *_: self.parents.discard(name))

    def _ended(self, module: Module, args: Any, output: Any) -> None:
        name = self._name(module)
        self.parents.discard(name)

        def enter(*_: Any) -> None:
            if not self._ends:
                self._ends = True
                Variable._execution_engine.queue_callback(self._backward_ended)
            self.parents.add(name)

        self._when_all_arrive(output, enter)

    def _backward_ended(self) -> None:
        self.parents, self._ends = {"Global"}, False

    def _when_all_arrive(self, values: Any, hook: Callable[..., None]) -> None:
        """Call `hook` when the gradients of these tensors are there."""
        tensors = [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor) and leaf.requires_grad]
        if tensors:
            self._hooks.append(register_multi_grad_hook(tensors, hook))
