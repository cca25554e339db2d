"""Every row of PyTorch's derivative table: what it must have, and that gradcheck confirms it.

`derivatives.csv` lists the operators that have an entry there, with the arguments that have a reverse
formula. A row whose operator Rushlight does not have yet is skipped, and says so.
"""

from __future__ import annotations

import csv
import itertools
from collections import defaultdict
from pathlib import Path

import pytest

import rushlight as rl
from rushlight.autograd import gradcheck, gradgradcheck
from rushlight.autograd.saved import OpNode
from rushlight.core.dispatch import run_name
from rushlight.core.errors import RegistrationError
from rushlight.core.registry import REGISTRY, Kind
from rushlight.derivatives.declare import NOT_DIFFERENTIABLE

ROWS = list(csv.DictReader((Path(__file__).parent / "derivatives.csv").read_text().splitlines()))
DOUBLE = ("float64", "complex128")
BACKENDS = ("cudnn", "miopen", "mkldnn", "mps", "nnpack", "_cuda", "_test_")


def row_named(name: str) -> dict[str, str]:
    return next(row for row in ROWS if row["op"] == name)


def is_derived(name: str) -> bool:
    """In-place forms and other backends' names are served by the generic operator."""
    base = name.partition(".")[0]
    return (base.endswith("_") and not base.endswith("__")) or any(part in name for part in BACKENDS)


@pytest.mark.parametrize("name", [row["op"] for row in ROWS if not is_derived(row["op"])])
def test_entry(name: str) -> None:
    if name not in REGISTRY:
        pytest.skip(f"{name} is not an operator yet")
    op, row = REGISTRY[name], row_named(name)
    if op.derivative is None:
        assert op.kind is Kind.COMPOSITE, f"{name} has neither a derivative nor a body"
        return
    entry = op.derivative
    names = op.schema.argument_names
    wanted = [argument for argument in row["reverse_for"].split() if argument in names]
    have = {names[i] for i in entry.targets}
    assert set(wanted) <= have, f"{name} has no reverse formula for {sorted(set(wanted) - have)}"
    assert entry.forward is not NOT_DIFFERENTIABLE


@pytest.mark.parametrize("op", [op for op in REGISTRY if op.kind is not Kind.COMPOSITE],
                         ids=lambda op: op.name)
def test_every_operator_says_what_its_derivative_is(op) -> None:
    """A formula or NOT_DIFFERENTIABLE for each tensor argument."""
    tensors = {*op.tensor_positions, *op.list_positions}
    if not tensors:
        return
    assert op.derivative is not None, f"{op.name} has no derivative"
    said = {*op.derivative.targets, *op.derivative.not_differentiable}
    silent = [op.schema.argument_names[i] for i in tensors - said]
    assert not silent, f"{op.name} says nothing about {silent}"


# Confirmed by gradcheck, on PyTorch's own samples.

def operators_of(tensors) -> set[str]:
    """The operators recorded in the graph of `tensors`."""
    names, seen = set(), set()
    stack = [t.grad_fn for t in tensors if t.grad_fn is not None]
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if isinstance(node, OpNode):
            names.add(node.entry.op.name)
        stack.extend(edge[0] for edge in node.next if edge is not None)
    return names


class Verdicts:
    """Which operators were confirmed by a sample, for each kind of derivative, and what failed."""

    def __init__(self) -> None:
        self.confirmed: dict[str, set[str]] = defaultdict(set)
        self.failed: dict[str, str] = {}

    def check(self, kind: str, names: set[str], label: str, action) -> None:
        try:
            action()
        except Exception as error:
            self.failed[f"{label} {kind}"] = f"{type(error).__name__}: {str(error)[:200]}"
        else:
            self.confirmed[kind] |= names


def check_sample(verdicts: Verdicts, label: str, function, inputs) -> None:
    """All kinds of derivatives of `function`; what backward itself calls is confirmed at second order."""
    outputs = [o for o in function(*inputs) if o.requires_grad]
    if not outputs or any(t.dtype.name not in DOUBLE for t in (*outputs, *inputs)):
        return
    names = operators_of(outputs)
    grads = rl.autograd.grad(outputs, inputs, [rl.ones_like(o).requires_grad_() for o in outputs],
                             create_graph=True,
                             allow_unused=True)
    inner = operators_of([g for g in grads if g is not None]) - names
    verdicts.check("reverse", names, label, lambda: gradcheck(function, inputs, fast_mode=True,
                                                              nondet_tol=1e-12))
    verdicts.check("forward", names, label, lambda: gradcheck(
        function, inputs, fast_mode=True, check_forward_ad=True, check_backward_ad=False))
    verdicts.check("second", names | inner, label, lambda: gradgradcheck(
        function, inputs, fast_mode=True, nondet_tol=1e-12, check_fwd_over_rev=True))
    if f"{label} second" not in verdicts.failed:
        verdicts.confirmed["reverse"] |= inner
        verdicts.confirmed["forward"] |= inner


