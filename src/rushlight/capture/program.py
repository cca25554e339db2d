"""Capturing a call: the function runs once, on abstract tensors, and what it did is summarized.

`capture_call` raises `CaptureError` where there is no graph; `try_capture` runs such a program to its end
instead. Nothing of the caller is changed by a capture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from operator import itemgetter
from typing import Any, TypeVar

from ..core.atoms import INFINITY
from ..core.modes import MODES
from ..core.pytree import flatten
from ..core.shapes import extent
from ..core.tensor import Tensor
from .captured_call import CapturedCall
from .deferred import plain
from .effects import Changes, Contents, stores_of, undo
from .errors import CaptureError, Problem, StateError
from .hooks import watched
from .locations import NOTHING_KNOWN, Environment
from .sizes import NOTHING_CHANGES, Changing, SymbolicArguments
from .summary import Summary
from .tensor_attributes import own_attributes
from .tentative import TentativeCapture
from .trace import Capture, Compose

Result = TypeVar("Result")


def capture_call(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    environment: Environment = NOTHING_KNOWN,
    changing: Changing = NOTHING_CHANGES,
    compose: Compose | None = None,
) -> CapturedCall:
    """Run `function` on abstract tensors and return what it did. Nothing of the caller is changed.

    `changing`: which sizes of the arguments are symbols; `compose` makes fewer nodes of those of an update."""
    return capture_with(_summary, function, args, kwargs, environment, changing, compose)


def capture_own(function: Callable[..., Any], args: tuple[Any, ...], changing: Changing) -> CapturedCall:
    """As `capture_call`, of a function of the package's that prints nothing and reads no clock, on any thread:
    nothing of the process is changed meanwhile."""
    return capture_with(_summary, function, args, {}, NOTHING_KNOWN, changing, watch=nullcontext)


def capture_with(
    summarize: Callable[[Capture, Environment, Contents, Any], Result],
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    environment: Environment = NOTHING_KNOWN,
    changing: Changing = NOTHING_CHANGES,
    compose: Compose | None = None,
    watch: Callable[[], AbstractContextManager[None]] = watched,
) -> Result:
    """As `capture_call`; what `summarize` makes of what the function did and returned."""
    capture = Capture(environment=environment)
    capture.compose = compose
    try:
        with watch(), watching(capture), capture:
            if environment.refusal is not None:
                raise CaptureError(environment.refusal, "")
            capture.allow_data_sizes()
            args, kwargs = with_live_numbers(capture, args, kwargs, not environment.asks_types, changing)
            capture.symbolic = SymbolicArguments(capture.numbers, args, kwargs, changing)
            meet_arguments(capture, args, kwargs)
            contents = Contents((args, kwargs))
            for container, key in environment.counters:
                capture.numbers.count(container, key)
            returned = function(*args, **kwargs)
            call = summarize(capture, environment, contents, returned)
            del returned
            if capture.deferred_numbers.kept():
                raise CaptureError(
                    "it keeps a number from item(), which is known only when it runs, "
                    "elsewhere than in what it returns",
                    "",
                    Problem.READS_VALUE,
                )
            return call
    except CaptureError as error:
        error.locate(function)
        raise
    finally:
        undo(environment)
        capture.numbers.restore_states()
        capture.restore()
        capture.close()
        capture.numbers.symbols.capturing = False


def try_capture(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    environment: Environment = NOTHING_KNOWN,
    changing: Changing = NOTHING_CHANGES,
    compose: Compose | None = None,
) -> tuple[CapturedCall | None, Any, CaptureError | None]:
    """As `capture_call`; a program that has no graph is run to its end instead, each part of it once.

    Gives the captured call, or None with what the function has returned and why it could not be captured.
    """
    capture = TentativeCapture(environment=environment)
    capture.compose = compose
    live_args, live_kwargs = with_live_numbers(capture, args, kwargs, not environment.asks_types, changing)
    capture.symbolic = SymbolicArguments(capture.numbers, live_args, live_kwargs, changing)
    contents = Contents((live_args, live_kwargs))
    try:
        with watched(), watching(capture), capture:
            meet_arguments(capture, live_args, live_kwargs)
            if environment.refusal is not None:
                capture.leave(CaptureError(environment.refusal, ""))
            for container, key in environment.counters if capture.reason is None else ():
                capture.numbers.count(container, key)
            returned = function(*live_args, **live_kwargs)
            if capture.reason is None:
                try:
                    return _summary(capture, environment, contents, returned), None, None
                except CaptureError as error:
                    capture.leave(error)
            assert capture.reason is not None
            capture.reason.locate(function)
            return None, plain(returned), capture.reason
    except Exception as error:
        capture.leave(CaptureError(f"the program raised {type(error).__name__}", ""))  # its writes stay
        raise
    finally:
        if capture.reason is None:
            undo(environment)
            capture.numbers.restore_states()
            capture.restore()
        else:
            contents.give_back((args, kwargs))
        capture.symbolic.restore()
        capture.close()
        capture.numbers.symbols.capturing = False


def _summary(capture: Capture, environment: Environment, contents: Contents, returned: Any) -> CapturedCall:
    for leaf in flatten(returned, records=True)[0]:
        if isinstance(leaf, Tensor) and leaf._trace is capture:
            given = environment.settable.intersection(own_attributes(leaf))
            if given:
                raise StateError(f"it returns a tensor to which it has given an attribute, {min(given)}")
    changed = list(environment.changed())
    stores = stores_of(capture, changed, contents, returned)
    forward = Changes(environment, changed)
    try:
        call = Summary(capture).summarize(returned, stores)
    except CaptureError:
        forward.undo_later()
        raise
    name = forward.undo_later()
    if name is not None:  # by functions of the user's that ran when the gradients were captured
        raise StateError(f"it changes {name} when its results are differentiated")
    return call


@contextmanager
def watching(capture: Capture) -> Iterator[None]:
    """Let the environment of the capture know of functions that are about to run."""
    saved, MODES.watch = MODES.watch, capture.sees_function
    try:
        yield
    finally:
        MODES.watch = saved


def with_live_numbers(
    capture: Capture, args: Any, kwargs: Any, live: bool = True, changing: Changing = NOTHING_CHANGES
) -> Any:
    """The arguments with live numbers for their floats and ints; if not `live`, with guards on them."""
    leaves, structure = flatten((args, kwargs), records=True)
    for i, leaf in enumerate(leaves):
        if live and type(leaf) is int and i in changing.numbers:
            leaves[i] = capture.numbers.size(leaf, itemgetter(i), f"argument {i}", -INFINITY)
        elif type(leaf) in (float, int):
            number = capture.numbers.argument(i, leaf)
            small = type(leaf) is float or -(2**63) <= leaf < 2**63
            leaves[i] = number if live and small else number.specialise()
    return structure.unflatten(leaves)


def meet_arguments(capture: Capture, args: Any, kwargs: Any) -> None:
    """Let the graph know of each storage that several arguments share the widest part first."""
    leaves, _ = flatten((args, kwargs), records=True)
    capture.arguments = {id(leaf) for leaf in leaves if isinstance(leaf, Tensor)}
    shared: dict[int, dict[int, Tensor]] = {}
    for leaf in leaves:
        if isinstance(leaf, Tensor) and leaf._storage is not None and leaf._array is not None:
            shared.setdefault(id(leaf._storage), {})[id(leaf)] = leaf
    for some in shared.values():
        if len(some) > 1:
            capture.abstract(max(some.values(), key=lambda t: (extent(t.shape, t.strides()), -t._offset)))
