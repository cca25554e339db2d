"""Random programs: straight-line code over a few tensors, for comparing compiled with eager execution.

`draw_program(choose)` makes a `Program` while running it eagerly, so that every step fits what is there.
`choose` picks a number from a range; with hypothesis behind it, failing programs shrink. A program is data:
it prints as Python, and `program.run(inputs)` executes it.

Steps whose result jumps where its operand moves a little (floor, comparisons, sorting) are only drawn for
values that are exact, that is, equal bit for bit however they are computed; all others agree within rounding.
How much that is depends on the program: `program.in_double(inputs, noise)` runs it in double precision, with
a random error of single precision after every step that rounds to it, which shows how far results move.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.core.tensor import Tensor

from .program_steps import OPERATIONS

Choose = Callable[[int], int]  # choose(n): a number in range(n)


@dataclass(frozen=True)
class Step:
    """values.append(name(operands, *parameters)), or a write to the first operand."""

    name: str
    operands: tuple[int, ...]
    parameters: tuple[Any, ...] = ()

    def __str__(self) -> str:
        given = ", ".join([*(f"v{i}" for i in self.operands), *map(repr, self.parameters)])
        return f"{self.name}({given})"


SINGLE = 2.0**-24  # the largest relative error of rounding to single precision


@dataclass
class Program:
    """Steps over inputs. Values are numbered: the inputs, then one for each step."""

    inputs: list[np.ndarray]
    steps: list[Step] = field(default_factory=list)
    outputs: tuple[int, ...] = ()
    layouts: list[str] = field(default_factory=list)  # how the inputs lie in memory: one of LAYOUTS
    rounding: list[bool] = field(default_factory=list)  # steps that round to single precision
    single: bool = False  # some value is float32, which limits how well two executions can agree

    def run(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        values = list(inputs)
        for step in self.steps:
            values.append(OPERATIONS[step.name].run(*[values[i] for i in step.operands], *step.parameters))
        return tuple(values[i] for i in self.outputs)

    def tensors(self, requires_grad: bool = False) -> list[Tensor]:
        made: list[Tensor] = []
        for array, layout in zip(self.inputs, self.layouts, strict=True):
            made.append(laid_out(array, layout, made))
        return [t.detach().requires_grad_() if requires_grad and t.is_floating_point() else t for t in made]

    # Rounding.

    def in_double(self, inputs: Sequence[Tensor], noise: np.random.Generator | None = None) -> list[Tensor]:
        """The outputs for inputs in double precision; with `noise`, after random errors of the size that
        rounding to single precision has."""
        values = list(inputs)
        for step, rounds in zip(self.steps, self.rounding, strict=True):
            operands = [values[i] for i in step.operands]
            if step.name == "to_float32":
                result = operands[0].to(rl.float64, copy=True)
            else:
                result = OPERATIONS[step.name].run(*operands, *step.parameters)
            if rounds and noise is not None:
                errors = rl.tensor(1 + SINGLE * noise.uniform(-1, 1, tuple(result.shape)))
                result = result.mul_(errors) if step.name.endswith("_") else result * errors
            values.append(result)
        return [values[i] for i in self.outputs]

    def doubled(self, requires_grad: bool = False) -> list[Tensor]:
        """Inputs as `tensors` makes them, in double precision."""
        wide = [array.astype(np.float64) if array.dtype == np.float32 else array for array in self.inputs]
        return Program(wide, layouts=self.layouts).tensors(requires_grad)

    def __str__(self) -> str:
        lines = [
            f"v{i} = tensor of {a.dtype} {a.shape}, {layout}"
            for i, (a, layout) in enumerate(zip(self.inputs, self.layouts, strict=True))
        ]
        lines += [f"v{len(self.inputs) + i} = {step}" for i, step in enumerate(self.steps)]
        return "\n".join([*lines, f"return {', '.join(f'v{i}' for i in self.outputs)}"])


class Drawing:
    """A program in the making, with the values it has so far."""

    def __init__(self, choose: Choose, gradients: bool) -> None:
        self.choose = choose
        self.gradients = gradients
        self.program = Program([])
        self.values: list[Tensor] = []
        self.exact: list[bool] = []

    def pick(self, wanted: Callable[[Tensor], bool] = lambda t: True, exact: bool = False) -> int | None:
        """A value that fits; the latest ones are the likeliest."""
        fitting = [i for i, t in enumerate(self.values) if wanted(t) and (self.exact[i] or not exact)]
        if not fitting:
            return None
        return fitting[-1 - min(self.choose(len(fitting)), self.choose(len(fitting)))]

    def add_input(self, array: np.ndarray, layout: str = "plain") -> None:
        if layout == "shared":  # the memory of the input before it
            array = self.program.inputs[-1]
        self.program.inputs.append(array)
        self.program.layouts.append(layout)
        self.values.append(laid_out(array, layout, self.values))
        self.program.single |= self.values[-1].dtype is rl.float32
        self.exact.append(True)

    def add_step(self, name: str) -> bool:
        operation = OPERATIONS[name]
        drawn = operation.draw(self)
        if drawn is None:
            return False
        operands, parameters = drawn
        result = operation.run(*[self.values[i] for i in operands], *parameters)
        exact = operation.exact and all(self.exact[i] for i in operands)
        if name.endswith("_"):
            self._spoil(operands[0], exact)
        self.program.steps.append(Step(name, operands, parameters))
        self.program.rounding.append(result.dtype is rl.float32 and not operation.exact)
        self.values.append(result)
        self.program.single |= result.dtype is rl.float32
        self.exact.append(exact)
        return True

    def _spoil(self, target: int, exact: bool) -> None:
        """A write with inexact values makes everything that shares the memory inexact."""
        if not exact:
            written = self.values[target].untyped_storage().data_ptr()
            for i, value in enumerate(self.values):
                if value.untyped_storage().data_ptr() == written:
                    self.exact[i] = False


SHAPES: tuple[tuple[int, ...], ...] = (
    (3, 4),
    (4, 3),
    (4, 4),
    (4,),
    (3, 1),
    (1, 4),
    (2, 3, 4),
    (5,),
    (1,),
    (),
    (17,),
    (2, 1, 4),
    (8, 16),
    (0, 4),
    (33, 5),
)


LAYOUTS = ("plain", "behind", "with gaps", "transposed")


def laid_out(array: np.ndarray, layout: str, before: Sequence[Tensor]) -> Tensor:
    """A tensor with the values of `array`; `before` are the inputs before it."""
    if layout == "shared":
        return before[-1].detach()
    if layout == "behind":  # not at the beginning of its memory
        whole = np.concatenate([np.full(3, 9, array.dtype), array.reshape(-1)])
        return rl.tensor(whole)[3:].view(array.shape)
    if layout == "with gaps" and array.ndim:
        return rl.tensor(np.repeat(array, 2, -1))[..., ::2]
    if layout == "transposed" and array.ndim:
        return rl.tensor(np.ascontiguousarray(array.T)).permute(*range(array.ndim)[::-1])
    return rl.tensor(array)


def draw_program(choose: Choose, *, gradients: bool = False, shortest: int = 5, longest: int = 40) -> Program:
    """A program of `shortest` to `longest` operators. With `gradients` it is differentiable in its inputs."""
    drawing = Drawing(choose, gradients)
    generator = np.random.default_rng(choose(1000))
    for _ in range(1 + choose(3)):
        shape = SHAPES[choose(len(SHAPES))]
        array = generator.uniform(-2, 2, shape).astype((np.float64, np.float32)[choose(4) == 0])
        drawing.add_input(array, LAYOUTS[max(0, choose(2 * len(LAYOUTS)) - len(LAYOUTS))])
    if choose(8) == 7:
        drawing.add_input(array, "shared")
    drawing.add_input(generator.integers(-3, 4, SHAPES[choose(len(SHAPES))]))
    names = [name for name in OPERATIONS if not (gradients and name.endswith("_"))]
    spread = longest - shortest + 1
    count = shortest + min(choose(spread), choose(spread))
    attempts = 0
    while len(drawing.program.steps) < count and attempts < 3 * longest:
        attempts += 1
        drawing.add_step(names[choose(len(names))])
    drawing.program.outputs = _draw_outputs(drawing)
    return drawing.program


def _draw_outputs(drawing: Drawing) -> tuple[int, ...]:
    first = len(drawing.program.inputs)
    made = [
        i
        for i in range(first, len(drawing.values))
        if not drawing.gradients or drawing.values[i].is_floating_point()
    ]
    if not made:
        return (0,)
    picked = {made[-1], *(made[drawing.choose(len(made))] for _ in range(2))}
    return tuple(sorted(picked))
