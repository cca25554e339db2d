"""The checks of derivatives against one another and against finite differences: torch is not asked.

Every sample becomes a function of a few real numbers, `Curve`: its floating inputs move along fixed random
directions, and its outputs are laid end to end as real numbers. What holds of the curve for random directions
holds of the operator.

- `adjoint`: forward mode and reverse mode are each other's transpose, also where torch has only one of them.
- `jacobian`: `func.jacfwd` and `func.jacrev` give the same matrix.
- `hessian`: `func.jacfwd` of `func.jacrev`, which is the Hessian, is symmetric.
- forward mode where torch has none: transpose of our reverse mode, and equal to central differences.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from .backends import Backend, TorchBackend
from .case import Case, call
from .compare import Mismatch
from .derivative_checks import _direction, _replace
from .entries import Sample
from .record import Recorder
from .snapshot import dtype_name

OWN_REFERENCE = "forward mode checked against own reverse mode and finite differences, not PyTorch"
READ_BEYOND = frozenset(("as_strided.partial_views",))  # a tensor of the same values has other neighbours
# What torch's suite puts before a function whose input must be hermitian, triangular, or normalised.
_CONSTRAINTS = frozenset(
    (
        "gradcheck_wrapper_hermitian_input",
        "gradcheck_wrapper_triangular_input",
        "gradcheck_wrapper_triangular_input_real_positive_diagonal",
        "gradcheck_wrapper_ctc_loss",
    )
)
_DIRECTIONS = 3
_OUTPUTS = 4  # more outputs than this are combined into so many, at random
_ROUNDING = {"bfloat16": 2e-2, "float16": 2e-3, "float32": 1e-4, "complex32": 2e-3, "complex64": 1e-4}
_UNIT = {
    "bfloat16": 2.0**-8,
    "float16": 2.0**-11,
    "float32": 2.0**-24,
    "complex32": 2.0**-11,
    "complex64": 2.0**-24,
}
_DOUBLE = 2.0**-53


def check_adjoint(case: Case, record: Recorder) -> None:
    """<v, J t> equals <J* v, t> for random directions."""
    _each_sample(case, record, "adjoint", 1, _compare_modes)


def check_jacobian(case: Case, record: Recorder) -> None:
    """func.jacfwd equals func.jacrev."""
    _each_sample(case, record, "jacobian", _DIRECTIONS, _compare_jacobians)


def check_hessian(case: Case, record: Recorder) -> None:
    """The Hessian of a scalar made of the outputs is symmetric."""
    _each_sample(case, record, "hessian", _DIRECTIONS, _check_symmetry)


def check_own_forward_mode(case: Case, record: Recorder) -> None:
    """Forward mode where torch has none: the transpose of reverse mode, and what finite differences give."""
    if isinstance(case.backend, TorchBackend):
        return
    _each_sample(case, record, "fwad adjoint", 1, _compare_modes)
    if record.checked:
        record.note(OWN_REFERENCE, record.checked)
    if case.dtype not in ("float64", "complex128"):
        return
    for sample, curve in _curves(case, record, 1):
        # A draw has no derivative by what it is drawn from, unless it is said to have one.
        if case.sanity(sample) is None:
            with record.attempt(sample.index, "fwad finite differences"):
                record.note("not smooth at a sample", _compare_differences(curve))


class NothingToDo(Exception):
    """The sample has no differentiable input or output."""


class Curve:
    """One sample as a function of `count` real numbers; at zero it is the sample itself."""

    def __init__(self, case: Case, sample: Sample, count: int) -> None:
        self.side, self.sample, self.count = case.backend, sample, count
        self.function = _constrained(case)
        self.arguments = self.side.build(sample.arguments, requires_grad=True)
        self.inputs = [tensor for tensor in self.side.flat_tensors(self.arguments) if tensor.requires_grad]
        results = self.results(self.arguments)
        self.kept = [i for i, tensor in enumerate(results) if tensor.requires_grad]
        if not self.inputs or not self.kept:
            raise NothingToDo
        random = np.random.default_rng(sample.index)
        self.directions = [
            [_along(self.side, random, tensor) for _ in range(count)] for tensor in self.inputs
        ]
        tensors = (*results, *self.side.flat_tensors(self.arguments))
        self.unit = max(_UNIT.get(dtype_name(tensor.dtype), _DOUBLE) for tensor in tensors)

    def __call__(self, numbers: Any) -> Any:
        """The outputs as one real vector in double precision."""
        moved = []
        for tensor, directions in zip(self.inputs, self.directions, strict=True):
            there = tensor.detach()
            for number, direction in zip(numbers.unbind(0), directions, strict=True):
                there = there + number * direction
            moved.append(there.to(tensor.dtype))  # of which a 0-d tensor is as weak as a number
        results = self.results(_replace(self.side, self.arguments, self.inputs, moved))
        return self.side.namespace.cat([self._real(results[i]) for i in self.kept])

    def finite(self) -> np.ndarray:
        """Which of the real numbers belong to outputs that are finite; of a complex one both parts are."""
        results = self.results(self.arguments)
        arrays = [_wide(self.side, results[i].detach().resolve_conj()) for i in self.kept]
        parts = [np.repeat(np.isfinite(a).reshape(-1), 2 if np.iscomplexobj(a) else 1) for a in arrays]
        return np.concatenate(parts)

    def zero(self) -> Any:
        return self.at(np.zeros(self.count))

    def at(self, numbers: Sequence[float] | np.ndarray) -> Any:
        return self.side.from_array(np.asarray(numbers, np.float64), "float64")

    def results(self, arguments: Any) -> list[Any]:
        self.side.namespace.manual_seed(0)  # random operators are functions too, for a fixed seed
        result = call(self.function, arguments)
        return self.side.flat_tensors(self.side.translate(self.sample.process_output)(result))

    def _real(self, tensor: Any) -> Any:
        library = self.side.namespace
        tensor = tensor.to_dense()
        tensor = tensor.resolve_conj()
        if tensor.dtype.is_complex:
            tensor = library.view_as_real(tensor)
        return tensor.to(library.float64).reshape(-1)


def _constrained(case: Case) -> Callable[..., Any]:
    """The function of an entry, after what makes its input as it must be where it moves."""
    function, wrapper = case.function, case.entry.info.gradcheck_wrapper
    if _CONSTRAINTS.isdisjoint((wrapper.__name__, *wrapper.__code__.co_names)):  # or called by a lambda
        return function
    translated = case.backend.translate(wrapper)
    return lambda *args, **kwargs: translated(function, *args, **kwargs)


def _each_sample(case: Case, record: Recorder, name: str, count: int, check: Callable[[Curve], None]) -> None:
    record.samples = len(case.differentiable_samples)
    for sample, curve in _curves(case, record, count):
        with record.attempt(sample.index, name), warnings.catch_warnings():
            warnings.filterwarnings("error", message=".*has no batching rule.*")
            check(curve)


def _curves(case: Case, record: Recorder, count: int) -> Iterator[tuple[Sample, Curve]]:
    """The samples that can be differentiated."""
    if case.entry.full_name in READ_BEYOND and count > 1:
        record.note("reads memory that its input does not cover")
        return
    for sample in case.differentiable_samples:
        try:
            curve = Curve(case, sample, count)
        except NothingToDo:
            record.note("not differentiable")
        except Exception as error:
            record.fail(sample.index, "function", error)
        else:
            yield sample, curve


# --- forward mode and reverse mode -------------------------------------------------------------------


def _compare_modes(curve: Curve) -> None:
    side, library = curve.side, curve.side.namespace
    arguments, inputs, kept = curve.arguments, curve.inputs, curve.kept
    results = curve.results(arguments)
    random = np.random.default_rng(curve.sample.index)
    cotangents = [_along(side, random, results[i]) for i in kept]
    tangents = [_along(side, random, tensor) for tensor in inputs]
    grads = library.autograd.grad([results[i] for i in kept], inputs, cotangents, allow_unused=True)
    forward_ad = library.autograd.forward_ad
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(tensor.detach(), t) for tensor, t in zip(inputs, tangents, strict=True)]
        outputs = curve.results(_replace(side, arguments, inputs, duals))
        pushed = [forward_ad.unpack_dual(outputs[i]).tangent for i in kept]
    left, right = _product(side, cotangents, pushed), _product(side, grads, tangents)
    scale = max(abs(left), abs(right), _scale(side, grads, tangents), 1e-6)
    rounding = max(_ROUNDING.get(dtype_name(tensor.dtype), 1e-6) for tensor in (*results, *inputs))
    allowed = max(rounding * scale, 4 * curve.unit)  # derivatives that cancel to 0 are off by some units
    if np.isfinite(left) and np.isfinite(right) and abs(left - right) > allowed:
        raise Mismatch(f"forward mode gives {left}, reverse mode {right}")


def _along(side: Backend, random: np.random.Generator, tensor: Any) -> Any:
    """A random direction; of a sparse tensor one along the elements that it has."""
    direction = _direction(side, random, tensor)
    return direction if dtype_name(tensor.layout) == "strided" else direction.sparse_mask(tensor.detach())


def _product(side: Backend, first: Sequence[Any], second: Sequence[Any]) -> float:
    """The real inner product of two lists of tensors; None stands for zero."""
    total = 0.0
    for a, b in zip(first, second, strict=True):
        if a is not None and b is not None:
            total += float(np.sum(np.real(np.conj(_wide(side, a)) * _wide(side, b))))
    return total


def _scale(side: Backend, first: Sequence[Any], second: Sequence[Any]) -> float:
    pairs = [(a, b) for a, b in itertools.zip_longest(first, second) if a is not None and b is not None]
    return sum(float(np.sum(np.abs(_wide(side, a) * _wide(side, b)))) for a, b in pairs)


def _wide(side: Backend, tensor: Any) -> np.ndarray:
    array = side.to_array(tensor.to_dense())
    return array.astype(np.complex128 if tensor.dtype.is_complex else np.float64)


# --- finite differences ------------------------------------------------------------------------------


def _compare_differences(curve: Curve) -> int:
    """The tangent at zero against a central difference; how many elements have a kink there.

    The step balances the rounding of the coarsest dtype with the curvature. Where the slopes on both sides
    differ there is no derivative, and forward mode gives what reverse mode gives.
    """
    side = curve.side
    step, tolerance = curve.unit ** (1 / 3), max(8 * curve.unit ** (2 / 3), 1e-5)
    with side.namespace.no_grad():
        before, here, after = (side.to_array(curve(curve.at([sign * step]))) for sign in (-1.0, 0.0, 1.0))
    _, tangent = side.namespace.func.jvp(curve, (curve.zero(),), (curve.at([1.0]),))
    found = side.to_array(tangent)
    with np.errstate(all="ignore"):
        expected = (after - before) / (2 * step)
        allowed = tolerance * (1 + np.abs(here) + np.abs(expected))
        kink = np.abs(after - 2 * here + before) / step > allowed
        wrong = ~kink & np.isfinite(expected) & ~(np.abs(found - expected) <= allowed)
    if wrong.any():
        worst = int(np.argmax(np.where(wrong, np.abs(found - expected), -1)))
        raise Mismatch(
            f"{int(wrong.sum())} of {wrong.size} tangents differ from central differences; "
            f"the worst, element {worst}, is {found[worst]}, expected {expected[worst]}"
        )
    return int(kink.sum())


# --- whole Jacobians and Hessians --------------------------------------------------------------------


def _compare_jacobians(curve: Curve) -> None:
    side, combined = curve.side, _combined(curve)
    forward = side.to_array(side.namespace.func.jacfwd(combined, randomness="same")(curve.zero()))
    reverse = side.to_array(side.namespace.func.jacrev(combined)(curve.zero()))
    if not curve.finite().all():  # whose cotangents are 0, which times an infinite derivative is NaN
        reverse = np.where(np.isnan(reverse), forward, reverse)
    _compare(forward, reverse, curve, "jacfwd gives {}, jacrev {}")


def _check_symmetry(curve: Curve) -> None:
    combined = _combined(curve)

    def total(numbers: Any) -> Any:
        values = combined(numbers)
        return (values * values).sum() / 2 + values.sum()

    func = curve.side.namespace.func  # func.hessian is this, but cannot be told what to do about randomness
    matrix = func.jacfwd(func.jacrev(total), randomness="same")(curve.zero())
    hessian = curve.side.to_array(matrix)
    _compare(hessian, hessian.T, curve, "the Hessian is {}, its transpose {}")


def _combined(curve: Curve) -> Callable[[Any], Any]:
    """The curve, with many outputs combined into few by fixed random weights. Outputs that are not finite
    have no derivative, and would hide those of the others."""
    finite = curve.finite()
    kept = curve.side.from_array(np.flatnonzero(finite), "int64")

    def outputs(numbers: Any) -> Any:
        return curve(numbers) if finite.all() else curve(numbers).index_select(0, kept)

    size = int(finite.sum())
    if size <= _OUTPUTS:
        return outputs
    weights = np.random.default_rng(size).standard_normal((_OUTPUTS, size)) / np.sqrt(size)
    matrix = curve.side.from_array(weights, "float64")
    return lambda numbers: matrix @ outputs(numbers)


def _compare(first: np.ndarray, second: np.ndarray, curve: Curve, message: str) -> None:
    rounding = 1e-8 if curve.unit == _DOUBLE else 256 * curve.unit
    with np.errstate(all="ignore"):
        scale = max(float(np.nanmax(np.abs(second), initial=0.0)), 1.0)
        close = np.abs(first - second) <= rounding * scale
    agree = close | (np.isnan(first) & np.isnan(second)) | (first == second)
    if not agree.all():
        raise Mismatch(message.format(first.tolist(), second.tolist()))
