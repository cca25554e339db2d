"""Loops and branches, structured: a body is a `with` block or a callback, and its values come back as
phis."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ...core.lazy import LazyModule
from .constants import Constants

ir = LazyModule("llvmlite.ir")

State = Sequence[Any]


class Control(Constants):
    """Structured control flow. The builder may be in another block after any of these, as after every
    branch."""

    @contextlib.contextmanager
    def loop(self, start: Any, stop: Any, step: Any = 1, *, certain: bool = False) -> Iterator[Any]:
        """`with e.loop(0, n, 8) as i:` counts i = 0, 8, ... below n; step is positive. `certain`: the start
        is known to be less than n."""
        counted = self._counted(start, stop, step, (), certain)
        index, _, finish = counted
        yield index
        finish(())

    def fold(self, start: Any, stop: Any, step: Any, initial: State, body: Callable[..., State]) -> list[Any]:
        """The state after the loop, where `body(i, *state)` gives the next state."""
        index, phis, finish = self._counted(start, stop, step, initial)
        return finish(body(index, *phis))

    def _counted(
        self, start: Any, stop: Any, step: Any, initial: State, certain: bool = False
    ) -> tuple[Any, list[Any], Any]:
        """A loop tested at its end, with a test before it unless it surely runs."""
        certain = certain or (isinstance(start, int) and isinstance(stop, int) and start < stop)
        kind = next((v.type for v in (start, stop, step) if not isinstance(v, int)), ir.IntType(64))
        start, stop, step = (self.value(v, kind) for v in (start, stop, step))
        b = self.builder
        before = b.block
        body = b.append_basic_block("loop")
        after = ir.Block(b.function, name="done")
        if certain:
            b.branch(body)
        else:
            b.cbranch(b.icmp_signed("<", start, stop), body, after)
        b.position_at_end(body)
        index = b.phi(kind)
        index.add_incoming(start, before)
        phis = self._phis(initial, before)

        def finish(state: State) -> list[Any]:
            following = b.add(index, step, flags=("nsw",))
            again = b.icmp_signed("<", following, stop)
            end = b.block
            index.add_incoming(following, end)
            self._feed(phis, state, end)
            b.cbranch(again, body, after)
            self._append(after)
            results = []
            for first, last in zip(initial, state, strict=True):
                result = b.phi(last.type)
                result.add_incoming(last, end)
                if not certain:
                    result.add_incoming(first, before)
                results.append(result)
            return results

        return index, phis, finish

    def repeat(self, initial: State, body: Callable[..., tuple[Any, State]]) -> list[Any]:
        """Run `body(*state)`, which gives (again, next state), at least once and as long as `again`, an i1,
        is true."""
        b = self.builder
        before = b.block
        block = b.append_basic_block("repeat")
        b.branch(block)
        b.position_at_end(block)
        phis = self._phis(initial, before)
        again, state = body(*phis)
        self._feed(phis, state, b.block)
        after = ir.Block(b.function, name="done")
        b.cbranch(again, block, after)
        self._append(after)
        return list(state)

    def branch(
        self,
        condition: Any,
        then: Callable[[], State],
        otherwise: Callable[[], State],
        likely: bool | None = None,
    ) -> list[Any]:
        """The values of one of two callbacks, chosen by an i1."""
        b = self.builder
        yes, no, after = (ir.Block(b.function, name=n) for n in ("then", "else", "join"))
        jump = b.cbranch(condition, yes, no)
        if likely is not None:
            jump.set_weights((2000, 1) if likely else (1, 2000))
        outcomes = []
        for block, values in ((yes, then), (no, otherwise)):
            self._append(block)
            outcomes.append((values(), b.block))
            b.branch(after)
        self._append(after)
        (first, first_block), (second, second_block) = outcomes
        results = []
        for x, y in zip(first, second, strict=True):
            phi = b.phi(x.type)
            phi.add_incoming(x, first_block)
            phi.add_incoming(y, second_block)
            results.append(phi)
        return results

    @contextlib.contextmanager
    def when(self, condition: Any) -> Iterator[None]:
        """`with e.when(condition):` the body runs only if the i1 is true."""
        b = self.builder
        yes, after = (ir.Block(b.function, name=n) for n in ("then", "join"))
        b.cbranch(condition, yes, after)
        self._append(yes)
        yield
        b.branch(after)
        self._append(after)

    def _phis(self, initial: State, before: Any) -> list[Any]:
        phis = []
        for value in initial:
            phi = self.builder.phi(value.type)
            phi.add_incoming(value, before)
            phis.append(phi)
        return phis

    def _feed(self, phis: list[Any], state: State, block: Any) -> None:
        for phi, value in zip(phis, state, strict=True):
            phi.add_incoming(value, block)

    def _append(self, block: Any) -> None:
        """Place a block here and continue in it: blocks appear in the order in which they are filled."""
        self.builder.function.blocks.append(block)
        self.builder.position_at_end(block)
