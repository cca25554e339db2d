"""PyTorch's OpInfo database as a list of entries, each with its samples as snapshots.

Invariant: every entry of the database is here; nothing is filtered out. Samples are the same in every run and
for every variant of one dtype, because torch seeds each of them.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal import common_utils
from torch.testing._internal.common_device_type import toleranceOverride
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo import core
from torch.testing._internal.opinfo.core import DecorateInfo

from . import snapshot
from .compare import Tolerance
from .families import family_of, registered_families
from .oracle import know_no_test, seed_the_cpu_alone
from .snapshot import dtype_name
from .tables import EXCLUDED, LOOSER

know_no_test(common_utils, core)
seed_the_cpu_alone()

# Tests of PyTorch's suite that compare forward values on the CPU, as this harness does.
_VALUE_TESTS = {
    "TestCommon",
    "TestUnaryUfuncs",
    "TestBinaryUfuncs",
    "TestBinaryUfuncsDevice",
    "TestReductions",
    "TestMasked",
    "TestDecomp",
}


@dataclass(frozen=True, eq=False)
class Sample:
    """One call: a snapshot of (input, args, kwargs), with what torch's suite says of it."""

    index: int
    arguments: Any  # snapshot of (input, args, kwargs)
    broadcasts_input: bool
    process_output: Any  # torch's own function of the output, for gradients

    @property
    def kwargs(self) -> dict[str, Any]:
        return self.arguments[2]


@dataclass(frozen=True, eq=False)
class ErrorSample:
    """A call that must raise `error_type`, and torch's own tensors for it."""

    index: int
    arguments: Any
    error_type: Any


@dataclass(frozen=True, eq=False)
class Entry:
    """One OpInfo."""

    info: Any
    full_name: str
    family: str

    @property
    def name(self) -> str:
        return str(self.info.name)

    @property
    def variant_name(self) -> str:
        return str(self.info.variant_test_name)

    @property
    def excluded(self) -> str | None:
        """Why this entry cannot apply, or None."""
        return EXCLUDED.get(self.full_name)

    @property
    def dtypes(self) -> set[str]:
        return {dtype_name(dtype) for dtype in self.info.dtypes}

    @property
    def backward_dtypes(self) -> set[str]:
        return {dtype_name(dtype) for dtype in self.info.supported_backward_dtypes("cpu")}

    def samples(self, dtype: str, *, requires_grad: bool) -> Iterator[Sample]:
        """Every sample of torch's suite for one dtype."""
        made = self.info.sample_inputs("cpu", getattr(torch, dtype), requires_grad=requires_grad)
        for index, sample in enumerate(made):
            arguments = snapshot.take((sample.input, tuple(sample.args), dict(sample.kwargs)))
            yield Sample(index, arguments, bool(sample.broadcasts_input), sample.output_process_fn_grad)

    def error_samples(self) -> Iterator[ErrorSample]:
        """Every call that torch's suite says must raise."""
        for index, error in enumerate(self.info.error_inputs("cpu")):
            sample = error.sample_input
            arguments = snapshot.take((sample.input, tuple(sample.args), dict(sample.kwargs)))
            yield ErrorSample(index, arguments, error.error_type)

    @property
    def has_error_samples(self) -> bool:
        return self.info.error_inputs_func is not None

    @functools.cached_property
    def tolerances(self) -> dict[str, Tolerance]:
        """Tolerances looser than the defaults, by dtype: torch's own for CPU value tests, and `tables`'."""
        found: dict[str, Tolerance] = dict(LOOSER.get(self.full_name, ({}, ""))[0])
        for override in _tolerance_overrides(self.info):
            for dtype, tolerance in override.d.items():
                name = dtype_name(dtype)
                found[name] = Tolerance(tolerance.rtol, tolerance.atol).at_least(found.get(name))
        return found


def _tolerance_overrides(info: Any) -> Iterator[Any]:
    for decorator in info.decorators or ():
        if isinstance(decorator, toleranceOverride):
            yield decorator
        elif isinstance(decorator, DecorateInfo) and _is_about_values(decorator):
            yield from (inner for inner in decorator.decorators if isinstance(inner, toleranceOverride))


def _is_about_values(decorator: Any) -> bool:
    return (
        decorator.device_type in (None, "cpu")
        and decorator.active_if is True
        and (decorator.cls_name is None or decorator.cls_name in _VALUE_TESTS)
        and decorator.test_name != "test_complex_half_reference_testing"
    )


@functools.cache
def entries() -> tuple[Entry, ...]:
    """The whole database, in its order."""
    registered = registered_families()
    return tuple(_entry(info, registered) for info in op_db)


def _entry(info: Any, registered: dict[str, str]) -> Entry:
    full_name = f"{info.name}.{info.variant_test_name}" if info.variant_test_name else info.name
    return Entry(info, full_name, family_of(info.name, info.aten_name or info.name, registered))


@functools.cache
def entries_by_name() -> dict[str, Entry]:
    return {entry.full_name: entry for entry in entries()}


def quiet(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` with torch's warnings off: they are about torch, inside the harness only."""

    @functools.wraps(function)
    def silenced(*args: Any, **kwargs: Any) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*args, **kwargs)

    return silenced
