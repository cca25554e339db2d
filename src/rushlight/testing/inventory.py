"""The derivative inventory: every operator that PyTorch's derivative table names, and what holds for it here.

`report()` walks derivatives.csv and gives one `Row` per operator: whether it is registered, and whether its
reverse mode, forward mode, double backward and forward over reverse agree with finite differences on small
float64 samples. In-place rows (`eq_`) run the derived in-place form on a copy of the leaf.

Rows of the FOUNDATION families all hold. What does not hold yet of later families is a list, NOT_YET, one
name per row: `python -m rushlight.testing.inventory --update`, in the root of a checkout, brings it up to
date.
"""

from __future__ import annotations

import contextlib
import csv
import functools
import json
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import rushlight
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.core import dispatch
from rushlight.core.lazy import LazyModule
from rushlight.core.mutation import call_inplace
from rushlight.core.nested import NestedTensor
from rushlight.core.registry import REGISTRY, OpDef
from rushlight.core.resolve import bind
from rushlight.core.schema import REQUIRED, Argument

from .inventory_samples import COMPLEX, DOMAINS, SAMPLES

special = LazyModule("scipy.special")

TABLE = Path(__file__).with_name("derivatives.csv")

NOT_YET = Path("tests/derivatives/not_yet.json")

FOUNDATION = frozenset(("creation", "pointwise", "reduction", "scan", "view", "shape", "indexing", "sorting",
                        "matmul", "random", "special"))

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
    ("activation", r"(hard(sigmoid|swish|shrink|tanh)|silu|mish|c?elu|gelu|glu|leaky_relu|log_sigmoid|"
                   r"_prelu_kernel|rrelu_with_noise|softplus|softshrink|threshold)_?(_forward|_backward)?"),
)
_COMPILED = tuple((family, re.compile(pattern)) for family, pattern in LATER)

# In-place rows whose functional form has another name.
_FUNCTIONAL = {"bernoulli_.float": "bernoulli.p", "normal_": "normal_functional",
               "transpose_": "transpose.int"}

OK, CONSTANT, FORMULA, SKIPPED, NOT_REGISTERED = "ok", "constant", "formula", "-", "not registered"
_LARGE = 20  # more elements than this, and one direction stands for the whole Jacobian
STAGES = ("reverse", "forward", "second", "mixed")


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
        return [f"{stage}: {text}" for stage, text in found.items()
                if text not in (OK, CONSTANT, FORMULA, SKIPPED)]


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
        counts = [len(chosen), sum(row.holds for row in chosen),
                  *[sum(getattr(row, stage) == OK for row in chosen) for stage in STAGES],
                  sum(row.reverse == CONSTANT for row in chosen)]
        lines.append(f"{family or 'all':<14}{''.join(f'{count:>9}' for count in counts)}")
    beyond = [row for row in present if row.beyond and row.holds]
    forward = sum("forward" in row.beyond for row in beyond)
    lines.append(f"beyond the table: forward mode of {forward} rows, arguments of "
                 f"{sum(set(row.beyond) != {'forward'} for row in beyond)} rows")
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
    failing = {row.op: f"{row.family}: {row.failures[0].partition(': ')[2]}" for row in rows
               if not row.holds and row.family not in FOUNDATION}
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
        row.reverse = (_uncovered(op, inplace, wanted, calls)
                       or _outcome(calls, lambda call: call.reverse(bool(wanted))))
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


