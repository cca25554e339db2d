"""The instruction set of scalar expressions, one row an instruction.

Operator bodies (`ops.add(x, y)`), the NumPy handler that runs them, the `Recorder` that records them, the cost
model and code generation all speak these names. `INSTRUCTIONS[name]` tells how many operands an instruction
takes, the dtype of its result, what it costs and whether it gives the same bits wherever it is computed. The
recorder makes its methods from this table, so a name that is not in it raises at once;
tests/loops/test_instructions.py compares the table with the handler and with what LLVM code there is for.
"""

from __future__ import annotations

import difflib
import enum
from dataclasses import dataclass


class Role(enum.Enum):
    """Who may make an instruction."""

    BODY = "body"  # operator bodies and lowering rules, by name; the NumPy handler has it too
    COMPILER = "compiler"  # the compiler alone: it has no name in a body
    CHECK = "check"  # passes its first operand on, made harmless and reported if it is not allowed
    LEAF = "leaf"  # has no operands


class ResultType(enum.Enum):
    """The dtype of a result."""

    SAME = "that of the first operand"
    SECOND = "that of the second operand"
    BOOL = "bool"
    REAL = "that of a part of the first operand, if it is complex, else its own"
    COMPLEX = "the complex one with parts of the operand's dtype"
    INT32 = "int32"
    GIVEN = "said when the instruction is made"


class OperandTypes(enum.Enum):
    """Which dtypes the operands have."""

    ALIKE = "all of one dtype"
    CHOICE = "a condition, then two of one dtype"
    ANY = "any"


@dataclass(frozen=True)
class Instruction:
    """One scalar instruction."""

    name: str
    arity: int | None  # operands; None for any number
    doc: str
    result: ResultType = ResultType.SAME
    operands: OperandTypes = OperandTypes.ALIKE
    cost: int = 1  # in instructions as cheap as an addition
    exact: bool = True  # the same bits wherever it is computed
    role: Role = Role.BODY
    on: str = "r"  # operands that there is native code for: r(eal), b(ool), c(omplex)


# A division or root occupies its unit for about as long as four additions take; a polynomial of 10 to 15
# terms, what a transcendental function is here, as long as twelve.
SLOW, LONG = 4, 12


def _exact(
    name: str, arity: int, doc: str, result: ResultType = ResultType.SAME, cost: int = 1, on: str = "r"
) -> Instruction:
    return Instruction(name, arity, doc, result, cost=cost, on=on)


def _rounded(name: str, arity: int, doc: str, cost: int = 1, on: str = "r") -> Instruction:
    return Instruction(name, arity, doc, cost=cost, exact=False, on=on)


def _truth(
    name: str, arity: int, doc: str, operands: OperandTypes = OperandTypes.ALIKE, on: str = "r"
) -> Instruction:
    return Instruction(name, arity, doc, ResultType.BOOL, operands, on=on)


def _leaf(name: str, doc: str) -> Instruction:
    return Instruction(name, 0, doc, ResultType.GIVEN, OperandTypes.ANY, role=Role.LEAF)


def _compiler(
    name: str,
    arity: int | None,
    doc: str,
    result: ResultType = ResultType.GIVEN,
    cost: int = 1,
    exact: bool = True,
    on: str = "r",
) -> Instruction:
    return Instruction(name, arity, doc, result, OperandTypes.ANY, cost, exact, Role.COMPILER, on)


def _check(name: str, arity: int, doc: str) -> Instruction:
    return Instruction(name, arity, doc, ResultType.SAME, OperandTypes.ANY, role=Role.CHECK)


_LEAVES = (
    _leaf("constant", "a number that is known when the program is compiled"),
    _leaf("load", "an element of a buffer"),
    _leaf("index", "an index of the loops as a value"),
    _leaf("reduced", "the result of a reduction that an earlier phase has finished"),
    _leaf("running", "the value that a scan has reached"),
    _leaf("scalar", "a number that the caller passes"),
    _leaf("parameter", "what stands for a value inside of an `iterate`"),
)

_ARITHMETIC = (
    _exact("add", 2, "x + y, wrapping for integers; of bools, or", on="rbc"),
    _exact("sub", 2, "x - y, wrapping for integers", on="rc"),
    _exact("mul", 2, "x * y, wrapping for integers; of bools, and", on="rbc"),
    _exact("div", 2, "x / y of floats or complex numbers", cost=SLOW, on="rc"),
    _exact("neg", 1, "-x, wrapping for integers", on="rc"),
    _exact("abs", 1, "the magnitude, a real number for complex ones", ResultType.REAL, on="rbc"),
    _exact("maximum", 2, "the larger operand; NaN if either is", on="rb"),
    _exact("minimum", 2, "the smaller operand; NaN if either is", on="rb"),
    _exact("fmax", 2, "the larger operand; the other one if one is NaN", on="rb"),
    _exact("fmin", 2, "the smaller operand; the other one if one is NaN", on="rb"),
    _exact("gcd", 2, "the greatest common divisor of integers, not negative"),
    _rounded("fma", 3, "x * y + z of floats, rounded once where that is cheap"),
    _exact("floor_div", 2, "the quotient rounded down", cost=SLOW),
    _exact("trunc_div", 2, "the quotient rounded towards zero", cost=SLOW),
    _exact("remainder", 2, "what floor_div leaves: has the sign of y", cost=SLOW),
    _exact("fmod", 2, "what trunc_div leaves: has the sign of x", cost=SLOW),
)

