"""The derivative inventory: every operator that PyTorch's derivative table names, and what holds for it here.

`report()` walks derivatives.csv and gives one `Row` per operator: whether it is registered, and whether its
reverse mode, forward mode, double backward and forward over reverse agree with finite differences on small
float64 samples. In-place rows (`eq_`) run the derived in-place form on a copy of the leaf.

Rows of the FOUNDATION families all hold. What does not hold yet of later families is a list, NOT_YET, one
name per row: `python -m rushlight.testing.inventory --update`, in the root of a checkout, brings it up to
date.
"""

from __future__ import annotations

import csv
import functools
import json
import re
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from rushlight.core.lazy import LazyModule
from rushlight.core.registry import REGISTRY, OpDef

from .witness import CONSTANT, OK, Witness, standing_in, texts_of

special = LazyModule("scipy.special")

TABLE = Path(__file__).with_name("derivatives.csv")

NOT_YET = Path("tests/derivatives/not_yet.json")

FOUNDATION = frozenset(
    (
        "creation",
        "pointwise",
        "reduction",
        "scan",
        "view",
        "shape",
        "indexing",
        "sorting",
        "matmul",
        "random",
        "special",
    )
)

# The family of operators that are not registered; the first match counts. What matches none is foundation's.
LATER: tuple[tuple[str, str], ...] = (
    ("backend", r"_?(cudnn|miopen|mkldnn|mps|nnpack|lstm_mps)_.*|to_mkldnn|_.*_mps|_pin_memory"),
    ("sparse", r".*sparse.*|_coalesce|(c?c?(row|col)_)?indices|ccol_indices|_indices|_?values|_to_dense"),
    ("nested", r".*nested.*|to_padded_tensor"),
    ("foreach", r"_foreach_.*"),
    ("quantization", r".*fake_quant.*|_fused_moving_avg_obs_fq_helper"),
    ("fft", r"_fft_.*"),
    ("linalg", r"_?linalg_.*|cholesky.*|geqrf|ormqr|lu_unpack|triangular_solve"),
    ("loss", r".*_loss(2d)?(_forward|_backward)?|binary_cross_entropy.*"),
    ("attention", r".*attention.*"),
    ("recurrent", r"_thnn_.*|_pack_padded_sequence"),
    ("conv", r".*conv.*|col2im|im2col|linear_backward"),
    ("pooling", r".*pool.*"),
    ("resample", r"_?upsample.*|_?grid_sampler.*|affine_grid_generator"),
    ("normalization", r".*(batch|layer|group|weight)_norm.*"),
    (
        "activation",
        r"(hard(sigmoid|swish|shrink|tanh)|silu|mish|c?elu|gelu|glu|leaky_relu|log_sigmoid|"
        r"_prelu_kernel|rrelu_with_noise|softplus|softshrink|threshold)_?(_forward|_backward)?",
    ),
)
_COMPILED = tuple((family, re.compile(pattern)) for family, pattern in LATER)

# In-place rows whose functional form has another name.
_FUNCTIONAL = {
    "bernoulli_.float": "bernoulli.p",
    "normal_": "normal_functional",
    "transpose_": "transpose.int",
}

FORMULA, SKIPPED, NOT_REGISTERED = "formula", "-", "not registered"
STAGES = ("reverse", "forward", "second", "mixed")

# Rows whose formula is not that of the function: PyTorch's tests see by it which formula was used, its
# gradient is that of log probabilities that stay normalized (the composition with log_softmax is tested), or
# it looks through rounding (tests/decompositions/test_quantization.py compares with PyTorch).
ON_PURPOSE = frozenset(
    (
        "_test_autograd_multiple_dispatch.fullcoverage",
        "_ctc_loss",
        "_ctc_loss.Tensor",
        "_cudnn_ctc_loss",
        "_cudnn_ctc_loss.Tensor",
        "fake_quantize_per_tensor_affine_cachemask",
        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
        "fake_quantize_per_channel_affine_cachemask",
        "_fake_quantize_learnable_per_tensor_affine",
        "_fake_quantize_learnable_per_channel_affine",
        "_fused_moving_avg_obs_fq_helper",
        "_fused_moving_avg_obs_fq_helper_functional",
    )
)


