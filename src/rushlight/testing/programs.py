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
from rushlight.core.dispatch import run_name
from rushlight.core.tensor import Tensor

Choose = Callable[[int], int]  # choose(n): a number in range(n)

FLOATS = (rl.float64, rl.float32)
LARGEST = 400  # elements of a value; larger ones are not used as operands of what grows


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
        lines = [f"v{i} = tensor of {a.dtype} {a.shape}, {layout}"
                 for i, (a, layout) in enumerate(zip(self.inputs, self.layouts, strict=True))]
        lines += [f"v{len(self.inputs) + i} = {step}" for i, step in enumerate(self.steps)]
        return "\n".join([*lines, f"return {', '.join(f'v{i}' for i in self.outputs)}"])


@dataclass(frozen=True)
class Operation:
    """How to run a step, and how to draw its operands: `draw` returns (operands, parameters), or None."""

    run: Callable[..., Tensor]
    draw: Callable[[Drawing], tuple[tuple[int, ...], tuple[Any, ...]] | None]
    exact: bool = False  # the result is exact if the operands are


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
    names = [name for name in OPERATIONS if not (gradients and name.endswith("_") and name in INTEGER_ONLY)]
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


# Operands.


def is_float(t: Tensor) -> bool:
    return t.is_floating_point()


def one(
    wanted: Callable[[Tensor], bool] = lambda t: True,
    exact: bool = False,
    *,
    parameters: Callable[[Drawing, Tensor], tuple[Any, ...] | None] = lambda drawing, t: (),
) -> Any:
    """One operand that fits, and parameters that fit it."""

    def draw(drawing: Drawing) -> Any:
        at = drawing.pick(wanted, exact)
        if at is None:
            return None
        given = parameters(drawing, drawing.values[at])
        return None if given is None else ((at,), given)

    return draw


def two(wanted: Callable[[Tensor], bool] = lambda t: True, exact: bool = False) -> Any:
    """Two operands that broadcast together."""

    def draw(drawing: Drawing) -> Any:
        first = drawing.pick(wanted, exact)
        if first is None:
            return None
        shape = drawing.values[first].shape
        second = drawing.pick(lambda t: wanted(t) and broadcasts(t.shape, shape), exact)
        return None if second is None else ((first, second), ())

    return draw


def broadcasts(a: Sequence[int], b: Sequence[int]) -> bool:
    fits = all(m == n or m == 1 or n == 1 for m, n in zip(reversed(a), reversed(b), strict=False))
    return (
        fits
        and np.prod(np.maximum(np.resize(a or [1], 3), 1)) * np.prod([max(n, 1) for n in b]) < 20 * LARGEST
    )


def target_and_source(drawing: Drawing) -> Any:
    """A tensor that may be written to, and one that broadcasts to it."""
    first = drawing.pick(lambda t: writable(drawing, t))
    if first is None:
        return None
    target = drawing.values[first]
    second = drawing.pick(
        lambda t: (
            expands_to(t.shape, target.shape)
            and (target.is_floating_point() or t.dtype is target.dtype)
            and not overlaps_partly(t, target)
        )
    )
    return None if second is None else ((first, second), ())


