"""Random numbers: schemas and shape rules.

Every operator here draws from a Generator (`random=True`); what element i is, given the generator's position,
is said in kernels/random.py. Samplers that PyTorch has only in place (`uniform_`) are declared by their
functional form (`uniform`), which takes shape, dtype and layout from `self` and never reads its values.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from ..core import dtypes
from ..core.dtypes import DTYPES, Category, DType
from ..core.errors import check
from ..core.registry import FUNCTION, INPLACE_METHOD, OUT, Api, define
from ..core.shapes import Spec, broadcast_shapes
from ..core.tensor import Tensor
from ..core.traits import Trait
from .creation import OPTIONS, new, new_like

LIKE = f"{OPTIONS}, MemoryFormat? memory_format=None"
LONG = OPTIONS.replace("ScalarType? dtype=None", "ScalarType? dtype=4")  # 4 is ATen's number of int64
GENERATOR = "Generator? generator=None"

_INT64, _BOOL = DTYPES["int64"], DTYPES["bool"]
_FLOATS = frozenset(DTYPES[name] for name in ("float16", "bfloat16", "float32", "float64"))
_WIDE_FLOATS = frozenset(DTYPES[name] for name in ("float32", "float64"))
_COMPLEX = frozenset(DTYPES[name] for name in ("complex32", "complex64", "complex128"))
_WIDE_UNSIGNED = frozenset(DTYPES[name] for name in ("uint16", "uint32", "uint64"))
_INTEGERS = frozenset(d for d in DTYPES.values() if d.category is Category.INTEGRAL) - _WIDE_UNSIGNED


def check_supported(name: str, dtype: DType, allowed: frozenset[DType]) -> None:
    check(dtype in allowed, f"\"{name}\" not implemented for '{dtype.torch_name}'", NotImplementedError)


def check_continuous(name: str, dtype: DType) -> None:
    check(
        dtype.is_floating_point,
        f"{name} is a continuous probability distribution: dtype must be a "
        f"floating point but you specified {dtype.name}",
    )
    check_supported(name, dtype, _FLOATS)


def sampled(self: Tensor, name: str) -> Spec:
    """As `self`: what a functional sampler returns."""
    return new_like(self, None, None, None, name)


# Factories.

_FACTORY = FUNCTION | OUT | Api.REFITS


_NORMAL = ("normal", "normal_", "randn", "randn_like")


def continuous(spec: Spec, name: str) -> Spec:
    if name in _NORMAL and spec.shape is not None and 0 in spec.shape:
        return spec  # as PyTorch has it: of no elements any dtype will do
    check_supported(name, spec.dtype, _FLOATS | _COMPLEX)
    return spec


def _define_factory(name: str) -> None:
    """`rand` or `randn`, their likes, and the overloads of both that name a generator."""
    for overload, generator in (("", ""), (".generator", "Generator? generator, ")):
        define(
            f"{name}{overload}(SymInt[] size, *, {generator}{OPTIONS}) -> Tensor",
            random=True,
            api=_FACTORY,
            shape=lambda size, dtype, layout: continuous(new(size, dtype, layout, name), name),
        )
        define(
            f"{name}_like{overload}(Tensor self, *, {generator}{LIKE}) -> Tensor",
            random=True,
            api=FUNCTION,
            shape=lambda self, dtype, layout, memory_format: continuous(
                new_like(self, dtype, layout, memory_format, f"{name}_like"), f"{name}_like"
            ),
        )


_define_factory("rand")
_define_factory("randn")


def integers(spec: Spec, low: int, high: int | None, name: str) -> Spec:
    """Integers in [low, high), or in [low, largest] without `high`, that `spec.dtype` can hold."""
    dtype = spec.dtype
    check(
        not dtype.is_complex,
        f"{name} handles only integral, floating-point and boolean types, not {dtype.name}",
    )
    check_supported(name, dtype, _FLOATS | _INTEGERS | _WIDE_UNSIGNED | {_BOOL})
    check(
        high is None or low < high,
        f"{name} expects 'from' to be less than 'to', but got from={low} >= to={high}",
    )
    smallest, largest = bounds(dtype)
    check(smallest <= low <= largest, f"{name}: from is out of bounds for {dtype.name}: it is {low}")
    check(
        high is None or high - 1 <= largest, f"{name}: to - 1 is out of bounds for {dtype.name}: to is {high}"
    )
    if dtype.is_floating_point:
        exact = round(2 / dtypes.finfo(dtype).eps)  # beyond it, not every integer has a number of its own
        for value, what in (low, "from"), (high and high - 1, "to - 1"):
            if value is not None and abs(value) > exact:
                warnings.warn(
                    f"{name}: {what} is out of bounds [-{exact}, {exact}], between which "
                    f"{dtype.name} has every integer: it is {value}",
                    UserWarning,
                    stacklevel=3,
                )
    return spec


def bounds(dtype: DType) -> tuple[int, int]:
    if dtype is _BOOL:
        return 0, 1
    if dtype.is_floating_point:
        limit = dtypes.finfo(dtype)
        return int(limit.min), int(limit.max)
    info = dtypes.iinfo(dtype)
    return info.min, info.max


def randint(low: int, high: int, size: Sequence[int], dtype: DType | None, layout: Any) -> Spec:
    return integers(new(size, dtype or _INT64, layout, "randint"), low, high, "randint")


def randint_like(
    self: Tensor, low: int, high: int, dtype: DType | None, layout: Any, memory_format: Any
) -> Spec:
    return integers(new_like(self, dtype, layout, memory_format, "randint_like"), low, high, "randint_like")


def randint_like_tensor(
    self: Tensor, high: Tensor, dtype: DType | None, layout: Any, memory_format: Any
) -> Spec:
    """`high` is a value: the kernel checks it."""
    check(
        high.numel() == 1, f"randint_like: high must be a scalar tensor, but its shape is {tuple(high.shape)}"
    )
    spec = new_like(self, dtype, layout, memory_format, "randint_like")
    return integers(spec, 0, None, "randint_like")


for _overload, _low_overload, _like_overload, _generator in (
    ("", ".low", ".low_dtype", ""),
    (".generator", ".low_generator", ".low_generator_dtype", "Generator? generator, "),
):
    define(
        f"randint{_overload}(SymInt high, SymInt[] size, *, {_generator}{LONG}) -> Tensor",
        random=True,
        shape=lambda high, size, dtype, layout: randint(0, high, size, dtype, layout),
        api=_FACTORY,
    )
    define(
        f"randint{_low_overload}(SymInt low, SymInt high, SymInt[] size, *, {_generator}{LONG}) -> Tensor",
        random=True,
        shape=randint,
        api=_FACTORY,
    )
    define(
        f"randint_like{_overload}(Tensor self, SymInt high, *, {_generator}{LIKE}) -> Tensor",
        random=True,
        shape=lambda self, high, dtype, layout, memory_format: randint_like(
            self, 0, high, dtype, layout, memory_format
        ),
        api=FUNCTION,
    )
    _tensor_overload = ".Tensor" + _overload.replace(".", "_")
    define(
        f"randint_like{_tensor_overload}(Tensor self, Tensor high, *, {_generator}{LIKE}) -> Tensor",
        random=True,
        shape=randint_like_tensor,
        api=FUNCTION,
    )
    define(
        f"randint_like{_like_overload}(Tensor self, SymInt low, SymInt high, *, {_generator}{LIKE})"
        " -> Tensor",
        random=True,
        shape=randint_like,
        api=FUNCTION,
    )


def randperm(n: int, dtype: DType | None, layout: Any) -> Spec:
    spec = new((n,), dtype or _INT64, layout, "randperm")
    check_supported("randperm", spec.dtype, _FLOATS | _INTEGERS)
    last = exact_integers(spec.dtype)
    check(
        n - 1 <= last,
        f"randperm: n={n} is too large for {spec.dtype.name}, which holds integers exactly only up to {last}",
    )
    return spec


def exact_integers(dtype: DType) -> int:
    """The largest n such that `dtype` holds all of 0..n exactly."""
    return round(2 / dtypes.finfo(dtype).eps) if dtype.is_floating_point else bounds(dtype)[1]


define(f"randperm(SymInt n, *, {LONG}) -> Tensor", shape=randperm, random=True, api=_FACTORY)
define(
    f"randperm.generator(SymInt n, *, Generator? generator, {LONG}) -> Tensor",
    shape=randperm,
    random=True,
    api=_FACTORY,
)


# Normal and uniform.


def check_std(std: float, name: str) -> None:
    check(std >= 0, f"{name} expects std >= 0.0, but found std {std:g}")


def normal_size(std: float, size: Sequence[int], dtype: DType | None, layout: Any) -> Spec:
    check_std(std, "normal")
    return continuous(new(size, dtype, layout, "normal"), "normal")


def normal_mean(mean: Tensor, std: float) -> Spec:
    check_std(std, "normal")
    return continuous(sampled(mean, "normal"), "normal")


def normal_std(std: Tensor) -> Spec:
    check(not std.dtype.is_complex, "normal expects standard deviation to be non-complex")
    return continuous(sampled(std, "normal"), "normal")


def normal_both(mean: Tensor, std: Tensor) -> Spec:
    normal_std(std)
    check_supported("normal", mean.dtype, _FLOATS | _COMPLEX)
    return Spec(broadcast_shapes(mean.shape, std.shape, name="normal"), mean.dtype)


def normal_functional(self: Tensor, std: float) -> Spec:
    check_std(std, "normal_")
    return continuous(sampled(self, "normal_"), "normal_")


define(
    f"normal.Tensor_Tensor(Tensor mean, Tensor std, *, {GENERATOR}) -> Tensor",
    shape=normal_both,
    random=True,
    api=FUNCTION | OUT,
    traits=Trait.RAISES,
)
define(
    f"normal.Tensor_float(Tensor mean, float std=1., *, {GENERATOR}) -> Tensor",
    shape=normal_mean,
    random=True,
    api=_FACTORY,
    traits=Trait.RAISES,
)
define(
    f"normal.float_Tensor(float mean, Tensor std, *, {GENERATOR}) -> Tensor",
    shape=normal_std,
    random=True,
    api=FUNCTION | OUT,
    traits=Trait.RAISES,
)
define(
    f"normal.float_float(float mean, float std, SymInt[] size, *, {GENERATOR}, {OPTIONS}) -> Tensor",
    shape=normal_size,
    random=True,
    api=_FACTORY,
    traits=Trait.RAISES,
)
define(
    f"normal_functional(Tensor self, float mean=0., float std=1., *, {GENERATOR}) -> Tensor",
    shape=normal_functional,
    random=True,
    api=INPLACE_METHOD,
    public_name="normal",
)


def uniform(self: Tensor, from_: float, to: float) -> Spec:
    check_supported("uniform_", self.dtype, _FLOATS | _COMPLEX)
    largest = dtypes.finfo(self.dtype).max
    for name, value in (("from", from_), ("to", to)):
        check(
            -largest <= value <= largest, f"uniform_: {name}={value} is out of bounds for {self.dtype.name}"
        )
    check(from_ <= to, f"uniform_ expects to return a [from, to) range, but found from={from_} > to={to}")
    check(
        to - from_ <= largest,
        f"uniform_ expects to-from to be finite in {self.dtype.name}, but found from={from_} and to={to}",
    )
    return sampled(self, "uniform_")


define(
    f"uniform(Tensor self, float from=0., float to=1., *, {GENERATOR}) -> Tensor",
    shape=uniform,
    random=True,
    api=INPLACE_METHOD,
)


# Other distributions of one parameter set for all elements.


def exponential(self: Tensor, lambd: float) -> Spec:
    if self.numel():  # as PyTorch has it: of no elements any dtype will do
        check_continuous("exponential_", self.dtype)
    check(lambd > 0, f"exponential_ expects lambda > 0.0, but found lambda={lambd:g}")
    return sampled(self, "exponential_")


def geometric(self: Tensor, p: float) -> Spec:
    check_supported("geometric_", self.dtype, _FLOATS | _INTEGERS)
    check(0 < p < 1, f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    return sampled(self, "geometric_")


def cauchy(self: Tensor, sigma: float) -> Spec:
    check_continuous("cauchy_", self.dtype)
    check(sigma > 0, f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    return sampled(self, "cauchy_")


def log_normal(self: Tensor, std: float) -> Spec:
    if self.numel():
        check_supported("log_normal_", self.dtype, _FLOATS)
    check(std > 0, f"log_normal_ expects std > 0.0, but found std={std:g}")
    return sampled(self, "log_normal_")


def random(self: Tensor) -> Spec:
    check_supported("random_", self.dtype, _FLOATS | _INTEGERS | {_BOOL})
    return sampled(self, "random_")


_SAMPLER: dict[str, Any] = {"random": True, "api": INPLACE_METHOD}
define(f"exponential(Tensor self, float lambd=1., *, {GENERATOR}) -> Tensor", shape=exponential, **_SAMPLER)
define(f"geometric(Tensor self, float p, *, {GENERATOR}) -> Tensor", shape=geometric, **_SAMPLER)
define(
    f"cauchy(Tensor self, float median=0., float sigma=1., *, {GENERATOR}) -> Tensor",
    shape=cauchy,
    **_SAMPLER,
)
define(
    f"log_normal(Tensor self, float mean=1., float std=2., *, {GENERATOR}) -> Tensor",
    shape=log_normal,
    **_SAMPLER,
)
define(f"random(Tensor self, *, {GENERATOR}) -> Tensor", shape=random, **_SAMPLER)
define(
    f"random.to(Tensor self, int to, *, {GENERATOR}) -> Tensor",
    **_SAMPLER,
    shape=lambda self, to: integers(sampled(self, "random_"), 0, to, "random_"),
)
define(
    f"random.from(Tensor self, int from, int? to, *, {GENERATOR}) -> Tensor",
    **_SAMPLER,
    shape=lambda self, from_, to: integers(sampled(self, "random_"), from_, to, "random_"),
)


# Distributions whose parameters are tensors.


# Dropout.


# Reparametrised gradients: how a sample moves with its parameter, its rank in the distribution held fixed.
