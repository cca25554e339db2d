"""Hooks on what is saved for backward: a pair of functions that packs each tensor and unpacks it again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.errors import check
from ..core.modes import MODES
from ..core.tensor import Tensor
from .grad_mode import Mode


class saved_tensors_hooks:
    """Inside, `pack_hook(tensor)` is kept in place of each tensor saved for backward, and `unpack_hook`
    undoes it.

    >>> x = rl.ones(1, requires_grad=True)
    >>> with rl.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(), rl.from_numpy):
    ...     y = x.detach().exp() * x
    >>> y.sum().backward()
    >>> x.grad
    tensor([2.7183])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        reason = MODES.hooks_disabled
        check(reason is None, str(reason))
        MODES.saved_hooks = (*MODES.saved_hooks, (self.pack_hook, self.unpack_hook))

    def __exit__(self, *exception: Any) -> None:
        MODES.saved_hooks = MODES.saved_hooks[:-1]


class save_on_cpu(saved_tensors_hooks):
    """Saved tensors are copied, so that later writes to them do not matter. All tensors live on the CPU
    already.

    >>> x = rl.ones(1, requires_grad=True)
    >>> with rl.autograd.graph.save_on_cpu():
    ...     y = x.exp()
    >>> y.sum().backward()
    >>> x.grad
    tensor([2.7183])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cpu") -> None:
        super().__init__(lambda tensor: tensor.clone(), lambda packed: packed)


class disable_saved_tensors_hooks(Mode):
    """Inside, saved-tensor hooks are refused with `error_message`.

    >>> with rl.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
    ...     (rl.ones(1, requires_grad=True) * 2).requires_grad
    True
    """

    def __init__(self, error_message: str) -> None:
        self.message = error_message

    def __enter__(self) -> None:
        check(not MODES.saved_hooks, self.message)
        self._saved = MODES.hooks_disabled
        MODES.hooks_disabled = self.message

    def __exit__(self, *exception: Any) -> None:
        MODES.hooks_disabled = self._saved

    def clone(self) -> disable_saved_tensors_hooks:
        return disable_saved_tensors_hooks(self.message)
