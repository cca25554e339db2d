"""Random numbers in loops: every element is a function of the place of its draw and of its own index.

A rule gets `generator`, int64[2], which holds a seed and the word of its stream where the draw begins
(capture/random.py); kernels/random.py says what element i is. The rules here follow it operation by
operation, so that compiled and eager runs of a seed agree bit for bit. What cannot, because it takes a
function whose last bit depends on the library, or cannot be said for an element alone, stays with the eager
kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..core.dtypes import DTYPES, DType
from ..core.index import dot
from ..core.registry import REGISTRY
from ..core.shapes import Spec, contiguous_strides
from ..core.symbols import SymInt
from ..kernels.random import largest_integer
from ..loops.expr import Expr, NotRecordable, Recorder
from .declare import extern, lowering
from .lowered import Indices, Lowered, Lowerer

FLOAT32, FLOAT64 = DTYPES["float32"], DTYPES["float64"]
INT64, UINT32, UINT64 = DTYPES["int64"], DTYPES["uint32"], DTYPES["uint64"]


class Draw:
    """The words of one draw."""

    def __init__(self, low: Lowerer, generator: Lowered) -> None:
        self.ops = low.recorder
        self.seed, self.offset = generator.load((0,)), generator.load((1,))

    def word(self, number: Expr) -> Expr:
        """Word `number` of the draw, a uint32."""
        return self._make("random_word", number, UINT32)

    def bits64(self, number: Expr) -> Expr:
        """Words 2 number and 2 number + 1, a uint64."""
        return self._make("random_bits64", number, UINT64)

    def uniform(self, number: Expr, dtype: DType) -> Expr:
        return self._make("random_uniform", number, dtype.opmath, dtype.name)

    def normal(self, number: Expr, dtype: DType) -> Expr:
        return self._make("random_normal", number, dtype.opmath, dtype.opmath.name)

    def open_uniform(self, number: Expr, dtype: DType) -> Expr:
        """kernels.random.open_uniform, a float64."""
        ops = self.ops
        if dtype is FLOAT64:
            top = ops.bitwise_right_shift(self.bits64(number), ops.number(12, UINT64))
            return _scaled(ops, ops.cast(ops.bitcast(top, INT64), FLOAT64), 0.5, 2.0**-52)
        return _scaled(ops, ops.cast(self.word(number), FLOAT64), 0.5, 2.0**-32)

    def _make(self, op: str, number: Expr, dtype: DType, data: Any = None) -> Expr:
        return self.ops.make(op, (self.seed, self.offset, number), dtype, data)


def _scaled(ops: Recorder, x: Expr, plus: float, times: float) -> Expr:
    return ops.mul(ops.add(x, ops.number(plus, x.dtype)), ops.number(times, x.dtype))


def drawn(
    low: Lowerer, generator: Lowered, out: Spec, element: Callable[..., Expr], *tensors: Lowered
) -> Lowered:
    """The tensor of element(draw, number, elements of `tensors`...), cast to the dtype of `out`."""
    shape = out.known_shape()
    strides = contiguous_strides(shape)
    others = [tensor.expand(shape) for tensor in tensors]

    def at(index: Indices) -> Expr:
        ops = low.recorder
        number = ops.index(dot(index, strides), INT64)
        value = element(Draw(low, generator), number, *[other.load(index) for other in others])
        return ops.cast(value, out.dtype)

    return low.generated(shape, out.dtype, at)


def parts(draw: Draw, number: Expr, dtype: DType, element: Callable[[Expr], Expr]) -> Expr:
    """element(number), or of a complex number the elements 2 number and 2 number + 1."""
    if not dtype.is_complex:
        return element(number)
    ops = draw.ops
    first = ops.add(number, number)
    return ops.complex(element(first), element(ops.add(first, ops.number(1, INT64))))


# Uniform and normal.


@lowering("rand.generator", "rand_like.generator")
def rand(generator: Lowered, low: Lowerer, out: Spec) -> Lowered:
    real = out.dtype.to_real()
    return drawn(
        low,
        generator,
        out,
        lambda draw, number: parts(draw, number, out.dtype, lambda n: draw.uniform(n, real)),
    )


@lowering("uniform")
def uniform(from_: float, to: float, generator: Lowered, low: Lowerer, out: Spec) -> Lowered:
    real = out.dtype.to_real()
    compute = real.opmath
    ops = low.recorder
    first, last, width = (ops.number(v, compute) for v in (from_, to, to - from_))

    def scaled(draw: Draw, n: Expr) -> Expr:
        value = ops.add(ops.mul(draw.uniform(n, real), width), first)
        rounded = ops.cast(ops.cast(value, real), compute)
        return ops.where(ops.ge(rounded, last), first, rounded)

    return drawn(
        low, generator, out, lambda draw, number: parts(draw, number, out.dtype, lambda n: scaled(draw, n))
    )


def standard_normal(draw: Draw, number: Expr, dtype: DType) -> Expr:
    real = dtype.to_real()
    if not dtype.is_complex:
        return draw.normal(number, real)
    half = draw.ops.number(math.sqrt(0.5), real)
    return parts(draw, number, dtype, lambda n: draw.ops.mul(draw.normal(n, real), half))


@lowering("randn.generator", "randn_like.generator")
def randn(generator: Lowered, low: Lowerer, out: Spec) -> Lowered:
    return drawn(low, generator, out, lambda draw, number: standard_normal(draw, number, out.dtype))


@lowering(
    "normal.Tensor_Tensor",
    "normal.Tensor_float",
    "normal.float_Tensor",
    "normal.float_float",
    "normal_functional",
)
def normal(mean: Any, std: Any, generator: Lowered, low: Lowerer, out: Spec) -> Lowered:
    """mean + std * randn."""
    dtype, compute, ops = out.dtype, out.dtype.opmath, low.recorder
    tensors = [x for x in (mean, std) if isinstance(x, Lowered)]
    if (dtype.is_complex and tensors) or any(t.dtype.opmath is not compute for t in tensors):
        raise NotRecordable("normal numbers whose mean or deviation has another dtype")

    def element(draw: Draw, number: Expr, *given: Expr) -> Expr:
        rest = list(given)
        centre = rest.pop(0) if isinstance(mean, Lowered) else ops.number(mean, compute)
        width = ops.number(std, compute) if not isinstance(std, Lowered) else _not_negative(ops, rest.pop(0))
        values = standard_normal(draw, number, dtype)
        return ops.add(ops.mul(values, ops.cast(width, compute)), ops.cast(centre, compute))

    return drawn(low, generator, out, element, *tensors)


def _not_negative(ops: Recorder, x: Expr) -> Expr:
    return ops.checked(x, ops.ge(x, ops.constant(0, like=x)), "normal expects all elements of std >= 0.0")


def last_bit(dtype: DType) -> None:
    """Doubles of a library function have another last bit; rounded to a narrower dtype they are the same."""
    if dtype is FLOAT64:
        raise NotRecordable("a function of doubles whose last bit depends on the library")


@lowering("exponential")
def exponential(lambd: float, generator: Lowered, low: Lowerer, out: Spec) -> Lowered:
    last_bit(out.dtype)
    ops = low.recorder
    return drawn(
        low,
        generator,
        out,
        lambda draw, number: ops.div(
            ops.log(draw.open_uniform(number, out.dtype)), ops.number(-lambd, FLOAT64)
        ),
    )


@lowering("cauchy")
def cauchy(median: float, sigma: float, generator: Lowered, low: Lowerer, out: Spec) -> Lowered:
    last_bit(out.dtype)
    ops = low.recorder
    return drawn(
        low,
        generator,
        out,
        lambda draw, number: ops.add(
            ops.mul(
                ops.tan(_scaled(ops, draw.open_uniform(number, out.dtype), -0.5, math.pi)),
                ops.number(sigma, FLOAT64),
            ),
            ops.number(median, FLOAT64),
        ),
    )


@lowering("geometric")
def geometric(p: float, generator: Lowered, low: Lowerer, out: Spec) -> Lowered:
    ops = low.recorder
    divisor, one = (ops.number(v, FLOAT64) for v in (math.log1p(-p), 1.0))
    return drawn(
        low,
        generator,
        out,
        lambda draw, number: ops.maximum(
            ops.ceil(ops.div(ops.log(draw.open_uniform(number, FLOAT64)), divisor)), one
        ),
    )


# Integers.


def below(ops: Recorder, bits: Expr, span: int) -> Expr:
    """floor(bits * span / 2**64), by halves of 32 bits."""
    if span == 1 << 64:
        return bits
    number = ops.number
    shift, mask = number(32, UINT64), number(0xFFFFFFFF, UINT64)
    low, high = ops.bitwise_and(bits, mask), ops.bitwise_right_shift(bits, shift)
    if span <= 1 << 32:
        factor = number(span, UINT64)
        carry = ops.bitwise_right_shift(ops.mul(low, factor), shift)
        return ops.bitwise_right_shift(ops.add(ops.mul(high, factor), carry), shift)
    factor_low, factor_high = number(span & 0xFFFFFFFF, UINT64), number(span >> 32, UINT64)
    cross = ops.mul(low, factor_high)
    middle = ops.add(
        ops.add(ops.bitwise_right_shift(ops.mul(low, factor_low), shift), ops.bitwise_and(cross, mask)),
        ops.mul(high, factor_low),
    )
    return ops.add(
        ops.add(ops.mul(high, factor_high), ops.bitwise_right_shift(cross, shift)),
        ops.bitwise_right_shift(middle, shift),
    )


def integers(low: Lowerer, generator: Lowered, out: Spec, first: int | SymInt, span: int) -> Lowered:
    ops = low.recorder

    def element(draw: Draw, number: Expr) -> Expr:
        value = below(ops, draw.bits64(number), span)
        if isinstance(first, SymInt):
            value = ops.add(value, ops.bitcast(ops.number(first, INT64), UINT64))
        elif first:
            value = ops.add(value, ops.number(first % (1 << 64), UINT64))
        return value if out.dtype is UINT64 else ops.bitcast(value, INT64)

    return drawn(low, generator, out, element)


lowering("randint.generator", "randint_like.generator")(
    lambda high, generator, low, out: integers(low, generator, out, 0, high)
)


def _span_to(out: Spec, first: int, last: int | None) -> int:
    return (largest_integer(out.dtype) + 1 if last is None else last) - first


lowering("random")(lambda generator, low, out: integers(low, generator, out, 0, _span_to(out, 0, None)))
lowering("random.to")(lambda to, generator, low, out: integers(low, generator, out, 0, to))
lowering("random.from")(
    lambda from_, to, generator, low, out: integers(low, generator, out, from_, _span_to(out, from_, to))
)


def _declare_between(*names: str) -> None:
    """Operators with an argument called `low`, which is also what rules call the Lowerer."""
    for name in names:
        op = REGISTRY[name]
        names_of = op.schema.argument_names
        first, last, stream = (names_of.index(n) for n in ("low", "high", "generator"))
        op.lowering = lambda args, first=first, last=last, stream=stream: integers(
            args[-2], args[stream], args[-1], args[first], args[last] - args[first]
        )
        op.declared["lowering"] = "lowering.random"


_declare_between("randint.low_generator", "randint_like.low_generator_dtype")


# Choices.


def trials(draw: Draw, number: Expr, p: Expr) -> Expr:
    """kernels.random.trials: word < p * 2**32, in float64."""
    ops = draw.ops
    chance = ops.mul(ops.cast(p, FLOAT64), ops.number(2.0**32, FLOAT64))
    return ops.lt(ops.cast(draw.word(number), FLOAT64), chance)


@lowering("bernoulli.p")
def bernoulli_p(p: float, generator: Lowered, low: Lowerer, out: Spec) -> Lowered:
    chance = low.recorder.number(p, FLOAT64)
    return drawn(low, generator, out, lambda draw, number: trials(draw, number, chance))


@lowering("bernoulli.Tensor")
def bernoulli(p: Lowered, generator: Lowered, low: Lowerer, out: Spec) -> Lowered:
    ops = low.recorder

    def element(draw: Draw, number: Expr, chance: Expr) -> Expr:
        zero, one = ops.constant(0, like=chance), ops.constant(1, like=chance)
        allowed = ops.logical_and(ops.ge(chance, zero), ops.le(chance, one))
        checked = ops.checked(chance, allowed, "bernoulli expects all probabilities to be in [0, 1]")
        return trials(draw, number, checked)

    return drawn(low, generator, out, element, p)


lowering("bernoulli")(lambda self, generator, low, out: bernoulli(self, generator, low, out))


extern(
    "rejection takes as many attempts as the data says",
    "poisson",
    "binomial",
    "_standard_gamma",
    "_sample_dirichlet",
)
extern("the order of random keys, and cumulative sums in NumPy's order", "multinomial", "randperm.generator")
extern("series and tables that the size of the parameters chooses", "_standard_gamma_grad", "_dirichlet_grad")
extern("its range is data", "randint_like.Tensor_generator")
extern("a function of floats whose last bit depends on the library", "log_normal")
extern(
    "capture takes the overload with a generator",
    "rand",
    "rand_like",
    "randn",
    "randn_like",
    "randint",
    "randint.low",
    "randint_like",
    "randint_like.low_dtype",
    "randint_like.Tensor",
    "randperm",
    "native_dropout",
)
