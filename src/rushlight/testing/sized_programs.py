"""Random programs for tensors of several sizes: what one compilation for all sizes must serve.

`draw_sized(choose)` makes a `SizedProgram`: the steps of a program (programs.py), and as many sets of inputs as
there are sizes. The dimensions of inputs are 1, a number, or one of a few names, which stand for another number
in each set. A step is taken only if it runs in all of them.

`why_again` tells from the program alone what lets it be compiled more than once; without such a reason one
compilation has to do.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

import numpy as np

from .program_operands import memory_of
from .program_sizes import BACKWARD_BRANCHES, BRANCHES, HALVES, PINNED, RESHAPES, SIZED_STEPS
from .programs import LAYOUTS, OPERATIONS, USUAL, Choose, Drawing, Program, Step, draw_outputs

# Below, at and above the widths of vectors and of their tails, even and odd; 0 and 1 are cases of their own.
NUMBERS = (2, 3, 4, 5, 6, 7, 8, 9, 11, 15, 16, 17, 24, 31, 33, 40)
NAMES = ("a", "b", "c")
SHAPES: tuple[tuple[str | int, ...], ...] = (
    ("a", "b"),
    ("b", "a"),
    ("a", "a"),
    ("a",),
    ("b",),
    ("a", 1),
    (1, "b"),
    ("c", "a", "b"),
    ("c", 1, "a"),
    ("a", 4),
    (3, "b"),
    ("2a", "b"),
    ("a", 2, "b"),
    (),
)
# Steps whose parameters are drawn for one size: there are others in SIZED_STEPS that take their place.
REPLACED = ("slice", "select", "reshape", "expand", "setitem_")
STEPS = {**{name: step for name, step in USUAL.items() if name not in REPLACED}, **SIZED_STEPS}
OPERATIONS.update(SIZED_STEPS)
RARE = {*BRANCHES, *PINNED, *RESHAPES}  # which let a program be compiled again
SMALL = "a size that it computes is 0 or 1 in some of the calls"
ERRORS = (RuntimeError, IndexError, ValueError)


@dataclass
class SizedProgram:
    """One program for each size, which differ in their inputs alone."""

    sizes: list[Program]
    again: str  # what lets it be compiled more than once; empty if nothing does

    def __str__(self) -> str:
        return "\n\n".join(map(str, self.sizes))


class SizedDrawing(Drawing):
    """A program in the making, run for several sizes at once."""

    def __init__(self, choose: Choose, gradients: bool, count: int) -> None:
        super().__init__(choose, gradients)
        self.others = [Drawing(choose, gradients) for _ in range(count - 1)]
        self.numbers = _numbers(choose, count)

    def add_sized(self, shape: tuple[str | int, ...], dtype: Any, layout: str, seed: int) -> None:
        generator = np.random.default_rng(seed)
        for drawing, numbers in zip((self, *self.others), self.numbers, strict=True):
            sizes = tuple(n if isinstance(n, int) else numbers[n] for n in shape)
            whole = dtype is np.int64
            values = generator.integers(-3, 4, sizes) if whole else generator.uniform(-2, 2, sizes)
            drawing.add_input(np.asarray(values, dtype), layout)

    def add_step(self, name: str) -> bool:
        program = self.program
        try:
            if not super().add_step(name):
                return False
        except ERRORS:  # of a place or a shape that does not fit, before anything is written
            return False
        step = program.steps[-1]
        try:
            for other in self.others:
                operands = [other.values[i] for i in step.operands]
                other.values.append(OPERATIONS[name].run(*operands, *step.parameters))
        except ERRORS:
            self._undo()
            return False
        return True

    def _undo(self) -> None:
        """Take back the last step, which may have written to some of the values."""
        for made in (self.program.steps, self.program.rounding, self.values, self.exact):
            made.pop()
        self.values = self._again()
        for other in self.others:
            other.program = dataclasses.replace(self.program, inputs=other.program.inputs)
            del other.values[len(self.values) :]
            other.values = other._again()


def _numbers(choose: Choose, count: int) -> list[dict[str, int]]:
    """What the names stand for in each set; in the first, two may be the same by accident."""
    found = []
    for i in range(count):
        numbers = {name: NUMBERS[choose(len(NUMBERS))] for name in NAMES}
        if i == 0 and choose(4) == 0:
            numbers["b"] = numbers["a"]
        found.append({**numbers, "2a": 2 * numbers["a"]})
    return found


def draw_sized(
    choose: Choose, *, gradients: bool = False, shortest: int = 2, longest: int = 6, count: int = 3
) -> SizedProgram:
    """A program of `shortest` to `longest` operators for `count` sizes."""
    drawing = SizedDrawing(choose, gradients, count)
    for _ in range(1 + choose(2)):
        dtype = (np.float64, np.float32)[choose(5) == 0]
        layout = LAYOUTS[max(0, choose(2 * len(LAYOUTS)) - len(LAYOUTS))]
        drawing.add_sized(SHAPES[choose(len(SHAPES))], dtype, layout, choose(1000))
    if choose(2):
        drawing.add_sized(SHAPES[choose(len(SHAPES))], np.int64, "plain", choose(1000))
    wanted = shortest + choose(longest - shortest + 1)
    names, steps = list(STEPS), drawing.program.steps
    for _ in range(4 * longest):
        name = names[choose(len(names))]
        if len(steps) < wanted and (name not in RARE or choose(6) == 0):
            drawing.add_step(name)
    program = drawing.program
    program.outputs = draw_outputs(drawing)
    sets = [drawing.program.inputs, *(other.program.inputs for other in drawing.others)]
    return SizedProgram([dataclasses.replace(program, inputs=inputs) for inputs in sets], _why_again(drawing))


def _order(value: Any) -> tuple[Any, ...]:
    """The order of the dimensions in memory, and which of them lie there as one would."""
    dims = list(zip(value.shape, value.stride(), strict=True))
    return tuple((a > b, a == n * b) for _, a in dims for n, b in dims)


def _halves(drawing: Drawing, step: Step) -> tuple[int, ...]:
    """Which of the two parts that a step makes have a size of 0 or 1."""
    n = drawing.values[step.operands[0]].shape[step.parameters[0]]
    return min(n // 2, 2), min(n - n // 2, 2)


def _sharing(values: list[Any]) -> tuple[int, ...]:
    """For each value the first one that lies in the same memory."""
    places = [memory_of(value) for value in values]
    return tuple(map(places.index, places))


def _why_again(drawing: SizedDrawing) -> str:
    """What lets a program be compiled more than once for its sizes, by the program alone."""
    program = drawing.program
    for step in program.steps:
        name = step.name
        target = drawing.values[step.operands[0]] if step.operands else None
        if name in RESHAPES and any(value is target for value in drawing.values[: len(program.inputs)]):
            return f"{name} gives a tensor of the caller another shape"
        if name in BRANCHES:
            return f"{name} {BRANCHES[name]}"
        if program.gradients and name in BACKWARD_BRANCHES:
            return f"{name} {BACKWARD_BRANCHES[name]}"
        if name in HALVES and len({_halves(d, step) for d in (drawing, *drawing.others)}) > 1:
            return SMALL
        if name in PINNED:
            return f"{name}: {PINNED[name]}"
    for values in zip(drawing.values, *(other.values for other in drawing.others), strict=True):
        if len({tuple(n if n < 2 else 2 for n in value.shape) for value in values}) > 1:
            return SMALL
        if len({_order(value) for value in values}) > 1:
            return "a tensor that it computes lies in memory in another order in some of the calls"
    if len({_sharing(d.values) for d in (drawing, *drawing.others)}) > 1:
        return "a reshaped tensor is a view in some of the calls, and a copy in others"
    return ""
