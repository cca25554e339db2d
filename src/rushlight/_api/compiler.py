"""What a program says to the compiler, or asks it: the functions of `rushlight.compiler`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.construct import from_numpy
from ..core.dispatch import AMBIENT
from ..core.errors import check
from ..core.lazy import LazyModule
from ..core.modes import MODES, run_pieces_by
from ..core.pytree import tree_map
from ..core.stance import STANCE, STANCES, set_stance_name
from ..core.tensor import Tensor
from .compile import NATIVE, UNCOMPILED

_module = LazyModule("rushlight.nn.modules.module")


def is_compiling() -> bool:
    """Whether the program is being captured: what runs now is recorded, on tensors without data.

    >>> rl.compiler.is_compiling()
    False
    """
    trace = AMBIENT.trace
    return trace is not None and getattr(trace, "reason", None) is None


def is_dynamo_compiling() -> bool:
    """Whether a function is being captured; the same as `is_compiling` here.

    >>> rl.compiler.is_dynamo_compiling()
    False
    """
    return is_compiling()


def is_exporting() -> bool:
    """Whether a program is being captured to be written to a file, which rushlight does not do.

    >>> rl.compiler.is_exporting()
    False
    """
    return False


def disable(
    fn: Callable[..., Any] | None = None, recursive: bool = True, *, reason: str | None = None
) -> Any:
    """`fn`, never compiled: a captured program that calls it is left there and goes on eagerly, or is refused
    under fullgraph=True, with `reason`. Of a module it is the forward that is so. If not `recursive`, modules
    that `fn` calls may still be compiled on their own. Without `fn` it is a decorator.

    >>> rl.compiler.disable(lambda x: x + 1)(rl.ones(2))
    tensor([2., 2.])
    """
    if fn is None:
        return lambda function: disable(function, recursive, reason=reason)
    if isinstance(fn, _module.Module):
        fn.forward = disable(fn.forward, recursive, reason=reason)
        return fn
    name = getattr(fn, "__qualname__", type(fn).__name__)

    @functools.wraps(fn)
    def uncompiled(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            AMBIENT.trace.refuse(
                f"{name}, for which compilation is disabled" + (f" ({reason})" if reason else "")
            )
        if not recursive or MODES.pieces is None:
            return fn(*args, **kwargs)
        with run_pieces_by(None):
            return fn(*args, **kwargs)

    return uncompiled


def reset() -> None:
    """Forget every compiled form: the next calls compile anew.

    >>> rl.compiler.reset()
    """
    for forget in _on_reset:
        forget()


_on_reset: list[Callable[[], None]] = []


def on_reset(forget: Callable[[], None]) -> None:
    """Have `forget` called when compiled forms are to be forgotten."""
    _on_reset.append(forget)


def list_backends(exclude_tags: Sequence[str] | None = ("debug", "experimental")) -> list[str]:
    """The names that `compile(backend=)` takes; those that compile nothing are for debugging.

    >>> isinstance(rl.compiler.list_backends(), list)
    True
    """
    debugging = () if exclude_tags is not None and "debug" in exclude_tags else UNCOMPILED
    return sorted((*NATIVE, *debugging))


def allow_in_graph(fn: Any) -> Any:
    """`fn` itself (or a list of functions): capture records the operators of any function, whatever its code.

    >>> rl.compiler.allow_in_graph(rl.sin) is rl.sin
    True
    """
    if isinstance(fn, list | tuple):
        return [allow_in_graph(each) for each in fn]
    check(callable(fn), "allow_in_graph expects a callable", AssertionError)
    return fn


def assume_constant_result(fn: Any) -> Any:
    """`fn` itself: it runs when a program is captured, and what it gives is part of the captured program.

    >>> three = rl.compiler.assume_constant_result(lambda: 3)
    >>> rl.compile(lambda x: x * three())(rl.ones(2))
    tensor([3., 3.])
    """
    return fn


class set_stance:
    """Say what compiled functions do with calls that are not compiled yet (core/stance.py lists the stances).

    A call sets it; as a context manager or decorator it holds for a block or a function:

    >>> import rushlight as rl
    >>> function = rl.compile(lambda x: x + 1)
    >>> with rl.compiler.set_stance("force_eager"):
    ...     function(rl.ones(2))
    tensor([2., 2.])
    """

    def __init__(
        self, stance: str = "default", *, skip_guard_eval_unsafe: bool = False, force_backend: Any = None
    ) -> None:
        check(not is_compiling(), "set_stance cannot be called in a compiled function", RuntimeError)
        check(
            stance in STANCES,
            f"set_stance: invalid stance {stance!r}; the stances are {', '.join(STANCES)}",
            RuntimeError,
        )
        check(
            not skip_guard_eval_unsafe,
            "set_stance: guards are evaluated in every call; skip_guard_eval_unsafe=True is not available",
            NotImplementedError,
        )
        check(
            force_backend is None or stance == "default",
            "set_stance: non-default stance cannot have force_backend set",
            RuntimeError,
        )
        check(
            force_backend is None,
            "set_stance: force_backend is not available, since there is one compiler; to run compiled functions "
            "as they are, use set_stance('force_eager')",
            NotImplementedError,
        )
        self.stance = stance
        self.before = STANCE.name
        set_stance_name(stance)

    def __enter__(self) -> None:
        set_stance_name(self.stance)

    def __exit__(self, *exception: object) -> None:
        set_stance_name(self.before)

    def __call__(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        set_stance_name(self.before)  # it holds inside of the function only

        @functools.wraps(fn)
        def with_stance(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self.stance):
                return fn(*args, **kwargs)

        return with_stance


def wrap_numpy(fn: Callable[..., Any]) -> Callable[..., Any]:
    """A function of tensors, of a function of NumPy arrays: tensors among its arguments become arrays over the
    same memory, arrays among its results tensors. It reads values, so that a captured program breaks there.

    >>> rl.compiler.wrap_numpy(lambda x: np.square(x))(rl.tensor([3.0]))
    tensor([9.])
    """

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        args, kwargs = tree_map(_as_array, (args, kwargs))
        return tree_map(
            lambda leaf: from_numpy(leaf) if isinstance(leaf, np.ndarray) else leaf, fn(*args, **kwargs)
        )

    return wrapped


def _as_array(leaf: Any) -> Any:
    return leaf.numpy() if isinstance(leaf, Tensor) else leaf


def _as_tensor(leaf: Any) -> Any:
    return from_numpy(leaf) if isinstance(leaf, np.ndarray) else leaf


def substitute_in_graph(
    original_fn: Callable[..., Any],
    *,
    can_constant_fold_through: bool = False,
    skip_signature_check: bool = False,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator that gives back the function it is put on, with the signature checked.

    PyTorch reads a program's bytecode, and needs a Python form of functions that have none. Here a program runs
    when it is captured, and functions without bytecode run with it: there is nothing to substitute, and whether
    calls of it may be folded (`can_constant_fold_through`) makes no difference.

    >>> import operator
    >>> @rl.compiler.substitute_in_graph(operator.indexOf, skip_signature_check=True)
    ... def index_of(sequence, x):
    ...     return list(sequence).index(x)
    >>> index_of([2, 3], 3)
    1
    """
    check(
        callable(original_fn),
        f"substitute_in_graph expects a function but got {type(original_fn)}",
        TypeError,
    )

    def decorate(traceable_fn: Callable[..., Any]) -> Callable[..., Any]:
        check(
            callable(traceable_fn),
            f"@substitute_in_graph(...) expects a function but got {type(traceable_fn)}",
            TypeError,
        )
        if not skip_signature_check:
            _check_signatures(original_fn, traceable_fn)
        return traceable_fn

    return decorate


def _check_signatures(original: Callable[..., Any], traceable: Callable[..., Any]) -> None:
    try:
        wanted, given = inspect.signature(original), inspect.signature(traceable)
    except ValueError:  # a builtin without a signature
        return
    names = [(p.name, p.kind) for p in wanted.parameters.values()]
    check(
        names == [(p.name, p.kind) for p in given.parameters.values()],
        f"Signature mismatch between {original} and {traceable}: {wanted} != {given}",
        TypeError,
    )


def cudagraph_mark_step_begin() -> None:
    """Nothing: there are no CUDA graphs here, whose memory another step could take over.

    >>> rl.compiler.cudagraph_mark_step_begin()
    """