class Witness:
    """A sample of an operator, as a function of its leaves."""

    def __init__(self, op: OpDef, inplace: bool, text: str, seed: int = 7) -> None:
        self.op, self.inplace, self.text = op, inplace, text
        values = bind(op, *evaluate(text, seed))
        if isinstance(values, str):
            raise TypeError(f"{op.name}({text}): {values}")
        self.values = values
        names = op.schema.argument_names
        self.leaves = [leaf for value in values for leaf in _leaves(value)]
        self.differentiated = {n for n, value in zip(names, values, strict=True) if list(_leaves(value))}

    @property
    def tensors(self) -> list[Any]:
        """All tensor arguments."""
        return [tensor for value in self.values for tensor in _tensors(value)]

    def __call__(self, *leaves: Any) -> Any:
        fresh = {id(old): new for old, new in zip(self.leaves, leaves, strict=True)}
        return self._run([_replaced(value, fresh) for value in self.values])

    def with_tensors(self, fresh: dict[int, Any]) -> Any:
        """The call with other tensors in place of the tensor arguments, given by the id of these."""
        def replaced(tree: Any) -> Any:
            if isinstance(tree, tuple | list):
                return type(tree)(replaced(item) for item in tree)
            return fresh[id(tree)] if isinstance(tree, rushlight.Tensor) else tree

        return self._run([replaced(value) for value in self.values])

    def _run(self, values: list[Any]) -> Any:
        if self.op.random or self.op.family == "random":
            rushlight.manual_seed(0)
        if not self.inplace:
            for i in self.op.schema.mutable_arguments:  # running statistics stay as they are
                values[i] = None if values[i] is None else values[i].clone()
            result = dispatch.call(self.op, tuple(values))
            if isinstance(result, NestedTensor):
                return result.values()  # that is what autograd and finite differences look at
            free = self.op.name in PHASES and any(leaf.is_complex() for leaf in self.leaves)
            return PHASES[self.op.name](*result) if free else result
        lists = self.op.list_positions
        first = 0 if lists[:1] == (0,) else self.op.tensor_positions[0]
        values[first] = [t.clone() for t in values[first]] if first in lists else values[first].clone()
        return call_inplace(self.op, tuple(values))

    def constant(self) -> bool:
        result = self(*self.leaves)
        return not any(o.requires_grad for o in _tensors(result))

    def reverse(self, wanted: bool) -> str:
        if self.constant():
            if wanted:
                raise AssertionError("no output requires a gradient")
            return CONSTANT
        large = sum(leaf.numel() for leaf in self.leaves) > _LARGE
        gradcheck(self, tuple(self.leaves), fast_mode=large, masked=True)
        return OK

    def forward(self) -> str:
        return self._unless_constant(gradcheck, check_forward_ad=True, check_backward_ad=False)

    def second(self) -> str:
        return self._unless_constant(gradgradcheck)

    def mixed(self) -> str:
        return self._unless_constant(gradgradcheck, check_fwd_over_rev=True, check_rev_over_rev=False)

    def _unless_constant(self, check: Callable[..., Any], **options: bool) -> str:
        if self.constant():
            return CONSTANT
        check(self, tuple(self.leaves), fast_mode=True, masked=True, **options)
        return OK


def _tensors(tree: Any) -> Iterator[Any]:
    if isinstance(tree, rushlight.Tensor):
        yield tree
    elif isinstance(tree, tuple | list):
        for item in tree:
            yield from _tensors(item)


def _leaves(tree: Any) -> Iterator[Any]:
    """The tensors that are differentiated; of one that was made of a leaf (`of`), that leaf."""
    for tensor in _tensors(tree):
        if tensor.requires_grad:
            yield tensor._follows[0] if hasattr(tensor, "_follows") else tensor


def _replaced(tree: Any, fresh: dict[int, Any]) -> Any:
    if isinstance(tree, rushlight.Tensor):
        source, function = getattr(tree, "_follows", (None, None))
        if source is not None and function is not None:
            return function(fresh.get(id(source), source))
        return fresh.get(id(tree), tree)
    if isinstance(tree, tuple | list):
        return type(tree)(_replaced(item, fresh) for item in tree)
    return tree


# What is defined of complex eigenvectors and singular vectors: their phase is the library's choice, not a
# function of the matrix, and drops out of the products of each vector with its own conjugate or partner.
PHASES: dict[str, Callable[..., Any]] = {
    "_linalg_eigh": lambda values, v: (values, v.mT.unsqueeze(-1) * v.mH.unsqueeze(-2)),
    "linalg_eig": lambda values, v: (values, v.mT.unsqueeze(-1) * v.mH.unsqueeze(-2)),
    "_linalg_svd": lambda u, s, vh: (s, u.mT.unsqueeze(-1) * vh.unsqueeze(-2)),
}


# Draws.

def _fixed_draw(parameter: Any, out: Any) -> np.ndarray:
    return np.random.default_rng(5).standard_normal(out.shape)


