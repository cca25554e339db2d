"""Chains: steps that follow each other share by share instead of one after the other.

The heads of attention, for example: scores, softmax and weighted values of a head depend on no other head.
Where every step of such a sequence can be cut into as many shares, and a share of each touches of what the
chain writes only the same share, one task runs a share through all of them. What passes from step to step is
in the core's cache then, and the steps need one launch instead of one each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..core.index import Var, as_index
from ..core.proofs import always_nonnegative
from ..core.symbols import divisible, hint, size_of
from ..loops.expr import Access
from ..loops.kernels import Extern, Product
from ..loops.nest import Buffer, MemoryKind, Nest
from ..loops.plans import LoopPlan
from ..loops.product import Matrix
from ..loops.program import Chain, Step
from .cost import AHEAD, FEWEST_SHARES, SHARE_BYTES, VECTOR_ROWS
from .memory import bytes_hint
from .stages import may_fail


def form_chains(steps: Sequence[Step]) -> list[Step | Chain]:
    """The steps, those that form a chain as one, in an order in which each finds what it needs."""
    found: list[Step | Chain] = []
    left = list(steps)
    at = 0
    while at < len(left):
        chain = _Growing(left[at : at + AHEAD])
        found += [
            *chain.before,
            Chain(tuple(chain.links), chain.shares) if len(chain.links) > 1 else left[at],
        ]
        at += chain.seen - len(chain.after)
        left[at : at + len(chain.after)] = chain.after
    return found


class _Growing:
    """A chain that begins with the first of `steps`, and grows as far as it can."""

    def __init__(self, steps: Sequence[Step]) -> None:
        first, *others = steps
        self.links = [first]
        self.seen = 1  # steps up to the last link
        self.before: list[Step] = []  # of these, what the chain may need,
        self.after: list[Step] = []  # and what needs it, or needs to come after what it reads
        self.shares = first.shape.batch if isinstance(first, Product) else 0
        if hint(self.shares) < FEWEST_SHARES or _cut(first, self.shares) is None:
            return
        links = set()  # the numbers of all but the first
        waiting: list[int] = []
        behind, around = (
            _TouchedBefore(),
            _TouchedBefore(first),
        )  # of what is waiting, and of the chain as well
        for at, step in enumerate(others, 1):
            if isinstance(step, Extern):
                break
            if not behind.is_before(step) and self._takes(step):
                links.add(at)
                self.seen = at + 1
                around.add(step)
            elif around.is_before(step):
                waiting.append(at)
                behind.add(step)
                around.add(step)
        self.after = [steps[n] for n in waiting if n < self.seen]
        self.before = [
            step for n, step in enumerate(steps[1 : self.seen], 1) if n not in links and n not in waiting
        ]

    def _takes(self, step: Step) -> bool:
        """Add a step to the chain if it can be."""
        link = _cut(step, self.shares)
        if link is None:
            return False
        links = [*self.links, link]
        (known, made), (read, written) = map(_touched, (self.links, links))
        related = (known | made).intersection(step.inputs)
        if not related or sum(map(bytes_hint, read | written)) > SHARE_BYTES * hint(self.shares):
            return False
        if not all(_stays_inside(link, b, self.shares) for link in links for b in written):
            return False
        self.links = links
        return True


def _touched(steps: Sequence[Step]) -> tuple[set[Buffer], set[Buffer]]:
    """What steps read and what they write, but for rows of their own."""
    reads = {b for step in steps for b in step.inputs if b.memory is not MemoryKind.ROW}
    return reads, {b for step in steps for b in step.outputs if b.memory is not MemoryKind.ROW}


class _TouchedBefore:
    """What steps touch that come before others in order."""

    def __init__(self, *steps: Step) -> None:
        self._read: set[Buffer] = set()
        self._written: set[Buffer] = set()
        for step in steps:
            self.add(step)

    def add(self, step: Step) -> None:
        self._read.update(step.inputs)
        self._written.update(step.outputs)

    def is_before(self, step: Step) -> bool:
        """Whether a step has to run after one of them."""
        reads, writes = step.inputs, step.outputs
        return not (
            self._read.isdisjoint(writes)
            and self._written.isdisjoint(reads)
            and self._written.isdisjoint(writes)
        )


def _cut(step: Step, shares: int) -> Step | None:
    """The step in `shares` tasks; None if it cannot be cut so, or is not to be part of a chain."""
    if any(b.memory is MemoryKind.INPUT for b in step.outputs) or may_fail(step):  # an update in place
        return None
    if isinstance(step, Product):
        p = step.shape
        fits = as_index(p.batch) == as_index(shares) and p.windows is None and p.left.batch and p.right.batch
        fits = fits and p.groups is None
        return step if fits else None
    if not isinstance(step, LoopPlan):
        return None
    if step.part or step.block or not step.nest.outer:
        return None
    extent = size_of(step.nest.outer[0].extent)
    if not divisible(extent, shares) or hint(extent) == 0:
        return None
    rows = extent // shares
    if step.vector_outer and len(step.nest.outer) == 1 and not divisible(rows, VECTOR_ROWS):
        return None
    return replace(step, tasks=shares, rows_per_task=rows, split=None)


# Where a share is.


def _stays_inside(step: Step, buffer: Buffer, shares: int) -> bool:
    """Whether each share of a step touches of a buffer nothing but the share with the same number."""
    whole = size_of(buffer.size)
    if not divisible(whole, shares) or hint(whole) == 0:
        return False
    size = whole // shares
    if isinstance(step, LoopPlan):
        return _nest_stays(step.nest, buffer, size, step.rows_per_task)
    assert isinstance(step, Product)
    p, nest = step.shape, step.epilogue
    operands = ((step.left, p.left, p.rows, p.depth), (step.right, p.right, p.depth, p.columns))
    return (
        all(
            _matrix_stays(matrix, rows, columns, size)
            for operand, matrix, rows, columns in operands
            if operand is buffer
        )
        and (step.result is not buffer or as_index(size) == as_index(p.rows * p.columns))
        and (nest is None or _nest_stays(nest, buffer, size, 1))
    )


def _matrix_stays(matrix: Matrix, rows: int, columns: int, size: int) -> bool:
    last = matrix.offset + (rows - 1) * matrix.row + (columns - 1) * matrix.column
    return as_index(matrix.batch) == as_index(size) and all(
        always_nonnegative(as_index(n)) for n in (matrix.offset, matrix.row, matrix.column, size - last - 1)
    )


def _nest_stays(nest: Nest, buffer: Buffer, size: int, rows: int) -> bool:
    return all(
        _access_stays(access, nest.outer[0], size, rows)
        for access in (*nest.reads(), *nest.writes())
        if access.buffer is buffer
    )


def _access_stays(access: Access, row: Var, size: int, rows: int) -> bool:
    distance = access.index.stride(row)
    if access.indirect or distance is None or distance * rows != as_index(size):
        return False
    first = access.index.substitute({row: 0})
    return always_nonnegative(first) and always_nonnegative(-first - distance * (rows - 1) + size - 1)