def samples(dtype: str):
    """(label, function of the differentiable tensors, those tensors) for PyTorch's samples."""
    from rushlight.testing.case import Case
    from rushlight.testing.conformance import not_applicable, rushlight_backend, select, torch_backend
    from rushlight.testing.derivative_checks import _replace
    side = rushlight_backend()
    for entry in select():
        if entry.excluded is not None or not_applicable(entry, "bwd", dtype) is not None:
            continue
        if entry.name.startswith("masked."):
            continue  # rows that are masked out entirely are NaN, which finite differences cannot compare
        case = Case(entry, dtype, side, torch_backend())
        try:
            function = case.function
        except AttributeError:
            continue  # an operator of a family that is not here yet
        for sample in case.differentiable_samples[:6]:
            arguments = side.build(sample.arguments, requires_grad=True)
            inputs = tuple(t for t in side.flat_tensors(arguments) if t.requires_grad)
            if not inputs or case.sanity(sample) is not None or sum(t.numel() for t in inputs) > 1000:
                continue
            process = side.translate(sample.process_output)

            def by_inputs(*values, function=function, arguments=arguments, inputs=inputs, process=process):
                first, args, kwargs = _replace(side, arguments, inputs, values)
                outputs = side.flat_tensors(process(function(first, *args, **kwargs)))
                return tuple(o for o in outputs if o.dtype.is_floating_point or o.dtype.is_complex)

            yield f"{entry.full_name}[{dtype} {sample.index}]", by_inputs, inputs


def own_samples():
    """Calls that PyTorch's samples do not make."""
    def numbers(*shape, low=0.3, high=2.7):
        count = 1
        for size in shape:
            count *= size
        return rl.linspace(low, high, count, dtype=rl.float64).reshape(shape).requires_grad_()

    def operator(name, *args):
        return f"{name}", lambda *tensors: as_tuple(run_name(name, *place(args, tensors))), tuple(
            a for a in args if isinstance(a, rl.Tensor) and a.requires_grad)

    def place(args, tensors):
        left = iter(tensors)
        return [next(left) if isinstance(a, rl.Tensor) and a.requires_grad else a for a in args]

    def as_tuple(result):
        results = result if isinstance(result, tuple) else (result,)
        return tuple(r for r in results if r.dtype.is_floating_point or r.dtype.is_complex)

    x = numbers(3)
    image = numbers(1, 2, 4, 5)
    volume = numbers(1, 1, 3, 4, 3)
    yield operator("_euclidean_dist", numbers(3, 2), numbers(4, 2, low=-1.0, high=5.0))
    yield operator("_neg_view", x)
    yield operator("_reshape_alias", numbers(2, 3), (3, 2), (2, 1))
    yield operator("clamp_max", x, 1.0)
    yield operator("clamp_min", x, 1.0)
    yield operator("copysign.Scalar", x, -1.0)
    yield operator("div.Scalar_mode", x, 2.0, None)
    yield operator("fill.Tensor", x, rl.tensor(2.0, dtype=rl.float64, requires_grad=True))
    yield operator("fmod.Scalar", x, 0.7)
    yield operator("remainder.Scalar", x, 0.7)
    yield operator("igamma", numbers(3), numbers(3, low=0.5, high=3.0))
    yield operator("igammac", numbers(3), numbers(3, low=0.5, high=3.0))
    yield operator("pow.Scalar", 2.5, x)
    yield operator("reflection_pad2d", image, (1, 2, 1, 0))
    yield operator("reflection_pad3d", volume, (1, 1, 1, 0, 2, 0))
    yield operator("replication_pad3d", volume, (1, 1, 1, 0, 2, 0))
    yield operator("slice_scatter", numbers(4), numbers(2), 0, 1, 3, 1)
    yield operator("special_xlog1py.other_scalar", x, 2.0)
    yield operator("special_xlog1py.self_scalar", 2.0, x)
    yield operator("special_zeta", numbers(3, low=2.0, high=4.0), x)
    yield operator("special_zeta.self_scalar", 3.0, x)
    yield operator("unsafe_split_with_sizes", numbers(5), (2, 3), 0)
    yield operator("xlogy.Scalar_Other", x, 2.0)
    yield operator("xlogy.Scalar_Self", 2.0, x)
    yield operator("_embedding_bag", numbers(4, 2), rl.tensor([0, 1, 3, 1]), rl.tensor([0, 2]), False, 0,
                   False, None,
                   False, -1)


@pytest.mark.slow
def test_gradcheck_confirms_every_row() -> None:
    verdicts = Verdicts()
    for label, function, inputs in itertools.chain(own_samples(), samples("float64"), samples("complex128")):
        try:
            check_sample(verdicts, label, function, inputs)
        except (AttributeError, RegistrationError):
            continue  # calls an operator of a family that is not here yet
        except Exception as error:
            verdicts.failed[label] = f"{type(error).__name__}: {str(error)[:200]}"
    here = {row["op"] for row in ROWS if row["op"] in REGISTRY and row["reverse_for"]
            and not is_derived(row["op"])
            and REGISTRY[row["op"]].derivative is not None and not REGISTRY[row["op"]].random}
    missing = {kind: sorted(here - verdicts.confirmed[kind]) for kind in ("reverse", "forward", "second")}
    print(f"{len(here)} rows; not confirmed: {({kind: len(names) for kind, names in missing.items()})}")
    for kind, names in missing.items():
        print(kind, names)
    for label, message in sorted(verdicts.failed.items()):
        print("FAILED", label, message)
    assert not verdicts.failed
    assert not any(missing.values())


def test_nothing_is_quietly_integer() -> None:
    """Integer results never require grad, whatever their inputs do."""
    x = rl.tensor([3.0, 1.0, 2.0], requires_grad=True)
    assert not x.argsort().requires_grad
    assert not x.long().requires_grad
    assert not (x > 1).requires_grad
    values, indices = x.sort()
    assert values.requires_grad
    assert not indices.requires_grad
