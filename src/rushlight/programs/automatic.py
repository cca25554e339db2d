"""`--compile auto`: modules and steps of optimizers that are called again and again are compiled.

Each outermost call of a module with parts, and each step of an optimizer, is a piece. Its first calls run
eagerly; from then on it is a compiled function, which compiles what comes a second time, and whose guards see to
it that a call does what the eager one does. A program that has no graph, or does what a graph would leave out
(effects.py), runs eagerly, and the modules inside of it are pieces in their turn. So does for longer and longer
what a program makes anew again and again, to call it less often than a compilation is worth.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MethodType
from typing import Any, Protocol

from ..compiler.graph_breaks import PIECES
from ..core.lazy import LazyModule
from ..core.modes import MODES, run_pieces_by
from ..nn.modules._compiled import OptimizedModule

_piece_function = LazyModule("rushlight.programs.piece_function")  # and the compiler

WARM = 5  # calls of a piece that run eagerly
MOST_WARM = 1280  # of one whose kind has not been worth compiling
PAYS = 200  # calls of compiled code that are worth a compilation


class Observer(Protocol):
    """Who is told of every call of a piece."""

    def call(self, piece: Piece, args: Any, kwargs: Any) -> Any: ...


_observer: Observer | None = None


@dataclass
class Kind:
    """The pieces whose owners are of classes of one name, and whether it has paid to compile them."""

    captures: int = 0
    runs: int = 0  # of compiled code
    wait: int = WARM

    def wait_of_new(self) -> int:
        """How many calls of a piece that is new run eagerly: ever more, while it has not paid to compile others.

        All that are called before the first of them is compiled, such as the layers of a model, wait as long."""
        pays = self.runs >= PAYS * self.captures
        self.wait = WARM if pays else min(2 * self.wait, MOST_WARM)
        return self.wait


_kinds: dict[tuple[str, str], Kind] = {}  # by module and name, since classes may be made anew, too


class Piece:
    """A module or an optimizer, and the function of it that is compiled."""

    def __init__(self, owner: Any, method: Callable[..., Any]) -> None:
        self.function = MethodType(method, owner)
        self.calls = 0
        self.compiled: Any = None
        name = type(owner).__module__, type(owner).__qualname__
        self.kind = _kinds.setdefault(name, Kind())
        self.wait = self.kind.wait_of_new()

    def __call__(self, args: Any, kwargs: Any) -> Any:
        if self.compiled is None:
            self.calls += 1
            if self.calls <= self.wait:
                if self.wait == WARM:
                    return run_eagerly(self.function, args, kwargs)
                return self.function(*args, **kwargs)  # its modules are pieces meanwhile
            self.compiled = _piece_function.PieceFunction(self.function, fullgraph=False, patient=True)
            self.compiled.kind = self.kind
        self.compiled.ran_eagerly = self.compiled.tried = False
        result = self.compiled(*args, **kwargs)
        if not self.compiled.ran_eagerly:
            self.kind.runs += 1
        return result

    @property
    def runs_compiled(self) -> bool:
        """Whether the last call ran compiled code."""
        return self.compiled is not None and not self.compiled.ran_eagerly

    @property
    def tried(self) -> bool:
        """Whether the last call was captured, and had no graph."""
        return self.compiled is not None and self.compiled.tried


def run_eagerly(function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """A call in which nothing is a piece."""
    with run_pieces_by(None):
        return function(*args, **kwargs)


def run_piece(owner: Any, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """What modules and optimizers call in the place of `method(owner, *args, **kwargs)`."""
    if MODES.transforming or MODES.traces or MODES.dual_levels or isinstance(owner, OptimizedModule):
        return run_eagerly(MethodType(method, owner), args, kwargs)
    pieces, key = vars(owner).get(PIECES, {}), (run_piece, method)
    piece = pieces.get(key)
    if piece is None or piece.function.__self__ is not owner:  # the attributes are those of another module
        piece = Piece(owner, method)
        vars(owner)[PIECES] = {**pieces, key: piece}
    return piece(args, kwargs) if _observer is None else _observer.call(piece, args, kwargs)


def enable(observer: Observer | None = None) -> None:
    """Have pieces compiled from now on, in every thread."""
    global _observer
    _observer = observer
    _kinds.clear()
    type(MODES).pieces = staticmethod(run_piece)


def enabled() -> bool:
    return type(MODES).pieces is not None


def disable() -> None:
    type(MODES).pieces = None