@dataclass
class Row:
    """What holds for one operator of the table.

    reverse, forward, second (reverse over reverse), mixed (forward over reverse): "ok" (agrees with finite
    differences), "constant" (no gradient flows and none is asked for), "formula" (a derivative on purpose
    that is not the function's), "-" (not looked at), or the reason of a failure.
    """

    op: str
    family: str
    samples: tuple[str, ...] = ()
    beyond: tuple[str, ...] = ()  # what the table lacks: arguments not implemented, "forward"
    reverse: str = SKIPPED
    forward: str = SKIPPED
    second: str = SKIPPED
    mixed: str = SKIPPED

    @property
    def holds(self) -> bool:
        return all(getattr(self, stage) in (OK, CONSTANT, FORMULA) for stage in STAGES)

    @property
    def failures(self) -> list[str]:
        found = {stage: getattr(self, stage) for stage in STAGES}
        return [
            f"{stage}: {text}"
            for stage, text in found.items()
            if text not in (OK, CONSTANT, FORMULA, SKIPPED)
        ]


def table() -> list[dict[str, str]]:
    """The rows of derivatives.csv: op, reverse_for, not_implemented_for, forward_mode."""
    with TABLE.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@functools.cache
def facts_of() -> frozenset[str]:
    """The names of all rows."""
    return frozenset(line["op"] for line in table())


def later_family(name: str) -> str | None:
    """The later family that an operator which is not registered belongs to."""
    base = name.partition(".")[0]
    return next((family for family, pattern in _COMPILED if pattern.fullmatch(base)), None)


def operator_of(name: str) -> tuple[OpDef, bool] | None:
    """The operator of a row and whether the row is its in-place form; None where it is not registered."""
    if name in REGISTRY:
        return REGISTRY[name], False
    base, _, overload = name.partition(".")
    functional = _FUNCTIONAL.get(name) or (base.removesuffix("_") + (f".{overload}" if overload else ""))
    return (REGISTRY[functional], True) if base.endswith("_") and functional in REGISTRY else None


def report(pattern: str = "") -> list[Row]:
    """One row for each operator of the table whose name matches `pattern`."""
    return [check_row(line) for line in table() if re.search(pattern, line["op"])]


def summary(rows: list[Row]) -> str:
    """Counts by family and stage, then every row that does not hold."""
    present = [row for row in rows if row.reverse != NOT_REGISTERED]
    titles = "".join(f"{title:>9}" for title in ("rows", "hold", *STAGES, "constant"))
    lines = [f"{'family':<14}{titles}"]
    for family in [*sorted({row.family for row in present}), ""]:
        chosen = [row for row in present if family in ("", row.family)]
        counts = [
            len(chosen),
            sum(row.holds for row in chosen),
            *[sum(getattr(row, stage) == OK for row in chosen) for stage in STAGES],
            sum(row.reverse == CONSTANT for row in chosen),
        ]
        lines.append(f"{family or 'all':<14}{''.join(f'{count:>9}' for count in counts)}")
    beyond = [row for row in present if row.beyond and row.holds]
    forward = sum("forward" in row.beyond for row in beyond)
    lines.append(
        f"beyond the table: forward mode of {forward} rows, arguments of "
        f"{sum(set(row.beyond) != {'forward'} for row in beyond)} rows"
    )
    later = [row.family for row in rows if row.reverse == NOT_REGISTERED]
    counted = ", ".join(f"{family} {later.count(family)}" for family in sorted(set(later)))
    lines.append(f"not registered: {len(later)} rows ({counted})")
    lines += [f"{row.op}: {'; '.join(row.failures)}" for row in present if not row.holds]
    return "\n".join(lines)


# The list of what does not hold yet.