def _gamma_of_fixed_rank(parameter: Any, out: Any) -> np.ndarray:
    ranks = np.linspace(0.15, 0.85, parameter.size).reshape(parameter.shape)
    found: np.ndarray = special.gammaincinv(parameter, ranks)
    return found


# What a draw stands for as a function of its first argument: by this its derivative is defined, not by how a
# generator's numbers become a draw. A normal draw is a constant, as PyTorch says; a gamma draw keeps its rank
# in the distribution.
DRAWS: dict[str, Callable[[Any, Any], np.ndarray]] = {
    "normal.Tensor_float": _fixed_draw, "normal.float_Tensor": _fixed_draw,
    "normal.Tensor_Tensor": _fixed_draw, "_standard_gamma": _gamma_of_fixed_rank,
}

# Rows whose formula is not that of the function: PyTorch's tests see by it which formula was used, its
# gradient is that of log probabilities that stay normalized (the composition with log_softmax is tested), or
# it looks through rounding (tests/decompositions/test_quantization.py compares with PyTorch).
ON_PURPOSE = frozenset(("_test_autograd_multiple_dispatch.fullcoverage", "_ctc_loss", "_ctc_loss.Tensor",
                        "_cudnn_ctc_loss", "_cudnn_ctc_loss.Tensor",
                        "fake_quantize_per_tensor_affine_cachemask",
                        "_fake_quantize_per_tensor_affine_cachemask_tensor_qparams",
                        "fake_quantize_per_channel_affine_cachemask",
                        "_fake_quantize_learnable_per_tensor_affine",
                        "_fake_quantize_learnable_per_channel_affine", "_fused_moving_avg_obs_fq_helper",
                        "_fused_moving_avg_obs_fq_helper_functional"))


@contextlib.contextmanager
def standing_in(op: OpDef) -> Iterator[None]:
    """The function that a draw stands for, in place of its kernel."""
    if op.name not in DRAWS:
        yield
        return
    draw, saved = DRAWS[op.name], (op.kernel, op.kernel_reads)
    op.kernel, op.kernel_reads = lambda values: draw(values[0], values[-1]), frozenset((0,))
    try:
        yield
    finally:
        op.kernel, op.kernel_reads = saved


# Samples.

_RANGES = {"x": (-0.9, 0.9), "p": (0.3, 1.9), "u": (0.1, 0.9), "a": (1.2, 2.8), "k": (-0.9, 0.9)}


def _follower(source: Any, function: Callable[[Any], Any]) -> Any:
    """A value that is computed anew from `source` in every call; gradients lead back to `source`."""
    value = function(source)
    value._follows = source, function
    return value


def sparse_tensor(kind: str, values: np.ndarray) -> Any:
    """A sparse matrix that lacks every third of `values`."""
    values = np.where(np.arange(values.size).reshape(values.shape) % 3 != 1, values, 0.0)
    if kind == "hybrid":
        return rushlight.from_numpy(np.stack([values, 2 * values + 0.1], axis=-1)).to_sparse(2)
    dense = rushlight.from_numpy(values)
    if kind == "uncoalesced":
        found = dense.to_sparse()
        return rushlight.sparse_coo_tensor(rushlight.cat([found.indices(), found.indices().flip(1)], 1),
                                           rushlight.cat([found.values(), 0.3 - found.values()]), found.shape)
    return dense.to_sparse(layout=getattr(rushlight, f"sparse_{kind}"),
                           blocksize=(1, 2) if kind in ("bsr", "bsc") else None)