_COMPARISON = (
    _truth("eq", 2, "x == y; NaN equals nothing", on="rbc"),
    _truth("ne", 2, "x != y; NaN differs from everything", on="rbc"),
    _truth("lt", 2, "x < y", on="rb"),
    _truth("le", 2, "x <= y", on="rb"),
    _truth("gt", 2, "x > y", on="rb"),
    _truth("ge", 2, "x >= y", on="rb"),
    _truth("isnan", 1, "whether x is NaN", on="rbc"),
    _truth("isinf", 1, "whether x is infinite", on="rbc"),
    _truth("isfinite", 1, "whether x is neither infinite nor NaN", on="rbc"),
    _truth("signbit", 1, "whether the sign bit is set, of -0.0 too"),
    _truth("logical_and", 2, "whether both are not zero", OperandTypes.ANY, on="rbc"),
    _truth("logical_or", 2, "whether one is not zero", OperandTypes.ANY, on="rbc"),
    _truth("logical_xor", 2, "whether exactly one is not zero", OperandTypes.ANY, on="rbc"),
    _truth("logical_not", 1, "whether it is zero", OperandTypes.ANY, on="rbc"),
    Instruction(
        "where",
        3,
        "the second operand where the first holds, else the third",
        ResultType.SECOND,
        OperandTypes.CHOICE,
    ),
)

_BITS = (
    _exact("bitwise_and", 2, "and of the bits of integers or bools", on="rb"),
    _exact("bitwise_or", 2, "or of the bits", on="rb"),
    _exact("bitwise_xor", 2, "exclusive or of the bits", on="rb"),
    _exact("bitwise_not", 1, "all bits inverted; of a bool, not", on="rb"),
    _exact(
        "bitwise_left_shift",
        2,
        "x << y; by the width or more, or by less than 0, all bits are shifted out",
        on="rb",
    ),
    _exact("bitwise_right_shift", 2, "x >> y, keeping the sign; the same holds for large shifts", on="rb"),
    _compiler("bitcast", 1, "the same bits as another dtype of the same size"),
    _compiler("bits_part", 2, "one part of the bits of a wider value, by its number"),
    _compiler("bits_join", None, "the bits of several values one after the other, as a wider dtype"),
)

_FORMAT = (
    _exact("floor", 1, "rounded down"),
    _exact("ceil", 1, "rounded up"),
    _exact("trunc", 1, "rounded towards zero"),
    _exact("round", 1, "rounded to the nearest integer, ties to the even one"),
    _exact("copysign", 2, "the magnitude of x with the sign of y"),
    _exact("nextafter", 2, "the next number of the dtype from x towards y", on="rb"),
    _compiler("frexp_mantissa", 1, "the mantissa of x, in [0.5, 1)", ResultType.SAME, on="rb"),
    _compiler("frexp_exponent", 1, "the binary exponent that belongs to it", ResultType.INT32, on="rb"),
    Instruction("frexp", 1, "mantissa and exponent, recorded as two instructions", ResultType.GIVEN),
    Instruction("cast", 1, "converted to a dtype; floats are truncated to integers", ResultType.GIVEN),
)

_FUNCTIONS = (
    _exact("sqrt", 1, "the square root", cost=SLOW, on="rc"),
    _rounded("exp", 1, "e ** x", LONG, on="rc"),
    _rounded("exp2", 1, "2 ** x", on="rc"),
    _rounded("expm1", 1, "e ** x - 1, precise near 0", LONG, on="rc"),
    _rounded("log", 1, "the natural logarithm", LONG, on="rc"),
    _rounded("log2", 1, "the logarithm to base 2", on="rc"),
    _rounded("log10", 1, "the logarithm to base 10", on="rc"),
    _rounded("log1p", 1, "log(1 + x), precise near 0", LONG, on="rc"),
    _rounded("pow", 2, "x ** y; integers to a negative power are truncated", LONG, on="rc"),
    _rounded("hypot", 2, "the length of the vector (x, y)"),
    _rounded("sin", 1, "sine", LONG, on="rc"),
    _rounded("cos", 1, "cosine", LONG, on="rc"),
    _rounded("tan", 1, "tangent", on="rc"),
    _rounded("asin", 1, "inverse sine", on="rc"),
    _rounded("acos", 1, "inverse cosine", on="rc"),
    _rounded("atan", 1, "inverse tangent", on="rc"),
    _rounded("atan2", 2, "the angle of the point (y, x), operands in that order"),
    _rounded("sinh", 1, "hyperbolic sine", on="rc"),
    _rounded("cosh", 1, "hyperbolic cosine", on="rc"),
    _rounded("tanh", 1, "hyperbolic tangent", LONG, on="rc"),
    _rounded("asinh", 1, "inverse hyperbolic sine", on="rc"),
    _rounded("acosh", 1, "inverse hyperbolic cosine", on="rc"),
    _rounded("atanh", 1, "inverse hyperbolic tangent", on="rc"),
    _compiler(
        "exp_nonpositive", 1, "e ** x of x that is surely not above 0", ResultType.SAME, LONG, exact=False
    ),
    _compiler("sigmoid", 1, "1 / (1 + e ** -x)", ResultType.SAME, LONG, exact=False),
)