def load_not_yet(path: Path = NOT_YET) -> dict[str, str]:
    """Row -> its family and why it does not hold."""
    known: dict[str, str] = json.loads(path.read_text(encoding="utf-8"))
    return known


def problems(rows: list[Row], not_yet: dict[str, str]) -> list[str]:
    """What is not as the list says, one line each."""
    update = "python -m rushlight.testing.inventory --update"
    found = []
    for row in rows:
        why = "; ".join(row.failures) or "not looked at"
        if row.op in not_yet:
            if row.family in FOUNDATION:
                found.append(f"{row.op} is listed, but rows of the family {row.family} must hold: {why}")
            elif row.holds:
                found.append(f"{row.op} holds but is listed ({not_yet[row.op]}): {update}")
            elif not row.failures:
                found.append(f"{row.op} was not looked at")
        elif not row.holds:
            found.append(f"{row.op} ({row.family}): {why}")
    unknown = not_yet.keys() - {row.op for row in rows}
    return found + [f"{name} is listed, but the table has no such row: {update}" for name in sorted(unknown)]


def update_not_yet(rows: list[Row], path: Path = NOT_YET) -> str:
    """Rewrite the list: the rows of later families that do not hold."""
    failing = {
        row.op: f"{row.family}: {row.failures[0].partition(': ')[2]}"
        for row in rows
        if not row.holds and row.family not in FOUNDATION
    }
    path.write_text(json.dumps(failing, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return f"{path}: {len(failing)} of {len(rows)} rows do not hold yet"


# One row.


def check_row(line: dict[str, str]) -> Row:
    """Look at one line of the table."""
    name = line["op"]
    found = operator_of(name)
    if found is None:
        return Row(name, later_family(name) or "pointwise", reverse=NOT_REGISTERED)
    op, inplace = found
    wanted = set(line["reverse_for"].split())
    texts = tuple(texts_of(name, op, wanted))
    row = Row(name, op.family, samples=texts)
    try:
        calls = [Witness(op, inplace, text) for text in texts]
    except Exception as error:
        row.reverse = _brief(error)
        return row
    with standing_in(op):
        row.reverse = _uncovered(op, inplace, wanted, calls) or _outcome(
            calls, lambda call: call.reverse(bool(wanted))
        )
        row.forward = _outcome(calls, Witness.forward)
        row.second = _outcome(calls, Witness.second)
        row.mixed = _outcome(calls, Witness.mixed)
    for stage in ("reverse", "forward") if name in ON_PURPOSE else ():
        if getattr(row, stage).startswith("GradcheckError"):
            setattr(row, stage, FORMULA)
    differentiated = set().union(*[call.differentiated for call in calls])
    beyond = [name for name in line["not_implemented_for"].split() if name in differentiated]
    if row.forward == OK and not line["forward_mode"]:
        beyond.append("forward")
    row.beyond = tuple(beyond) if row.reverse == OK else ()
    return row


def _uncovered(op: OpDef, inplace: bool, wanted: set[str], calls: list[Witness]) -> str:
    """Which arguments that want a gradient have no formula, or no sample; nothing when all have both.

    Writing a constant in place gives a gradient of zero without a formula (`eq_`).
    """
    if op.derivative is not None and not inplace:
        without = wanted - {op.schema.argument_names[target] for target in op.derivative.targets}
        if without:
            return f"no formula for {', '.join(sorted(without))}"
    unseen = wanted - set().union(*[call.differentiated for call in calls])
    return f"no sample differentiates {', '.join(sorted(unseen))}" if unseen else ""


def _outcome(calls: list[Witness], check: Callable[[Witness], str]) -> str:
    outcomes = []
    for call in calls:
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                outcomes.append(check(call))
        except Exception as error:
            return f"{_brief(error)} [{call.text}]"
    return OK if OK in outcomes else CONSTANT


def _brief(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


if __name__ == "__main__":
    found = report()
    print(summary(found))
    if "--update" in sys.argv[1:]:
        print(update_not_yet(found))
