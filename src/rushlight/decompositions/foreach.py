"""Operators on lists of tensors: each is another operator, applied to every element.

The tables say which operator stands behind each `_foreach_*`. All of them are composites, so that
autograd, transforms
and capture see nothing but the operators behind them; in-place forms are derived as for any other operator.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.dispatch import AMBIENT, run_name
from ..core.dtypes import Category
from ..core.errors import check
from ..core.registry import FUNCTION, INPLACE, REGISTRY, Api, composite
from ..core.tensor import Tensor

Tensors = Sequence[Tensor]
BOTH = FUNCTION | INPLACE


def each(operator: str, *arguments: Any) -> tuple[Tensor, ...]:
    """`operator` for every element; sequences are walked along, any other argument is the same each time."""
    sequences = [value for value in arguments if isinstance(value, tuple | list)]
    length = len(sequences[0])
    check(length > 0, "Tensor list must have at least one tensor.")
    for values in sequences:
        what = (
            "Tensor lists must have the same number of tensors"
            if values and isinstance(values[0], Tensor)
            else ("Tensor list must have same number of elements as scalar list")
        )
        check(len(values) == length, f"{what}, got {length} and {len(values)}")
    columns = [value if isinstance(value, tuple | list) else (value,) * length for value in arguments]
    rows = list(zip(*columns, strict=True))
    trace = AMBIENT.trace if length > 1 else None
    results = None if trace is None else trace.process_rows(REGISTRY[operator], rows)
    return tuple([run_name(operator, *row) for row in rows] if results is None else results)


# One tensor.

UNARY = (
    "abs",
    "acos",
    "asin",
    "atan",
    "ceil",
    "cos",
    "cosh",
    "erf",
    "erfc",
    "exp",
    "expm1",
    "floor",
    "frac",
    "lgamma",
    "log",
    "log10",
    "log1p",
    "log2",
    "neg",
    "reciprocal",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "tanh",
    "trunc",
)


def _unary(name: str) -> None:
    composite(f"_foreach_{name}(Tensor[] self) -> Tensor[]", api=BOTH)(lambda self: each(name, self))


for _name in UNARY:
    _unary(_name)

composite("_foreach_max(Tensor[] self) -> Tensor[]", api=FUNCTION)(lambda self: each("max", self))
composite("_foreach_zero(Tensor[] self) -> Tensor[]", api=Api.INPLACE_FUNCTION)(
    lambda self: each("zero", self)
)
composite("_foreach_clone(Tensor[] self, *, MemoryFormat? memory_format=None) -> Tensor[]", api=FUNCTION)(
    lambda self, memory_format: each("clone", self, memory_format)
)


@composite(
    "_foreach_norm.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]", api=FUNCTION
)
def norm(self: Tensors, ord: Any, dtype: Any) -> tuple[Tensor, ...]:
    return each("linalg_vector_norm", self, ord, None, False, dtype)


@composite(
    "_foreach_powsum.Scalar(Tensor[] self, Scalar ord=2, ScalarType? dtype=None) -> Tensor[]", api=FUNCTION
)
def powsum(self: Tensors, ord: Any, dtype: Any) -> tuple[Tensor, ...]:
    """The sum of the absolute values to the power `ord`."""
    powers = each("pow.Tensor_Scalar", each("abs", self), ord)
    return each("sum", powers, dtype)


# Two tensors. Behind each: the operator of two tensors and that of a tensor and a number, with what
# follows their
# operands.

BINARY = {
    "add": ("add.Tensor", "add.Scalar", (1,)),
    "sub": ("sub.Tensor", "sub.Scalar", (1,)),
    "mul": ("mul.Tensor", "mul.Scalar", ()),
    "div": ("div.Tensor", "div.Scalar", ()),
    "clamp_max": ("clamp_max.Tensor", "clamp_max", ()),
    "clamp_min": ("clamp_min.Tensor", "clamp_min", ()),
    "maximum": ("maximum", "maximum", ()),
    "minimum": ("minimum", "minimum", ()),
}


def _category(number: Any) -> Category:
    """The kind of a Python number; a tensor of a lower kind is promoted by it."""
    kinds = (bool, Category.BOOL), (int, Category.INTEGRAL), (float, Category.FLOATING)
    return next((category for kind, category in kinds if isinstance(number, kind)), Category.COMPLEX)


def _as_tensors(self: Tensors, numbers: Any) -> Any:
    """A number for each tensor, as a tensor: an element that equals it then shares the gradient with it."""
    several = numbers if isinstance(numbers, tuple | list) else (numbers,) * len(self)
    if len(several) != len(self):
        return several  # refused where the two are paired
    return [
        run_name(
            "full",
            (),
            number,
            tensor.dtype if _category(number) <= tensor.dtype.category else None,
            None,
            tensor.device,
            None,
        )
        for tensor, number in zip(self, several, strict=True)
    ]


def _binary(name: str, of_tensors: str, of_number: str, rest: tuple[Any, ...]) -> None:
    name = f"_foreach_{name}"
    if rest:
        composite(f"{name}.List(Tensor[] self, Tensor[] other, *, Scalar alpha=1) -> Tensor[]", api=BOTH)(
            lambda self, other, alpha: each(of_tensors, self, other, alpha)
        )
    else:
        composite(f"{name}.List(Tensor[] self, Tensor[] other) -> Tensor[]", api=BOTH)(
            lambda self, other: each(of_tensors, self, other)
        )
    numbers = _as_tensors if of_number == of_tensors else lambda self, given: given
    composite(f"{name}.Scalar(Tensor[] self, Scalar scalar) -> Tensor[]", api=BOTH)(
        lambda self, scalar: each(of_number, self, numbers(self, scalar), *rest)
    )
    composite(f"{name}.ScalarList(Tensor[] self, Scalar[] scalars) -> Tensor[]", api=BOTH)(
        lambda self, scalars: each(of_number, self, numbers(self, scalars), *rest)
    )


for _name, _behind in BINARY.items():
    _binary(_name, *_behind)

composite("_foreach_add.Tensor(Tensor[] self, Tensor other, *, Scalar alpha=1) -> Tensor[]", api=BOTH)(
    lambda self, other, alpha: each("add.Tensor", self, other, alpha)
)
composite("_foreach_mul.Tensor(Tensor[] self, Tensor other) -> Tensor[]", api=BOTH)(
    lambda self, other: each("mul.Tensor", self, other)
)
composite("_foreach_div.Tensor(Tensor[] self, Tensor other) -> Tensor[]", api=BOTH)(
    lambda self, other: each("div.Tensor", self, other)
)

composite("_foreach_pow.List(Tensor[] self, Tensor[] exponent) -> Tensor[]", api=BOTH)(
    lambda self, exponent: each("pow.Tensor_Tensor", self, exponent)
)
composite(
    "_foreach_pow.Scalar(Tensor[] self, Scalar exponent) -> Tensor[]",
    "_foreach_pow.ScalarList(Tensor[] self, Scalar[] exponent) -> Tensor[]",
    api=BOTH,
)(lambda self, exponent: each("pow.Tensor_Scalar", self, exponent))
composite("_foreach_pow.ScalarAndTensor(Scalar self, Tensor[] exponent) -> Tensor[]", api=FUNCTION)(
    lambda self, exponent: each("pow.Scalar", self, exponent)
)

composite("_foreach_mm(Tensor[] self, Tensor[] mat2) -> Tensor[]", api=FUNCTION)(
    lambda self, mat2: each("mm", self, mat2)
)
composite(
    "_foreach_copy(Tensor[] self, Tensor[] src, bool non_blocking=False) -> Tensor[]",
    api=Api.INPLACE_FUNCTION,
)(lambda self, src, non_blocking: each("copy", self, src, non_blocking))

# Three tensors.

composite("_foreach_lerp.List(Tensor[] self, Tensor[] tensors1, Tensor[] weights) -> Tensor[]", api=BOTH)(
    lambda self, tensors1, weights: each("lerp.Tensor", self, tensors1, weights)
)
composite(
    "_foreach_lerp.Scalar(Tensor[] self, Tensor[] tensors1, Scalar weight) -> Tensor[]",
    "_foreach_lerp.ScalarList(Tensor[] self, Tensor[] tensors1, Scalar[] weight) -> Tensor[]",
    api=BOTH,
)(lambda self, tensors1, weight: each("lerp.Scalar", self, tensors1, weight))


def _fused_product(name: str) -> None:
    lists = "Tensor[] self, Tensor[] tensor1, Tensor[] tensor2"
    composite(f"_foreach_{name}.Scalar({lists}, Scalar value=1) -> Tensor[]", api=BOTH)(
        lambda self, tensor1, tensor2, value: each(name, self, tensor1, tensor2, value)
    )
    composite(f"_foreach_{name}.ScalarList({lists}, Scalar[] scalars) -> Tensor[]", api=BOTH)(
        lambda self, tensor1, tensor2, scalars: each(name, self, tensor1, tensor2, scalars)
    )

    @composite(f"_foreach_{name}.Tensor({lists}, Tensor scalars) -> Tensor[]", api=BOTH)
    def with_tensor(self: Tensors, tensor1: Tensors, tensor2: Tensors, scalars: Tensor) -> tuple[Tensor, ...]:
        """`scalars` has one value for each element of the lists."""
        check(
            scalars.ndim == 1,
            f"Expected packed scalar Tensor to be of dimension 1. Got {scalars.ndim} instead.",
        )
        check(
            scalars.shape[0] == len(self),
            f"Expected length of scalars to match input of length {len(self)} but "
            f"got {scalars.shape[0]} instead.",
        )
        product = each(f"{'div' if name == 'addcdiv' else 'mul'}.Tensor", tensor1, tensor2)
        return each("add.Tensor", self, each("mul.Tensor", product, scalars.unbind(0)), 1)


_fused_product("addcmul")
_fused_product("addcdiv")