_SPECIAL = (
    _rounded("erf", 1, "the error function", LONG),
    _rounded("erfc", 1, "1 - erf(x), precise for large x", LONG),
    _rounded("erfcx", 1, "erfc(x) scaled by e ** (x * x)"),
    _rounded("erfinv", 1, "the inverse of erf"),
    _rounded("ndtr", 1, "the distribution function of the normal distribution", LONG),
    _rounded("ndtri", 1, "the inverse of ndtr"),
    _rounded("density", 1, "the density of the normal distribution", LONG),
    _rounded("lgamma", 1, "the logarithm of the magnitude of the gamma function"),
    _rounded("digamma", 1, "the derivative of log gamma"),
    _rounded("igamma", 2, "the lower incomplete gamma function, regularized"),
    _rounded("igammac", 2, "the upper incomplete gamma function, regularized"),
    _rounded("zeta", 2, "the zeta function of Hurwitz"),
    _rounded("i0", 1, "the modified Bessel function of the first kind, order 0"),
    _rounded("i0e", 1, "i0 scaled by e ** -|x|"),
    _rounded("i1", 1, "the modified Bessel function of the first kind, order 1"),
    _rounded("i1e", 1, "i1 scaled by e ** -|x|"),
    _rounded("bessel_j0", 1, "the Bessel function of the first kind, order 0"),
    _rounded("bessel_j1", 1, "the Bessel function of the first kind, order 1"),
    _rounded("bessel_y0", 1, "the Bessel function of the second kind, order 0"),
    _rounded("bessel_y1", 1, "the Bessel function of the second kind, order 1"),
    _rounded("bessel_k0", 1, "the modified Bessel function of the second kind, order 0"),
    _rounded("bessel_k1", 1, "the modified Bessel function of the second kind, order 1"),
    _rounded("bessel_k0e", 1, "bessel_k0 scaled by e ** x"),
    _rounded("bessel_k1e", 1, "bessel_k1 scaled by e ** x"),
    _rounded("airy_ai", 1, "the Airy function Ai"),
)

_COMPLEX = (
    _exact("real", 1, "the real part", ResultType.REAL, on="c"),
    _exact("imag", 1, "the imaginary part", ResultType.REAL, on="c"),
    _exact("conj", 1, "the complex conjugate", on="c"),
    _exact("complex", 2, "the complex number of a real and an imaginary part", ResultType.COMPLEX, on="c"),
)

_OTHERS = (
    Instruction(
        "iterate",
        None,
        "one result of a loop whose number of steps is a value",
        ResultType.GIVEN,
        OperandTypes.ANY,
        cost=64,
    ),
    _compiler("random_word", 3, "32 random bits, by seed, offset and number of the draw", cost=24, on="rb"),
    _compiler("random_bits64", 3, "64 random bits", cost=24, on="rb"),
    _compiler("random_uniform", 3, "a float in [0, 1)", cost=28, on="rb"),
    _compiler("random_normal", 3, "a number from the normal distribution", cost=48, exact=False, on="rb"),
    _check(
        "checked_index", 1, "an index from memory, wrapped if it is negative and reported if out of range"
    ),
    _check("checked_divisor", 1, "a divisor of integers, reported if it is 0"),
    _check("checked", 2, "the first operand; reported where the second, a bool, is false"),
)

INSTRUCTIONS: dict[str, Instruction] = {
    row.name: row
    for group in (_LEAVES, _ARITHMETIC, _COMPARISON, _BITS, _FORMAT, _FUNCTIONS, _SPECIAL, _COMPLEX, _OTHERS)
    for row in group
}

COSTS = {row.name: row.cost for row in INSTRUCTIONS.values()}
CHECKS = frozenset(row.name for row in INSTRUCTIONS.values() if row.role is Role.CHECK)
COMPARISONS = frozenset(
    row.name for row in _COMPARISON if row.result is ResultType.BOOL and row.operands is OperandTypes.ALIKE
)


def unknown_instruction(name: str) -> str:
    """What to say of a name that is no instruction."""
    near = difflib.get_close_matches(name, [n for n, row in INSTRUCTIONS.items() if row.role is Role.BODY])
    hint = f"; did you mean {' or '.join(near)}?" if near else "."
    return f"there is no instruction {name!r}{hint} All of them are in rushlight/loops/instructions.py."
