"""Random programs: straight-line code over a few tensors, for comparing compiled with eager execution.

`draw_program(choose)` makes a `Program` while running it eagerly, so that every step fits what is there.
`choose` picks a number from a range; with hypothesis behind it, failing programs shrink. A program is data:
it prints as Python, and `program.run(inputs)` executes it.

Steps whose result jumps where its operand moves a little (floor, comparisons, sorting) are only drawn for
values that are exact, that is, equal bit for bit however they are computed; all others agree within rounding.
How much that is depends on the program: `program.in_double(inputs, noise)` runs it in double precision, with
a random error of single precision after every step that rounds to it, which shows how far results move.

KINDS has the kinds of programs: with plain tensors alone, with NumPy's arrays as operands, with derived classes
of Tensor. With gradients, a program writes to values that need gradients where its backward pass can still run.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

import rushlight as rl
from rushlight.core.tensor import Tensor

from .program_arrays import ARRAY_STEPS, make_array
from .program_classes import CLASS_STEPS, WRAPPER_STEPS, classes_of
from .program_operands import Operation, memory_of
from .program_steps import OPERATORS
from .program_writes import WRITES

KINDS: dict[str, dict[str, Operation]] = {  # the steps that a kind of programs has besides the usual ones
    "tensors": {},
    "arrays": ARRAY_STEPS,
    "classes": CLASS_STEPS,
    "wrappers": WRAPPER_STEPS,
}
USUAL = {**OPERATORS, **WRITES}
OPERATIONS = {**USUAL, **ARRAY_STEPS, **CLASS_STEPS, **WRAPPER_STEPS}
CLASSES = {"classes": ("Plain", "Noted"), "wrappers": ("Wrapped",)}  # of arguments

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
    classes: list[str] = field(default_factory=list)  # of the inputs: Tensor, a derived class, or ndarray
    rounding: list[bool] = field(default_factory=list)  # steps that round to single precision
    single: bool = False  # some value is float32, which limits how well two executions can agree
    gradients: bool = False  # its inputs require gradients

    @property
    def whole(self) -> bool:
        """Whether it has one graph."""
        return not any(OPERATIONS[step.name].breaks for step in self.steps) and "Wrapped" not in self.classes

    def run(self, *inputs: Any) -> tuple[Any, ...]:
        values = list(inputs)
        for step in self.steps:
            values.append(OPERATIONS[step.name].run(*[values[i] for i in step.operands], *step.parameters))
        return tuple(values[i] for i in self.outputs)

    def arguments(self, lib: Any = rl) -> list[Any]:
        """Tensors of the library `lib`, and arrays."""
        made: list[Any] = []
        for array, layout, name in zip(self.inputs, self.layouts, self.classes, strict=True):
            made.append(self.argument(lib, array, layout, name, made))
        return made

    def argument(self, lib: Any, array: np.ndarray, layout: str, name: str, before: Sequence[Any]) -> Any:
        if name == "ndarray":
            return array.copy()
        tensor = laid_out(lib, array, layout, before)
        if name != "Tensor":
            kind = classes_of(lib)[name]
            tensor = kind(tensor) if name == "Wrapped" else tensor.as_subclass(kind)
        return tensor.detach().requires_grad_() if self.gradients and tensor.is_floating_point() else tensor

    # Rounding.

    def in_double(self, inputs: Sequence[Any], noise: np.random.Generator | None = None) -> list[Tensor]:
        """The outputs for inputs in double precision; with `noise`, after random errors of the size that
        rounding to single precision has."""
        values = list(inputs)
        for step, rounds in zip(self.steps, self.rounding, strict=True):
            operands, terms = [values[i] for i in step.operands], 0
            if OPERATIONS[step.name].in_order:
                terms = max(t.numel() for t in operands)
            if rounds and noise is not None and OPERATIONS[step.name].sums:
                operands = [t * _errors(t, noise) if t.is_floating_point() else t for t in operands]
            if step.name == "to_float32":
                result = operands[0].to(rl.float64, copy=True)
            else:
                result = OPERATIONS[step.name].run(*operands, *step.parameters)
            if rounds and noise is not None:
                if step.name.endswith("_"):  # what was saved of the result for the backward pass included
                    (result.data if self.gradients else result).mul_(_errors(result, noise, terms))
                else:
                    result = result * _errors(result, noise, terms)
            values.append(result)
        return [values[i] for i in self.outputs]

    def doubled(self) -> list[Any]:
        """Arguments as `arguments` makes them, in double precision."""
        wide = [array.astype(np.float64) if array.dtype == np.float32 else array for array in self.inputs]
        return dataclasses.replace(self, inputs=wide).arguments()

    def __str__(self) -> str:
        lines = [
            f"v{i} = {name} of {a.dtype} {a.shape}, {layout}"
            for i, (a, layout, name) in enumerate(zip(self.inputs, self.layouts, self.classes, strict=True))
        ]
        lines += [f"v{len(self.inputs) + i} = {step}" for i, step in enumerate(self.steps)]
        return "\n".join([*lines, f"return {', '.join(f'v{i}' for i in self.outputs)}"])


def _errors(t: Any, noise: np.random.Generator, terms: int = 0) -> Tensor:
    """Factors of the size that rounding to single precision has; after each of so many equal terms, it errs in
    one direction by a quarter of that."""
    return rl.tensor(1 + SINGLE * (1 + terms / 4) * noise.uniform(-1, 1, tuple(t.shape)))


class Drawing:
    """A program in the making, with the values it has so far."""

    def __init__(self, choose: Choose, gradients: bool) -> None:
        self.choose = choose
        self.gradients = gradients
        self.program = Program([], gradients=gradients)
        self.values: list[Any] = []
        self.exact: list[bool] = []

    def pick(self, wanted: Callable[[Tensor], bool] = lambda t: True, exact: bool = False) -> int | None:
        """A tensor that fits; the latest ones are the likeliest."""
        fitting = [
            i
            for i, t in enumerate(self.values)
            if isinstance(t, Tensor) and wanted(t) and (self.exact[i] or not exact)
        ]
        if not fitting:
            return None
        return fitting[-1 - min(self.choose(len(fitting)), self.choose(len(fitting)))]

    def arrays(self) -> list[int]:
        return [i for i, value in enumerate(self.values) if isinstance(value, np.ndarray)]

    def add_input(self, array: np.ndarray, layout: str = "plain", name: str = "Tensor") -> None:
        program = self.program
        if layout == "shared":  # the memory of the input before it
            array = program.inputs[-1]
        program.inputs.append(array)
        program.layouts.append(layout)
        program.classes.append(name)
        self.values.append(program.argument(rl, array, layout, name, self.values))
        program.single |= array.dtype == np.float32
        self.exact.append(True)

    def add_step(self, name: str) -> bool:
        operation = OPERATIONS[name]
        drawn = operation.draw(self)
        if drawn is None:
            return False
        operands, parameters = drawn
        writes = name.endswith("_")
        try:
            result = operation.run(*[self.values[i] for i in operands], *parameters)
            if writes and self.gradients:
                self._differentiate()
        except RuntimeError as error:
            if not (writes and self.gradients and any(text in str(error) for text in WRITE_ERRORS)):
                raise
            self.values = self._again()
            return False
        exact = operation.exact and all(self.exact[i] for i in operands)
        if writes:
            self._spoil(operands[0], exact)
        self.program.steps.append(Step(name, operands, parameters))
        self.program.rounding.append(result.dtype is rl.float32 and not operation.exact)
        self.values.append(result)
        self.program.single |= result.dtype is rl.float32
        self.exact.append(exact)
        return True

    def _differentiate(self) -> None:
        """An error if a value that the backward pass needs was written to."""
        sums = [t.double().sum() for t in self.values if isinstance(t, Tensor) and t.requires_grad]
        leaves = [t for t in self.values[: len(self.program.inputs)] if t.requires_grad]
        rl.autograd.grad(sums, leaves, retain_graph=True, allow_unused=True)

    def _again(self) -> list[Any]:
        """The values of the program so far, made anew."""
        outputs = tuple(range(len(self.values)))
        return list(dataclasses.replace(self.program, outputs=outputs).run(*self.program.arguments()))

    def _spoil(self, target: int, exact: bool) -> None:
        """A write with inexact values makes everything that shares the memory inexact."""
        if not exact:
            written = memory_of(self.values[target])
            for i, value in enumerate(self.values):
                if memory_of(value) == written:
                    self.exact[i] = False


# Errors of writes that PyTorch refuses: to what the backward pass has saved, and to one of several views.
WRITE_ERRORS = ("modified by an inplace operation", "returns multiple views")


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


def laid_out(lib: Any, array: np.ndarray, layout: str, before: Sequence[Any]) -> Any:
    """A tensor of `lib` with the values of `array`; `before` are the inputs before it."""
    if layout == "shared":
        return before[-1].detach()
    if layout == "behind":  # not at the beginning of its memory
        whole = np.concatenate([np.full(3, 9, array.dtype), array.reshape(-1)])
        return lib.tensor(whole)[3:].view(array.shape)
    if layout == "with gaps" and array.ndim:
        return lib.tensor(np.repeat(array, 2, -1))[..., ::2]
    if layout == "transposed" and array.ndim:
        return lib.tensor(np.ascontiguousarray(array.T)).permute(*range(array.ndim)[::-1])
    return lib.tensor(array)


def draw_program(
    choose: Choose, *, gradients: bool = False, shortest: int = 5, longest: int = 40, kind: str = "tensors"
) -> Program:
    """A program of `shortest` to `longest` operators. With `gradients` it is differentiable in its inputs."""
    drawing = Drawing(choose, gradients)
    _draw_inputs(drawing, kind)
    usual, special = list(USUAL), list(KINDS[kind])
    spread = longest - shortest + 1
    count = shortest + min(choose(spread), choose(spread))
    attempts = 0
    while len(drawing.program.steps) < count and attempts < 3 * longest:
        attempts += 1
        names = special if special and choose(4) == 0 else usual
        drawing.add_step(names[choose(len(names))])
    drawing.program.outputs = draw_outputs(drawing)
    return drawing.program


def _draw_inputs(drawing: Drawing, kind: str) -> None:
    choose = drawing.choose
    generator = np.random.default_rng(choose(1000))
    classes = CLASSES.get(kind, ())
    for _ in range(1 + choose(3)):
        shape = SHAPES[choose(len(SHAPES))]
        array = generator.uniform(-2, 2, shape).astype((np.float64, np.float32)[choose(4) == 0])
        name = classes[choose(len(classes))] if classes and choose(2) else "Tensor"
        drawing.add_input(array, LAYOUTS[max(0, choose(2 * len(LAYOUTS)) - len(LAYOUTS))], name)
    if choose(8) == 7:
        drawing.add_input(array, "shared")
    drawing.add_input(generator.integers(-3, 4, SHAPES[choose(len(SHAPES))]))
    if kind == "arrays":
        for _ in range(2):
            dtype = ("float64", "float32", "int64")[choose(3)]
            drawing.add_input(make_array(SHAPES[choose(len(SHAPES))], dtype), name="ndarray")


def draw_outputs(drawing: Drawing) -> tuple[int, ...]:
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
