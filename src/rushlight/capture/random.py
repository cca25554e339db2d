"""Random numbers in a graph: where a draw stands in the stream of its generator is data, not a constant.

The contract with the stages below (lowering, the eager kernels that compiled code calls):
- Every random node of a captured graph is an operator that has a `generator` argument. Operators without one
  (`rand`, `randint.low`) become their overload that has one (`rand.generator`, `randint.low_generator`);
  `native_dropout` becomes its decomposition, `bernoulli.p`. Both draw the same words.
- That argument holds a Value of dtype int64 and shape (2,): the seed, and the word of its stream at which the
  words of this node begin, both 64-bit patterns (a seed above 2**63 comes as a negative number). The offset
  is a multiple of 4. Element i is then what kernels/random.py says for (seed, offset).
- A lowering rule gets it like any tensor: `generator.load((0,))` is the seed, `generator.load((1,))` the
  offset. An eager kernel gets it as an ndarray, which `kernels.random.reserve` understands.
- The value is row k of a graph input of shape (draws, 2), one input for each generator. When the program
  runs, `Draws.fill` leaves the generator where eager execution would, and writes the rows, so that eager and
  compiled runs of one seed agree bit for bit and can be mixed. Seeding a generator, and saving and restoring
  its state, are part of a program.

Invariant: capture draws nothing and leaves every generator as it was.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..core.atoms import Dim
from ..core.dtypes import DTYPES
from ..core.generator import Generator, default_generator, state_bytes
from ..core.registry import REGISTRY, OpDef
from ..core.shapes import Spec
from ..core.symbols import hint, is_size, plain
from ..core.tensor import Tensor
from ..graph.ir import Value

_INT64 = DTYPES["int64"]
_MASK64 = (1 << 64) - 1


@dataclass
class Draws:
    """The draws of a program from one generator."""

    generator: Generator
    value: Value  # the graph input: int64[draws, 2]
    seed: int | None = None  # that the program gave it; None: it goes on where the caller left it
    position: int = (
        0  # where the next draw begins, in words after that: a size, if draws have sizes that change
    )
    starts: list[tuple[int | None, int]] = field(default_factory=list)  # (seed, position) of each draw
    began: tuple[int, int] = (0, 0)  # where the generator was when the last run began: seed and offset
    sizes: Mapping[Dim, int] | None = None  # of the last run, where they change; None: those of the capture

    def begin(self, count: int) -> int:
        """Take `count` words (whole blocks of 4); the number of the draw."""
        self.starts.append((self.seed, self.position))
        self.position += (count + 3) // 4 * 4
        return len(self.starts) - 1

    def fill(self, sizes: Mapping[Dim, int] | None = None) -> np.ndarray:
        """What the graph input holds in a call that begins now; leaves the generator as the program does."""
        self.sizes = sizes
        self.began = seed, offset = self.generator.move(self.seed, self.number(self.position))
        starts = [(own, self.number(start)) for own, start in self.starts]
        rows = [(seed, offset + start) if own is None else (own, start) for own, start in starts]
        words = [word & _MASK64 for row in rows for word in row]
        return np.array(words, np.uint64).reshape(-1, 2).view(np.int64)

    def number(self, position: Any) -> int:
        """A position in the run that has begun last."""
        if not is_size(position):
            return int(position)
        return hint(position) if self.sizes is None else position.index.evaluate(self.sizes)


@dataclass(frozen=True)
class StatePoint:
    """What a program got from `get_state`: where it had its generator. The bytes depend on the caller."""

    draws: Draws
    seed: int | None
    position: int

    def bytes_now(self) -> np.ndarray:
        """The state as it was in the run that has begun last."""
        seed, offset = self.draws.began if self.seed is None else (self.seed, 0)
        return state_bytes(seed, (offset + self.draws.number(self.position)) & _MASK64)


def stream_spec(draws: int) -> Spec:
    """Of the graph input for a generator."""
    return Spec((draws, 2), _INT64, (2, 1), 0)


def with_generator(op: OpDef, args: tuple[Any, ...]) -> tuple[OpDef, tuple[Any, ...]] | None:
    """The call as one of an operator that has a generator argument; None if there is no such operator."""
    names = op.schema.argument_names
    if "generator" in names:
        return op, args
    twin = _TWINS.get(op.name)
    if twin is None:
        twin = _TWINS[op.name] = _find_twin(op)
    if isinstance(twin, str):
        return None
    at = twin.schema.argument_names.index("generator")
    return twin, (*args[:at], None, *args[at:])


_TWINS: dict[str, OpDef | str] = {}


def _find_twin(op: OpDef) -> OpDef | str:
    wanted = op.schema.argument_names
    for other in REGISTRY:
        names = other.schema.argument_names
        same = tuple(n for n in names if n != "generator") == tuple(wanted)
        of_tensors = ("Tensor" in op.schema.overload) == ("Tensor" in other.schema.overload)
        if other.schema.name == op.schema.name and "generator" in names and same and of_tensors:
            return other
    return "none"


class _Counted(Exception):
    pass


class _Probe:
    """Stands for a generator, to see how many words a kernel asks for."""

    def reserve(self, count: int) -> tuple[int, int]:
        raise _Counted(count)


def words_taken(op: OpDef, args: tuple[Any, ...], specs: Any) -> int:
    """How many words the eager kernel of `op`, which has a generator argument, draws for such arguments.

    The kernel itself says so: it is run up to its request, on ones. If sizes change, a request that follows from
    the shape of the result is a size; one that follows from the arrays themselves is for these sizes alone.
    """
    at = op.schema.argument_names.index("generator")
    given = [_ones(a) if isinstance(a, Tensor) else a for a in args]
    given[at] = _Probe()
    assert op.kernel is not None
    try:
        op.kernel((*given, specs))
    except _Counted as counted:
        (count,) = counted.args
        if not is_size(count):
            for tensor in args:
                if isinstance(tensor, Tensor):
                    for size in tensor.shape:
                        plain(size)
        return count
    return 0


def _ones(tensor: Tensor) -> np.ndarray:
    return np.broadcast_to(np.ones((), tensor.dtype.opmath.numpy), tuple(map(hint, tensor.shape)))


def generator_of(op: OpDef, args: tuple[Any, ...]) -> Generator:
    found = args[op.schema.argument_names.index("generator")]
    return default_generator if found is None else found
