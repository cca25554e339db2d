"""What each stage makes of an operator, found out by calling it.

`measure(key)` takes an operator's name ("add.Tensor", or "add.Tensor in place") and gives for every stage
OK, a word that says in which way it holds, or the reason of a failure. Arguments are the operator's witness
(inventory_samples, coverage_witness): small tensors on which it is defined.

eager          the call runs
shape          on the meta device it gives the same shapes, dtypes and strides
out            the out= form writes what the functional form returns
reverse, forward, second    against finite differences, in float64, as in the derivative inventory
batching       vmap over all differentiable arguments equals the calls one by one
decomposition  BODY (a scalar body), or what the decomposition computes equals the kernel's result
compiled       NATIVE (loop nests only), TEMPLATE (native code with a template: a product, sort, scan), VIEW
               (no code), or EXTERN and the operators whose eager kernels are called, in the graph or after
               it; the result equals the eager one. BREAK: it has no place in a graph, and a program that
               uses it runs eagerly.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import rushlight
from rushlight.autograd.gradcheck import GradcheckError
from rushlight.capture.errors import CaptureError
from rushlight.comm.group import ProcessGroup, register, registered
from rushlight.compiler.function import CompiledFunction
from rushlight.core.out_calls import call_out
from rushlight.core.registry import REGISTRY, Api, Kind, OpDef
from rushlight.decompositions.table import run_decomposition
from rushlight.loops.kernels import Extern
from rushlight.loops.plans import LoopPlan

from .coverage_witness import WITNESSES
from .inventory import FORMULA, ON_PURPOSE, facts_of
from .witness import OK, Witness, standing_in, texts_of

STAGES = ("eager", "shape", "out", "reverse", "forward", "second", "batching", "decomposition", "compiled")
BODY, NATIVE, TEMPLATE, VIEW, EXTERN, BREAK, NONE = (
    "body",
    "native",
    "template",
    "view",
    "extern",
    "break",
    "-",
)
IN_PLACE = " in place"

# Results that are no function of the arguments.
BLANK = frozenset(
    ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted")
)


def measure(key: str) -> dict[str, str]:
    """What holds at each stage; "-" where a stage does not concern the operator."""
    name, inplace = key.removesuffix(IN_PLACE), key.endswith(IN_PLACE)
    op = REGISTRY[name]
    if op.family == "collective" and not registered():
        register(ProcessGroup("0", [0], 0))
    text = witness_text(op, inplace)
    found = dict.fromkeys(STAGES, NONE)
    found["eager"] = _outcome(_eager, op, inplace, text)
    if found["eager"] != OK:
        return found
    stages: dict[str, Callable[[OpDef, bool, str], str]] = {
        "shape": _shape,
        "batching": _batching,
        "compiled": _compiled,
    }
    if not inplace:
        stages |= {
            "decomposition": _decomposition,
            "reverse": _reverse,
            "forward": _forward,
            "second": _second,
        }
        stages |= {"out": _out} if _has_out(op) else {}
    for stage, check in stages.items():
        found[stage] = _outcome(check, op, inplace, text)
    return found


def measure_decomposition(op: OpDef) -> str:
    """What holds of its decomposition alone."""
    return _outcome(_decomposition, op, False, witness_text(op, False))


def witness_text(op: OpDef, inplace: bool) -> str:
    name = (
        f"{op.schema.name}_" + (f".{op.schema.overload}" if op.schema.overload else "")
        if inplace
        else op.name
    )
    known = WITNESSES.get(name) or WITNESSES.get(op.name)
    if known:
        return known
    text = next(iter(texts_of(name if name in facts_of() else op.name, op, set())))
    if op.dtypes is not None and not any(dtype.is_floating_point for dtype in op.dtypes):
        return re.sub(r"\b[xk]\(", "z(", text).replace("1.3", "2")
    return text


def _outcome(check: Callable[[OpDef, bool, str], str], op: OpDef, inplace: bool, text: str) -> str:
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return check(op, inplace, text)
    except Exception as error:
        return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


# Running.


def _eager(op: OpDef, inplace: bool, text: str) -> str:
    call = Witness(op, inplace, text)
    call(*call.leaves)
    return OK


def _shape(op: OpDef, inplace: bool, text: str) -> str:
    if op.data_dependent:
        return "data"
    call = Witness(op, inplace, text)
    real = [_looks(t) for t in tensors_in(call(*call.leaves))]
    moved = {id(t): t.detach().to("meta") for t in call.tensors}
    abstract = [_looks(t) for t in tensors_in(call.with_tensors(moved))]
    if real != abstract:
        raise AssertionError(f"with data {real}, without {abstract}")
    return OK


def _looks(tensor: Any) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.dtype.name, tuple(tensor.stride())


def _has_out(op: OpDef) -> bool:
    return bool(op.api & Api.OUT) and op.kind not in (Kind.SPARSE, Kind.QUANTIZED)


def _out(op: OpDef, inplace: bool, text: str) -> str:
    call = Witness(op, False, text)
    with rushlight.no_grad():
        expected = call(*call.leaves)
        several = isinstance(expected, tuple | list)
        targets = tuple(rushlight.empty_like(t) for t in (expected if several else (expected,)))
        if op.random or op.family == "random":
            rushlight.manual_seed(0)
        call_out(op, tuple(call.values), targets if several else targets[0])
    _agree(targets, tensors_in(expected), op)
    return OK


# Derivatives, batching.


def _reverse(op: OpDef, inplace: bool, text: str) -> str:
    return _formula(op, lambda: _calls(op, text).reverse(False))


def _forward(op: OpDef, inplace: bool, text: str) -> str:
    return _formula(op, _calls(op, text).forward)


def _second(op: OpDef, inplace: bool, text: str) -> str:
    with standing_in(op):
        return _calls(op, text).second()


def _calls(op: OpDef, text: str) -> Witness:
    return Witness(op, False, text)


def _formula(op: OpDef, check: Callable[[], str]) -> str:
    try:
        with standing_in(op):
            return check()
    except GradcheckError:
        if op.name in ON_PURPOSE:
            return FORMULA
        raise


def _batching(op: OpDef, inplace: bool, text: str) -> str:
    calls = [Witness(op, inplace, text, seed) for seed in (7, 8)]
    if not calls[0].leaves or op.random or op.data_dependent or op.schema.mutable_arguments:
        return NONE
    points = [[t.detach() for t in call.leaves] for call in calls]

    def function(*leaves: Any) -> tuple[Any, ...]:
        return tuple(tensors_in(calls[0](*leaves)))

    with rushlight.no_grad():
        expected = [function(*point) for point in points]
        found = rushlight.func.vmap(function)(*[rushlight.stack(pair) for pair in zip(*points, strict=True)])
    for i, batch in enumerate(found):
        _agree([batch[0], batch[1]], [expected[0][i], expected[1][i]], op, tolerance=1e-8)
    return OK


def _decomposition(op: OpDef, inplace: bool, text: str) -> str:
    if op.kind is Kind.COMPOSITE:
        return OK
    if op.kind is not Kind.STRUCTURAL:
        return BODY if op.kind is Kind.POINTWISE else VIEW if op.kind is Kind.VIEW else NONE
    if op.decomposition is None:
        return NONE
    call = Witness(op, False, text)
    with rushlight.no_grad():
        expected = call(*call.leaves)
        rushlight.manual_seed(0)
        _agree(list(tensors_in(run_decomposition(op, tuple(call.values)))), list(tensors_in(expected)), op)
    return OK


# Compiling.

_NARROW = {"float64": "float32", "complex128": "complex64"}
WIDE = frozenset(("float_power",))  # its result is float64 whatever the argument is


def _compiled(op: OpDef, inplace: bool, text: str) -> str:
    call = Witness(op, inplace, text)
    wide = (inplace and op.schema.name in WIDE) or (op.schema.overload == "dtype" and op.family == "matmul")
    given = [t.detach() if wide else _narrow(t) for t in call.tensors]

    def function(*tensors: Any) -> Any:
        return call.with_tensors(dict(zip([id(t) for t in call.tensors], tensors, strict=True)))

    with rushlight.no_grad():
        rushlight.manual_seed(0)
        expected = list(tensors_in(function(*given)))
        rushlight.manual_seed(0)
        compiled = CompiledFunction(function, fullgraph=True)
        try:
            found = list(tensors_in(compiled(*given)))
        except CaptureError as error:
            return f"{BREAK}: {error.what}"
    _agree(found, expected, op, tolerance=1e-4)
    (made,) = next(iter(compiled.specializations.values()))
    pieces = made.artifact.pieces or (made.artifact,)  # more than one where sizes are data
    steps = [step for piece in pieces for step in piece.schedule.steps]
    routines = [step for step in steps if not isinstance(step, LoopPlan)]
    called = sorted(
        {step.node.op.name for step in routines if isinstance(step, Extern)}
        | {late.name for late in made.call.deferred}
    )
    if called or not (made.artifact.pieces or made.artifact.executable.native):
        return f"{EXTERN}: {', '.join(called)}"
    if not steps:
        return VIEW
    return TEMPLATE if routines else NATIVE


def _narrow(tensor: Any) -> Any:
    wanted = _NARROW.get(tensor.dtype.name)
    tensor = tensor.detach()
    return tensor if wanted is None else tensor.to(getattr(rushlight, wanted))


# Results.


def tensors_in(tree: Any) -> Iterator[Any]:
    if isinstance(tree, rushlight.Tensor):
        yield tree
    elif isinstance(tree, tuple | list):
        for item in tree:
            yield from tensors_in(item)


def _agree(found: Any, expected: Any, op: OpDef, tolerance: float = 1e-9) -> None:
    found, expected = list(found), list(expected)
    if len(found) != len(expected):
        raise AssertionError(f"{len(found)} tensors where {len(expected)} were expected")
    for mine, other in zip(found, expected, strict=True):
        if tuple(mine.shape) != tuple(other.shape) or mine.dtype is not other.dtype:
            raise AssertionError(f"{_looks(mine)} where {_looks(other)} was expected")
        if op.schema.name in BLANK:
            continue
        if mine.layout is not other.layout:
            raise AssertionError(f"layout {mine.layout} where {other.layout} was expected")
        if mine.layout is not rushlight.strided:
            mine, other = mine.to_dense(), other.to_dense()
        values, wanted = (t.detach().resolve_conj().resolve_neg().numpy() for t in (mine, other))
        if mine.dtype.is_floating_point or mine.dtype.is_complex:
            np.testing.assert_allclose(values, wanted, rtol=tolerance, atol=tolerance)
        else:
            np.testing.assert_array_equal(values, wanted)
