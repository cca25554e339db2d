"""Switching the recording of operations on and off: context managers that also decorate functions."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from ..core.dispatch import AMBIENT
from ..core.modes import MODES
from ..core.tensor import AUTOGRAD

Function = TypeVar("Function", bound=Callable[..., Any])


class Mode:
    """A context manager that, called on a function, makes the function run inside it."""

    def __enter__(self) -> Any:
        raise NotImplementedError

    def __exit__(self, *exception: Any) -> None:
        raise NotImplementedError

    def clone(self) -> Mode:
        return type(self)()

    def __call__(self, function: Function) -> Function:
        if inspect.isclass(function):
            warnings.warn(
                "Decorating classes is deprecated: only their construction runs inside of the "
                "mode. Decorate __init__ and the methods that are meant.",
                FutureWarning,
                stacklevel=2,
            )
        if inspect.isgeneratorfunction(function):
            return _decorated_generator(self, function)  # type: ignore[return-value]

        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with self.clone():
                return function(*args, **kwargs)

        return inside  # type: ignore[return-value]


def _decorated_generator(mode: Mode, function: Callable[..., Any]) -> Callable[..., Any]:
    """A generator whose body, but not whose caller, runs inside the mode."""

    @functools.wraps(function)
    def inside(*args: Any, **kwargs: Any) -> Any:
        generator = function(*args, **kwargs)
        step: Callable[[], Any] = lambda: next(generator)  # noqa: E731
        while True:
            try:
                with mode.clone():
                    value = step()
            except StopIteration as stop:
                return stop.value
            try:
                sent = yield value
            except GeneratorExit:
                with mode.clone():
                    generator.close()
                raise
            except BaseException as error:
                step = functools.partial(generator.throw, error)
            else:
                step = functools.partial(generator.send, sent)

    return inside


class _GradMode(Mode):
    _value = False

    def __init__(self) -> None:
        self._saved: list[tuple[bool, bool]] = []

    def __new__(cls, function: Any = None) -> Any:
        """`@no_grad` without parentheses decorates as `@no_grad()` does."""
        mode = object.__new__(cls)
        if function is None:
            return mode
        mode._saved = []
        return mode(function)

    def __enter__(self) -> None:
        self._saved.append((MODES.grad, MODES.constant))
        MODES.grad, MODES.constant = self._value, not self._value

    def __exit__(self, *exception: Any) -> None:
        MODES.grad, MODES.constant = self._saved.pop()


class no_grad(_GradMode):
    """Nothing is recorded inside.

    >>> x = rl.ones(2, requires_grad=True)
    >>> with rl.no_grad():
    ...     (x * 2).requires_grad
    False
    """


class enable_grad(_GradMode):
    """Operations are recorded inside, whatever holds outside.

    >>> with rl.no_grad(), rl.enable_grad():
    ...     rl.is_grad_enabled()
    True
    """

    _value = True


class set_grad_enabled(Mode):
    """Switch recording on or off: for good when called as a function, inside when used with `with`.

    >>> with rl.set_grad_enabled(False):
    ...     rl.is_grad_enabled()
    False
    """

    def __init__(self, mode: bool) -> None:
        self._saved = MODES.grad, MODES.constant
        self.mode = bool(mode)
        self._set()

    def _set(self) -> None:
        MODES.grad, MODES.constant = self.mode, not self.mode

    def __enter__(self) -> None:
        self._set()

    def __exit__(self, *exception: Any) -> None:
        MODES.grad, MODES.constant = self._saved

    def clone(self) -> set_grad_enabled:
        return type(self)(self.mode)

    def __call__(self, function: Function) -> Function:
        MODES.grad, MODES.constant = self._saved  # it was meant for the function, not for here
        return super().__call__(function)


class recording_updates(set_grad_enabled):
    """Switch recording on or off for the updates of an optimizer, which nobody takes derivatives of."""

    def _set(self) -> None:
        MODES.grad = self.mode


class inference_mode(Mode):
    """Nothing is recorded inside, and tensors made inside can never take part in autograd.

    >>> with rl.inference_mode():
    ...     rl.ones(2).is_inference()
    True
    """

    def __new__(cls, mode: Any = True) -> Any:
        if isinstance(mode, bool):
            return object.__new__(cls)
        return cls()(mode)

    def __init__(self, mode: bool = True) -> None:
        self.mode = mode
        self._saved: list[tuple[bool, bool, bool, int]] = []

    def __enter__(self) -> None:
        self._saved.append((MODES.inference, MODES.grad, MODES.forward_grad, AMBIENT.keys))
        MODES.inference = self.mode
        MODES.grad = MODES.forward_grad = not self.mode
        AMBIENT.keys = AMBIENT.keys | AUTOGRAD if self.mode else AMBIENT.keys & ~AUTOGRAD

    def __exit__(self, *exception: Any) -> None:
        MODES.inference, MODES.grad, MODES.forward_grad, AMBIENT.keys = self._saved.pop()

    def clone(self) -> inference_mode:
        return inference_mode(self.mode)


def is_grad_enabled() -> bool:
    """Whether operations are recorded for autograd.

    >>> rl.is_grad_enabled()
    True
    """
    return MODES.grad


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on.

    >>> rl.is_inference_mode_enabled()
    False
    """
    return MODES.inference


def is_multithreading_enabled() -> bool:
    """Whether backward may use threads.

    >>> rl.autograd.is_multithreading_enabled()
    True
    """
    return MODES.multithreading


class set_multithreading_enabled(Mode):
    """Whether a backward pass may use threads: for good when called as a function, inside when used with
    `with`. A pass of this library runs on the thread that asked for it either way.

    >>> with rl.autograd.set_multithreading_enabled(True):
    ...     rl.autograd.is_multithreading_enabled()
    True
    """

    def __init__(self, mode: bool) -> None:
        self._saved = MODES.multithreading
        self.mode = mode
        MODES.multithreading = mode

    def __enter__(self) -> None:
        MODES.multithreading = self.mode

    def __exit__(self, *exception: Any) -> None:
        MODES.multithreading = self._saved

    def __call__(self, function: Function) -> Function:
        MODES.multithreading = self._saved  # it was meant for the function, not for here
        return super().__call__(function)

    def clone(self) -> set_multithreading_enabled:
        return set_multithreading_enabled(self.mode)
