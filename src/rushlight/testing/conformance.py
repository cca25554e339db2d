"""Running entries of PyTorch's OpInfo database against Rushlight: the harness behind the command and the
tests.

    run_entry("sum", "", "float32", "fwd")      -> Result
    run_task(Task("sum", ("float32",), ("fwd", "bwd")))   -> one Result per dtype and variant

Invariant: for every entry, dtype and variant asked for there is exactly one Result, whatever happens.
"""

from __future__ import annotations

import functools
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import torch

from rushlight.eager import get, use

from . import derivative_checks as derivatives
from . import property_checks as properties
from . import transform_checks as transforms
from .backends import Backend, RushlightBackend, TorchBackend
from .case import Case
from .checks import (
    check_compiled,
    check_compiled_dynamic,
    check_errors,
    check_forward,
    check_meta,
    check_out,
    seed_everything,
)
from .decomposition_checks import check_decomposed
from .eager_checks import check_native
from .entries import Entry, entries, entries_by_name, quiet
from .operand_checks import check_operands, check_out_views
from .record import EXCLUDED, FAIL, NOT_APPLICABLE, Failure, Recorder, Result
from .write_checks import check_compiled_writes, check_compiled_writes_backward

Check = Callable[[Case, Recorder], None]

CHECKS: dict[str, Check] = {
    "fwd": check_forward,
    "out": check_out,
    "meta": check_meta,
    "bwd": derivatives.check_backward,
    "fwad": lambda case, record: forward_mode_check(case.entry)(case, record),
    "gradgrad": derivatives.check_second_order,
    "vmap": transforms.check_vmap,
    "adjoint": properties.check_adjoint,
    "jacobian": properties.check_jacobian,
    "hessian": properties.check_hessian,
    "decomposed": check_decomposed,
    "compiled": check_compiled,
    "compiled_dynamic": check_compiled_dynamic,
    "compiled_bwd": derivatives.check_compiled_backward,
    "compiled_writes": check_compiled_writes,
    "compiled_writes_bwd": check_compiled_writes_backward,
    "native": check_native,
    "operands": check_operands,
    "out_views": check_out_views,
    "errors": check_errors,
}
DERIVATIVES = (
    "bwd",
    "gradgrad",
    "fwad",
    "adjoint",
    "jacobian",
    "hessian",
    "compiled_bwd",
    "compiled_writes_bwd",
)


def forward_mode_check(entry: Entry) -> Check:
    """Against torch's forward mode, or against our own reverse mode and finite differences if it has none."""
    return (
        derivatives.check_forward_mode
        if entry.info.supports_forward_ad
        else properties.check_own_forward_mode
    )


@dataclass(frozen=True)
class Task:
    """One entry with all that is asked of it, so that samples are made once per dtype."""

    name: str
    dtypes: tuple[str, ...]
    variants: tuple[str, ...]

    def wanted(self) -> Iterator[tuple[str, str]]:
        """(variant, dtype) of every result; error samples have their own dtypes, so they run once."""
        for dtype in self.dtypes:
            yield from ((variant, dtype) for variant in self.variants if variant != "errors")
        if "errors" in self.variants:
            yield ("errors", "any")

    def pieces(self) -> list[Task]:
        """One task per result."""
        return [Task(self.name, (dtype,), (variant,)) for variant, dtype in self.wanted()]


def run_entry(
    name: str, variant_name: str, dtype: str, variant: str, *, backend: Backend | None = None
) -> Result:
    """One entry, one dtype, one variant. `variant_name` is OpInfo's own ("" for most entries)."""
    full_name = f"{name}.{variant_name}" if variant_name else name
    return next(iter(run_task(Task(full_name, (dtype,), (variant,)), backend)))


@quiet
def run_task(task: Task, backend: Backend | None = None, most: int | None = None) -> list[Result]:
    """All results of a task; the samples of a dtype are made once and shared by its variants.

    With `most`, only so many samples of each dtype run. NumPy's kernels do for "auto": what is found does not
    depend on when native ones arrive.
    """
    with use("reference" if get() == "auto" else get()):
        return _results(task, backend, most)


def _results(task: Task, backend: Backend | None, most: int | None) -> list[Result]:
    entry = entries_by_name()[task.name]
    cases: dict[str, Case] = {}
    results = []
    for variant, dtype in task.wanted():
        result = Result(entry.full_name, entry.family, variant, dtype)
        reason = not_applicable(entry, variant, dtype)
        if entry.excluded is not None:
            result.status, result.reason = EXCLUDED, entry.excluded
        elif reason is not None:
            result.status, result.reason = NOT_APPLICABLE, reason
        else:
            if dtype not in cases:
                cases = {dtype: Case(entry, dtype, backend or rushlight_backend(), torch_backend(), most)}
            _run(cases[dtype], CHECKS[variant], result)
        results.append(result)
    return results


def _run(case: Case, check: Check, result: Result) -> None:
    started = time.perf_counter()
    record = Recorder()
    seed_everything()
    try:
        check(case, record)
    except Exception as error:
        record.fail(-1, "function", error)
    record.finish(result)
    result.seconds = time.perf_counter() - started


def not_applicable(entry: Entry, variant: str, dtype: str) -> str | None:
    """Why there is nothing to check in this variant of the entry, or None if there is."""
    info = entry.info
    if variant == "errors":
        return None if entry.has_error_samples else "torch has no error samples for it"
    if dtype not in entry.dtypes:
        return f"torch does not support {dtype} on the CPU"
    if variant in ("out", "out_views"):
        return None if info.supports_out else "it has no out= variant"
    if variant not in DERIVATIVES:
        return None
    if not info.supports_autograd or dtype not in entry.backward_dtypes:
        return f"torch does not differentiate it in {dtype}"
    if variant == "gradgrad" and not info.supports_gradgrad:
        return "torch has no second derivative of it"
    return None


def select(pattern: str | None = None, family: str | None = None) -> list[Entry]:
    """Entries whose name or "name.variant" contains a match of `pattern`, in one family if given."""
    wanted = re.compile(pattern) if pattern else None
    return [
        entry
        for entry in entries()
        if (wanted is None or wanted.search(entry.full_name) or wanted.search(entry.name))
        and (family is None or entry.family == family)
    ]


def tasks(chosen: Iterable[Entry], dtypes: Iterable[str], variants: Iterable[str]) -> list[Task]:
    dtypes, variants = tuple(dtypes), tuple(variants)
    return [Task(entry.full_name, dtypes, variants) for entry in chosen]


def broken(task: Task, message: str) -> list[Result]:
    """The results of a task whose process crashed or hung."""
    entry = entries_by_name()[task.name]
    made = []
    for variant, dtype in task.wanted():
        result = Result(entry.full_name, entry.family, variant, dtype)
        if entry.excluded is not None:
            result.status, result.reason = EXCLUDED, entry.excluded
        elif (reason := not_applicable(entry, variant, dtype)) is not None:
            result.status, result.reason = NOT_APPLICABLE, reason
        else:
            result.status, result.failures = FAIL, [Failure(-1, "function", message)]
        made.append(result)
    return made


@functools.cache
def rushlight_backend() -> Backend:
    return RushlightBackend()


@functools.cache
def torch_backend() -> TorchBackend:
    torch.set_num_threads(1)  # samples are tiny, and entries run in parallel
    return TorchBackend()
