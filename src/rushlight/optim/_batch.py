"""What an update works with: the tensors of one group in one step, and operators on lists of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from .._api.link import API
from ..autograd.grad_mode import is_grad_enabled
from ..capture.numbers import live_number
from ..core.dispatch import AMBIENT
from ..core.dtypes import float32, float64, get_default_dtype
from ..core.errors import check
from ..core.modes import MODES
from ..core.tensor import AUTOGRAD, Tensor, wrap
from ..core.tokens import preserve_format

if TYPE_CHECKING:
    from .optimizer import Optimizer

functions: Any = API.functions[""]


class _Foreach:
    """`foreach.add_(tensors, ...)` is the operator `_foreach_add_`."""

    def __getattr__(self, name: str) -> Any:
        function = functions[f"_foreach_{name}"]
        setattr(self, name, function)
        return function


foreach: Any = _Foreach()


# Capture.


def capturing() -> bool:
    """Whether this step is being captured, so that no value can be looked at."""
    return AMBIENT.trace is not None


@contextmanager
def outside_of_capture() -> Iterator[None]:
    """State that a captured step needs is made at once: it is the caller's, not the program's."""
    saved = AMBIENT.keys, AMBIENT.trace
    AMBIENT.keys, AMBIENT.trace = 0, None
    try:
        yield
    finally:
        AMBIENT.keys, AMBIENT.trace = saved


def by_rows(update: Callable[..., None]) -> Callable[..., None]:
    """Declares that an `_update` takes each parameter by itself, and writes to it and the tensors of its state,
    but neither makes such tensors nor asks for anything that is kept elsewhere: a capture runs it once for
    parameters that look alike."""
    update.by_rows = True  # type: ignore[attr-defined]
    return update


def by_elements(update: Callable[..., None]) -> Callable[..., None]:
    """Declares an `_update` that is `by_rows`, and takes elements one by one, whatever the shape: native code
    runs it on rows without dimensions (_native.py)."""
    update.by_elements = True  # type: ignore[attr-defined]
    return by_rows(update)


class Batch:
    """The parameters of one group that have gradients, in one step.

    params, grads   lists; gradients are negated to maximize, complex tensors seen as pairs of reals if
    `as_real`
    batch.lr        a hyperparameter of the group (in a capture, one that stays live)
    batch.states    the states of the parameters; `column(name)` is one tensor of each
    """

    def __init__(self, optimizer: Optimizer, index: int, as_real: bool = True) -> None:
        self._optimizer, self._index = optimizer, index
        group = optimizer.param_groups[index]
        self.leaves = [param for param in group["params"] if param.grad is not None]
        self.states = [optimizer._state_of(param, group) for param in self.leaves]
        if is_grad_enabled():  # what this step writes may be saved for the gradient of the one before
            for state in self.states:
                state.update({k: v.clone() for k, v in state.items() if isinstance(v, Tensor)})
        self.real = as_real
        self.params = [self._seen(param) for param in self.leaves]
        self.grads = [self._seen(param.grad) for param in self.leaves]
        check(
            optimizer._takes_sparse or all(grad._parts is None for grad in self.grads),
            f"{type(optimizer).__name__} does not support sparse gradients; SGD, Adagrad and SparseAdam do",
        )
        if self.grads and "maximize" in group and self.maximize:
            self.grads = list(foreach.neg(self.grads))

    def rows(self) -> list[list[Tensor]]:
        """What belongs to each parameter: itself, its gradient, and the tensors of its state."""
        return [
            [param, grad, *(value for value in state.values() if isinstance(value, Tensor))]
            for param, grad, state in zip(self.params, self.grads, self.states, strict=True)
        ]

    def part(self, numbers: Sequence[int]) -> Batch:
        """The batch of some of the parameters, by their numbers."""
        if len(numbers) == len(self.params):
            return self
        part: Batch = object.__new__(Batch)
        vars(part).update(vars(self))
        part.leaves = [self.leaves[n] for n in numbers]
        part.states = [self.states[n] for n in numbers]
        part.params = [self.params[n] for n in numbers]
        part.grads = [self.grads[n] for n in numbers]
        return part

    def _seen(self, tensor: Tensor) -> Tensor:
        return functions["view_as_real"](tensor) if self.real and tensor.is_complex() else tensor

    def __getattr__(self, name: str) -> Any:
        """The hyperparameter `name`; a sequence of them as a tuple."""
        group = self._optimizer.param_groups[self._index]
        if name not in group:
            raise AttributeError(f"{type(self._optimizer).__name__} has no hyperparameter {name}")
        value = group[name]
        if isinstance(value, tuple | list):
            return tuple(self._live(name, i) for i in range(len(value)))
        return self._live(name)

    def _live(self, name: str, item: int | None = None) -> Any:
        optimizer, index = self._optimizer, self._index
        value = live_number(
            lambda: (
                optimizer.param_groups[index][name]
                if item is None
                else optimizer.param_groups[index][name][item]
            )
        )
        return value.squeeze() if isinstance(value, Tensor) and value.ndim else value

    def column(self, name: str) -> list[Tensor]:
        return [self._seen(state[name]) for state in self.states]

    def advance(self) -> list[Any]:
        """Count the step; how many there were, for each parameter: numbers, or 0-d tensors in a capture."""
        steps = [state["step"] for state in self.states]
        if not capturing():
            return [_counted(step) for step in steps]
        counted = foreach.add(steps, 1)
        foreach.copy_(steps, counted)
        # single precision would spoil 1 - 0.999**step
        return self.of_steps(lambda count: count.to(float64), list(counted))

    def of_steps(self, function: Callable[[Any], Any], steps: list[Any]) -> list[Any]:
        """`function(step)` for each of the numbers, or tensors, that `advance` gives."""
        trace = AMBIENT.trace
        return [function(step) for step in steps] if trace is None else trace.map_alike(function, steps)

    def power(self, base: Any, exponent: Any) -> Any:
        """base ** exponent; of a tensor in a capture, with an exponent that stays live."""
        if not isinstance(base, Tensor) or isinstance(exponent, Tensor):
            return base**exponent
        return functions["pow"](base, functions["zeros"]((), dtype=float64) + exponent)

    def values(self, scalars: list[Tensor]) -> list[Any]:
        """The values of 0-d tensors of the state: numbers, or 0-d tensors in a capture and where their
        gradients are wanted."""
        return [
            scalar.to(float64) if capturing() or scalar.requires_grad else scalar.item() for scalar in scalars
        ]

    def spread(self, value: Any) -> Any:
        """A hyperparameter as an operand of a foreach operator: a tensor is repeated for every element."""
        return [value] * len(self.params) if isinstance(value, Tensor) else value


def _counted(step: Tensor) -> Any:
    """Count a step; how many there were."""
    array = step._array
    if array is None or step._keys or AMBIENT.keys or not array.flags.carray:
        return step.add_(1).item()
    array += 1
    step.version_counter.value += 1
    return array.item()


def new_step(value: float = 0.0) -> Tensor:
    """The count of steps: a 0-d float tensor, so that compiled code can count."""
    dtype = float64 if get_default_dtype() is float64 else float32
    if AMBIENT.keys or MODES.devices or MODES.functions or MODES.inference:
        return functions["full"]((), float(value), dtype=dtype)
    return wrap(np.array(value, dtype.numpy))


def decayed(batch: Batch) -> list[Tensor]:
    """The gradients with the weight decay added; a decoupled one changes the parameters at once."""
    weight_decay = batch.weight_decay
    if weight_decay == 0:
        return batch.grads
    if getattr(batch, "decoupled_weight_decay", False):
        foreach.mul_(batch.params, 1 - batch.lr * weight_decay)
        return batch.grads
    return list(foreach.add(batch.grads, foreach.mul(batch.params, weight_decay)))


def average_squares(squares: list[Tensor], grads: list[Tensor], rate: Any) -> None:
    """The exponential average of the squares of the gradients."""
    foreach.mul_(squares, rate)
    foreach.add_(squares, foreach.mul(foreach.mul(grads, grads), 1 - rate))


def zeros_like(param: Tensor) -> Tensor:
    array = param._array
    seen = AMBIENT.keys or MODES.functions or MODES.inference or param._keys & ~AUTOGRAD
    if array is not None and not seen and param._spec is None and array.flags.carray:
        return wrap(np.zeros(array.shape, array.dtype))
    return functions["zeros_like"](param, memory_format=preserve_format)