def overlaps_partly(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors share memory without being the same view of it."""
    if a.untyped_storage().data_ptr() != b.untyped_storage().data_ptr():
        return False
    return (a.shape, a.stride(), a.storage_offset()) != (b.shape, b.stride(), b.storage_offset())


def writable(drawing: Drawing, t: Tensor) -> bool:
    """No two elements share memory; and, where gradients are taken, it is not a leaf nor a view of one."""
    if any(n > 1 and s == 0 for n, s in zip(t.shape, t.stride(), strict=True)) or overlapping(t):
        return False
    return not drawing.gradients


def overlapping(t: Tensor) -> bool:
    steps = sorted((s, n) for n, s in zip(t.shape, t.stride(), strict=True) if n > 1)
    reach = 0
    for stride, size in steps:
        if stride <= reach:
            return True
        reach += stride * (size - 1)
    return False


def expands_to(shape: Sequence[int], target: Sequence[int]) -> bool:
    padded = (1,) * (len(target) - len(shape)) + tuple(shape)
    return len(shape) <= len(target) and all(n in (1, m) for n, m in zip(padded, target, strict=True))


def any_dim(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    return (drawing.choose(t.ndim),) if t.ndim else None


def full_dim(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    """A dimension, of a tensor with elements."""
    return any_dim(drawing, t) if t.numel() else None


def two_dims(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    return (drawing.choose(t.ndim), drawing.choose(t.ndim)) if t.ndim else None


def dim_and_keepdim(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    return (drawing.choose(t.ndim), drawing.choose(2) == 1) if t.ndim and t.numel() else None


def some_slice(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    if not t.ndim:
        return None
    dim = drawing.choose(t.ndim)
    start = drawing.choose(t.shape[dim] + 1)
    return dim, start, start + drawing.choose(t.shape[dim] + 1 - start), 1 + drawing.choose(3)


def position(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    filled = [d for d, n in enumerate(t.shape) if n]
    if not filled:
        return None
    dim = filled[drawing.choose(len(filled))]
    return dim, drawing.choose(2 * t.shape[dim]) - t.shape[dim]


def new_shape(drawing: Drawing, t: Tensor) -> tuple[Any, ...]:
    total = t.numel()
    shapes = [(total,), (1, total), (total, 1)]
    shapes += [(k, total // k) for k in range(2, 7) if total and total % k == 0]
    return (shapes[drawing.choose(len(shapes))],)


def expanded(drawing: Drawing, t: Tensor) -> tuple[Any, ...] | None:
    if t.numel() > LARGEST or t.ndim > 3:
        return None
    lead = (1 + drawing.choose(3),) if drawing.choose(2) else ()
    return (lead + tuple(1 + drawing.choose(4) if n == 1 else n for n in t.shape),)


def permutation(drawing: Drawing, t: Tensor) -> tuple[Any, ...]:
    left, order = list(range(t.ndim)), []
    while left:
        order.append(left.pop(drawing.choose(len(left))))
    return (tuple(order),)


def a_number(drawing: Drawing, t: Tensor) -> tuple[Any, ...]:
    return ((drawing.choose(9) - 4) / 2,) if t.is_floating_point() else (drawing.choose(7) - 3,)


def product_operands(drawing: Drawing) -> Any:
    first = drawing.pick(lambda t: is_float(t) and 1 <= t.ndim <= 3 and t.numel() <= LARGEST)
    if first is None:
        return None
    left = drawing.values[first]
    second = drawing.pick(
        lambda t: t.dtype is left.dtype and multiplies(left.shape, t.shape) and t.numel() <= LARGEST
    )
    return None if second is None else ((first, second), ())


def multiplies(a: Sequence[int], b: Sequence[int]) -> bool:
    if not 1 <= len(b) <= 3 or a[-1] != (b[-2] if len(b) > 1 else b[0]):
        return False
    return broadcasts(a[:-2], b[:-2])


def rows_of_same_width(drawing: Drawing) -> Any:
    first = drawing.pick(lambda t: t.ndim >= 1 and t.numel() <= LARGEST)
    if first is None:
        return None
    shape = drawing.values[first].shape
    dim = drawing.choose(len(shape))
    rest = shape[:dim] + shape[dim + 1 :]
    second = drawing.pick(
        lambda t: t.ndim == len(shape) and t.shape[:dim] + t.shape[dim + 1 :] == rest and t.numel() <= LARGEST
    )
    return None if second is None else ((first, second), (dim,))


def gather_operands(drawing: Drawing) -> Any:
    source = drawing.pick(lambda t: t.ndim >= 1 and 0 not in t.shape)
    index = drawing.pick(lambda t: t.dtype is rl.int64 and t.ndim == 1, exact=True)
    if source is None or index is None:
        return None
    return (source, index), (drawing.choose(drawing.values[source].ndim),)


def three(drawing: Drawing) -> Any:
    """A condition from an exact value, and two operands."""
    pair = two()(drawing)
    if pair is None:
        return None
    (first, second), _ = pair
    shape = np.broadcast_shapes(drawing.values[first].shape, drawing.values[second].shape)
    test = drawing.pick(lambda t: broadcasts(t.shape, shape), exact=True)
    return None if test is None else ((test, first, second), ())


def in_range(index: Tensor, size: int) -> Tensor:
    return index.remainder(size)


def _inplace(name: str) -> Callable[..., Tensor]:
    return lambda target, *rest: getattr(target, name)(*rest)


def _method(name: str) -> Callable[..., Tensor]:
    return lambda t, *rest: getattr(t, name)(*rest)


UNARY = (
    "tanh",
    "sigmoid",
    "sin",
    "cos",
    "exp2",
    "atan",
    "erf",
    "log1p_abs",
    "sqrt_abs",
    "rsqrt_abs",
    "exp_down",
    "reciprocal_up",
    "softplus",
)
SPECIAL_UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "log1p_abs": lambda x: x.abs().log1p(),
    "sqrt_abs": lambda x: (x.abs() + 0.5).sqrt(),
    "rsqrt_abs": lambda x: (x.abs() + 0.5).rsqrt(),
    "exp_down": lambda x: (-x.abs()).exp(),
    "reciprocal_up": lambda x: (x.abs() + 1).reciprocal(),
    "exp2": lambda x: x.tanh().exp2(),
    "softplus": lambda x: rl.logaddexp(x, rl.zeros_like(x)),
}

OPERATIONS: dict[str, Operation] = {
    **{name: Operation(SPECIAL_UNARY.get(name) or _method(name), one(is_float)) for name in UNARY},
    "neg": Operation(_method("neg"), one(lambda t: t.dtype is not rl.bool), exact=True),
    "abs": Operation(_method("abs"), one(lambda t: t.dtype is not rl.bool), exact=True),
    "relu": Operation(_method("relu"), one(lambda t: t.dtype is not rl.bool), exact=True),
    "clamp": Operation(lambda t: t.clamp(-1, 1), one(lambda t: t.dtype is not rl.bool), exact=True),
    "floor": Operation(
        _method("floor"), one(exact=True, wanted=lambda t: t.dtype is not rl.bool), exact=True
    ),
    "round": Operation(
        _method("round"), one(exact=True, wanted=lambda t: t.dtype is not rl.bool), exact=True
    ),
    "sign": Operation(_method("sign"), one(exact=True, wanted=lambda t: t.dtype is not rl.bool), exact=True),
    "to_float64": Operation(lambda t: t.to(rl.float64), one(), exact=True),
    "to_float32": Operation(lambda t: t.to(rl.float32), one()),
    "to_int64": Operation(
        lambda t: t.clamp(-9, 9).to(rl.int64), one(exact=True, wanted=is_float), exact=True
    ),
    "add_number": Operation(
        lambda t, n: t + n, one(parameters=a_number, wanted=lambda t: t.dtype is not rl.bool)
    ),
    "mul_number": Operation(
        lambda t, n: t * n, one(parameters=a_number, wanted=lambda t: t.dtype is not rl.bool)
    ),
    "add": Operation(lambda a, b: a + b, two()),
    "sub": Operation(lambda a, b: a - b, two(lambda t: t.dtype is not rl.bool)),
    "mul": Operation(lambda a, b: (a * b).clamp(-8, 8), two(lambda t: t.dtype is not rl.bool)),
    "div": Operation(lambda a, b: a / (b.abs() + 1), two(lambda t: t.dtype is not rl.bool)),
    "floor_divide": Operation(
        lambda a, b: a // (b.abs() + 1), two(lambda t: t.dtype is rl.int64, exact=True), exact=True
    ),
    "remainder": Operation(
        lambda a, b: a % (b.abs() + 1), two(lambda t: t.dtype is rl.int64, exact=True), exact=True
    ),
    "maximum": Operation(lambda a, b: rl.maximum(a, b), two(), exact=True),
    "minimum": Operation(lambda a, b: rl.minimum(a, b), two(), exact=True),
    "atan2": Operation(lambda a, b: rl.atan2(a, b.abs() + 1), two(is_float)),
    "hypot": Operation(lambda a, b: rl.hypot(a, b), two(is_float)),
    "less": Operation(lambda a, b: a < b, two(exact=True), exact=True),
    "equal": Operation(lambda a, b: a == b, two(exact=True), exact=True),
    "logical_not": Operation(_method("logical_not"), one(exact=True), exact=True),
    "where": Operation(lambda test, a, b: rl.where(test > 0, a, b), three, exact=True),
    "masked_fill": Operation(
        lambda t, m: t.masked_fill(m < 0, 2), two(lambda t: t.dtype is not rl.bool, exact=True), exact=True
    ),
    # Reductions and scans.
    "sum": Operation(_method("sum"), one(parameters=dim_and_keepdim)),
    "sum_all": Operation(_method("sum"), one()),
    "mean": Operation(_method("mean"), one(is_float, parameters=dim_and_keepdim)),
    "amax": Operation(_method("amax"), one(parameters=dim_and_keepdim), exact=True),
    "amin_all": Operation(_method("amin"), one(lambda t: t.numel() > 0), exact=True),
    "prod": Operation(
        lambda t, dim, keep: t.sin().prod(dim, keep), one(is_float, parameters=dim_and_keepdim)
    ),
    "var": Operation(
        lambda t, dim, keep: t.var(dim, correction=0, keepdim=keep), one(is_float, parameters=dim_and_keepdim)
    ),
    "logsumexp": Operation(_method("logsumexp"), one(is_float, parameters=dim_and_keepdim)),
    "softmax": Operation(_method("softmax"), one(is_float, parameters=full_dim)),
    "argmax": Operation(
        _method("argmax"),
        one(exact=True, wanted=lambda t: t.dtype is not rl.bool, parameters=dim_and_keepdim),
        exact=True,
    ),
    "any": Operation(_method("any"), one(exact=True, parameters=dim_and_keepdim), exact=True),
    "cumsum": Operation(_method("cumsum"), one(parameters=full_dim)),
    "sort": Operation(lambda t, dim: t.sort(dim).values, one(exact=True, parameters=full_dim), exact=True),
    # Views and copies.
    "transpose": Operation(_method("transpose"), one(parameters=two_dims), exact=True),
    "permute": Operation(_method("permute"), one(parameters=permutation), exact=True),
    "reshape": Operation(_method("reshape"), one(parameters=new_shape), exact=True),
    "expand": Operation(_method("expand"), one(parameters=expanded), exact=True),
    "unsqueeze": Operation(
        _method("unsqueeze"), one(lambda t: 1 <= t.ndim <= 3, parameters=any_dim), exact=True
    ),
    "squeeze": Operation(_method("squeeze"), one(), exact=True),
    "slice": Operation(
        lambda t, dim, a, b, step: run_name("slice.Tensor", t, dim, a, b, step),
        one(parameters=some_slice),
        exact=True,
    ),
    "select": Operation(_method("select"), one(parameters=position), exact=True),
    "flip": Operation(lambda t, dim: t.flip(dim), one(parameters=any_dim), exact=True),
    "roll": Operation(lambda t, dim: t.roll(1, dim), one(parameters=any_dim), exact=True),
    "diagonal": Operation(_method("diagonal"), one(lambda t: t.ndim >= 2), exact=True),
    "tril": Operation(_method("tril"), one(lambda t: t.ndim >= 2), exact=True),
    "clone": Operation(_method("clone"), one(), exact=True),
    "contiguous": Operation(_method("contiguous"), one(), exact=True),
    "cat": Operation(lambda a, b, dim: rl.cat([a, b], dim), rows_of_same_width, exact=True),
    "pad": Operation(
        lambda t: rl.constant_pad_nd(t, (1, 2), 3),
        one(lambda t: t.ndim >= 1 and t.numel() <= LARGEST),
        exact=True,
    ),
    "index_select": Operation(
        lambda t, i, dim: t.index_select(dim, in_range(i, t.shape[dim])), gather_operands, exact=True
    ),
    "index_add": Operation(
        lambda t, i, dim: t.index_add(
            dim, in_range(i, t.shape[dim]), t.index_select(dim, in_range(i + 1, t.shape[dim]))
        ),
        gather_operands,
    ),
    # Products.
    "matmul": Operation(lambda a, b: (a @ b).tanh(), product_operands),
    # Writes.
    "add_": Operation(_inplace("add_"), target_and_source),
    "copy_": Operation(_inplace("copy_"), target_and_source, exact=True),
    "fill_": Operation(
        _inplace("fill_"), lambda d: one(lambda t: writable(d, t), parameters=a_number)(d), exact=True
    ),
    "mul_": Operation(
        lambda t: t.mul_(-1),
        lambda d: one(lambda t: writable(d, t) and t.dtype is not rl.bool)(d),
        exact=True,
    ),
    "relu_": Operation(
        _inplace("relu_"), lambda d: one(lambda t: writable(d, t) and t.dtype is not rl.bool)(d), exact=True
    ),
    "clamp_": Operation(
        lambda t: t.clamp_(-1, 1),
        lambda d: one(lambda t: writable(d, t) and t.dtype is not rl.bool)(d),
        exact=True,
    ),
}

INTEGER_ONLY = frozenset(name for name in OPERATIONS if name.endswith("_"))