def evaluate(text: str, seed: int = 7) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments that a sample's text stands for; the same ones each time, others for another seed."""
    random = np.random.default_rng(seed)

    def spread(low: float, high: float, shape: tuple[int, ...]) -> np.ndarray:
        """Values in random order that keep a distance from each other: no ties, no kink within a step."""
        count = int(np.prod(shape))
        places = (random.permutation(count) + random.uniform(0.2, 0.8, count)) / count
        return (low + (high - low) * places).reshape(shape)

    def real(letter: str) -> Callable[..., Any]:
        low, high = _RANGES[letter]
        return lambda *shape: rushlight.from_numpy(spread(low, high, shape)).requires_grad_(letter != "k")

    def complex_(*shape: int) -> Any:
        values = spread(-0.9, 0.9, shape) + 1j * spread(0.2, 0.8, shape)
        return rushlight.from_numpy(values).requires_grad_()

    def matrix(of: Callable[[Any], Any], default: str) -> Callable[..., Any]:
        """Square matrices of a kind, each a function of a leaf of the same size."""
        return lambda size, leaf=None: _follower((leaf or scope[default])(size, size), of)

    scope: dict[str, Any] = {letter: real(letter) for letter in _RANGES}
    scope |= {
        "c": complex_,
        "spd": matrix(lambda v: v @ v.mH + rushlight.eye(v.shape[0], dtype=v.dtype), "x"),
        "hermitian": matrix(lambda v: v + v.mH, "x"),
        "lower": matrix(lambda v: v.tril() + rushlight.eye(v.shape[0], dtype=v.dtype), "x"),
        "n": lambda *shape: rushlight.from_numpy((np.arange(int(np.prod(shape))) % 4 + 1.0).reshape(shape)),
        "m": lambda *shape: rushlight.from_numpy((np.arange(int(np.prod(shape))) % 3 != 1).reshape(shape)),
        "z": lambda *shape: rushlight.from_numpy((np.arange(int(np.prod(shape))) % 4 + 1).reshape(shape)),
        "i": lambda values: rushlight.from_numpy(np.array(values, np.int64)),
        "i8": lambda *shape: rushlight.from_numpy(np.asarray(random.integers(-5, 5, shape), np.int8)),
        "i32": lambda values: rushlight.from_numpy(np.array(values, np.int32)),
        "s": lambda kind, *shape: sparse_tensor(kind, spread(-0.9, 0.9, shape)).requires_grad_(),
        "sk": lambda kind, *shape: sparse_tensor(kind, spread(-0.9, 0.9, shape)),
        "layout": lambda name: getattr(rushlight, name),
        "of": _follower,
        "nested": lambda leaf, *ends: _follower(leaf, lambda values: (
            rushlight.nested.nested_tensor_from_jagged(values, rushlight.tensor([0, *ends])))),
        "by": lambda source, function: _follower(source, lambda value: function(value).detach()),
        "float64": rushlight.float64, "int64": rushlight.int64, "int8": rushlight.int8, "float": float,
        "arguments": lambda *args, **kwargs: (args, kwargs),
    }
    return eval(f"arguments({text})", {"__builtins__": {}}, scope)  # the texts are this package's own


def texts_of(name: str, op: OpDef, wanted: set[str]) -> Iterator[str]:
    texts = SAMPLES.get(name) or [_generated(name, op, wanted)]
    yield from texts
    if name in COMPLEX:
        yield re.sub(r"\b[xpua]\(", "c(", texts[0])


def _generated(name: str, op: OpDef, wanted: set[str]) -> str:
    """Arguments by their type: those that have no default, and those that want a gradient."""
    letters = DOMAINS.get(name, "x")
    tensors = 0
    parts: list[str] = []
    entry = op.derivative
    for position, argument in enumerate(op.schema.arguments):
        if argument.default is not REQUIRED and argument.name not in wanted:
            continue
        if argument.type.base == "Tensor":
            letter = letters[min(tensors, len(letters) - 1)]
            tensors += 1
            if entry is not None and entry.targets and position not in entry.targets and letter != "n":
                letter = "k"
            text = f"{letter}(2, 3)"
            text = f"[{text}, {text}]" if argument.type.is_list else text
        else:
            text = _plain(argument)
        keyword = argument.keyword_only or len(parts) != position
        parts.append(f"{argument.name}={text}" if keyword else text)
    return ", ".join(parts)


def _plain(argument: Argument) -> str:
    kind = argument.type
    if kind.base == "int":
        return "(1,)" if kind.is_list else "1"
    return {"Scalar": "1.3", "float": "0.5", "bool": "False"}.get(kind.base, "None")


if __name__ == "__main__":
    found = report()
    print(summary(found))
    if "--update" in sys.argv[1:]:
        print(update_not_yet(found))
