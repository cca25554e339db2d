"""Function transforms over operators, for every entry of PyTorch's OpInfo database that Rushlight runs.

- vmap is the stack of calls;
- forward mode is the transpose of reverse mode (the vector products of jvp and vjp agree);
- jacfwd equals jacrev;
- the Hessian is symmetric.

Every run takes the first sample of each entry, the slow one all of them, complex ones too. What vmap may
still do one by one, with a warning, is a strict list.
"""

from __future__ import annotations

import pytest

import rushlight as rl
import rushlight.batching.rules  # attaches the rules
from rushlight.core.registry import REGISTRY, Kind
from rushlight.testing.conformance import Task, run_task
from rushlight.testing.entries import Entry, entries
from rushlight.testing.record import FAIL, PASS, Result

HISTOGRAMS = (
    "each element of the batch has a range of its own, read from its data and refused if it is not "
    "finite, and edges in extended precision: one run of the kernel for each"
)

# Operators without a batching rule: vmap runs them once for each element, and warns.
LOOPS = {
    "histc": HISTOGRAMS,
    "histogram.bin_ct": HISTOGRAMS,
    "histogram.bins_tensor": HISTOGRAMS,
    "_histogramdd_bin_edges": HISTOGRAMS,
    "_histogramdd_from_bin_cts": HISTOGRAMS,
    "_histogramdd_from_bin_tensors": HISTOGRAMS,
}
# Entries whose operators loop.
LOOPING_ENTRIES = {"histc", "histogram", "histogramdd"}


def needs_rule(op) -> bool:
    """Composites go through their body, pointwise operators broadcast, random ones may loop."""
    return (
        op.kind in (Kind.VIEW, Kind.STRUCTURAL)
        and bool(op.tensor_positions or op.list_positions)
        and not op.data_dependent
        and not op.random
    )


def test_every_operator_has_a_batching_rule() -> None:
    without = {op.name for op in REGISTRY if needs_rule(op) and op.batching is None}
    assert without == set(LOOPS)


PROPERTIES = ("vmap", "adjoint", "jacobian", "hessian")
GROUPS = 8
FIRST = 1  # samples of each entry in every run


# Windows overlap in their samples, so several values go to one place: the one that stays has the derivative,
# while PyTorch's gradient, which reverse mode follows, reads that place for each of them.
COLLIDING = frozenset(f"nn.functional.max_unpool{rank}d" for rank in (1, 2, 3))


# vmap takes no sparse tensors, as in PyTorch; Jacobians and Hessians use it.
SPARSE_ENTRIES = frozenset(("sparse.sampled_addmm", "sparse.mm.reduce", "to_sparse"))
REFUSALS = (
    "sparse tensor cannot take part in a vmap",
    "makes or takes a sparse tensor",
    "is not implemented for tensors of layout",
)


def problem(result: Result) -> str | None:
    """What is not as it should be: a failure of an entry without an exception, or of another kind than its
    exception tells."""
    if result.status != FAIL:
        loops = result.variant == "vmap" and result.name in LOOPING_ENTRIES and result.status == PASS
        return f"{result.line()}: expected to loop" if loops else None
    excused: tuple[str, ...] = ()
    if result.name in SPARSE_ENTRIES and result.variant != "adjoint":
        excused = REFUSALS
    elif result.name in COLLIDING and result.variant != "vmap":
        excused = ("forward mode gives", "jacfwd gives", "the Hessian is")
    elif result.name in LOOPING_ENTRIES and result.variant == "vmap":
        excused = ("has no batching rule",)
    others = [f.message for f in result.failures if not any(text in f.message for text in excused)]
    return result.line() if others else None


@pytest.mark.parametrize("group", range(GROUPS))
def test_properties_of_all_entries(group: int) -> None:
    found = []
    passed = 0
    for entry in entries()[group::GROUPS]:
        for result in run_task(Task(entry.full_name, ("float64",), PROPERTIES), most=FIRST):
            found.append(problem(result))
            passed += result.status == PASS
    wrong = [text for text in found if text]
    assert not wrong, "\n".join(wrong)
    assert passed > 150, "few entries have been looked at"


@pytest.mark.slow
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("variant", PROPERTIES)
@pytest.mark.parametrize("entry", entries(), ids=lambda entry: entry.full_name)
def test_all_samples(entry: Entry, variant: str, dtype: str) -> None:
    if dtype == "complex128" and dtype not in entry.dtypes:
        pytest.skip("not for complex numbers")
    (result,) = run_task(Task(entry.full_name, (dtype,), (variant,)))
    wrong = problem(result)
    assert not wrong, wrong


# Whole Jacobians and Hessians.

FUNCTIONS = {
    "products": lambda x: (x[:2] * x[1:]).cumsum(0) * x.sum(),
    "exponentials": lambda x: (x.exp().log1p(), x.softmax(0), x.logsumexp(0)),
    "matrices": lambda x: (x.outer(x) @ x, x.unsqueeze(0) @ x.unsqueeze(1)),
    "choices": lambda x: (x.sort()[0], x.amax(0), x.clamp(min=0.4), x.flip(0)[1:]),
    "indices": lambda x: (x[rl.tensor([2, 0, 2])], x.index_select(0, rl.tensor([1, 1])), x.roll(1) * x),
    "norms": lambda x: (x.norm(), x.var(0), x.std(0), (x * x).mean().sqrt()),
    "trigonometry": lambda x: (x.sin() * x.cos(), x.tanh().atanh(), rl.atan2(x, x + 1)),
    "in place": lambda x: written(x * 2, x),
}


def written(y, x):
    y[1:].mul_(x[:2])
    y[0] = x[2] * x[2]
    return y * y


def point():
    return rl.tensor([0.3, 0.9, 0.6], dtype=rl.float64)


def leaves(tree):
    return [leaf for item in tree for leaf in leaves(item)] if isinstance(tree, tuple | list) else [tree]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_jacobians_agree(name: str) -> None:
    function = FUNCTIONS[name]
    reverse = leaves(rl.func.jacrev(function)(point()))
    forward = leaves(rl.func.jacfwd(function)(point()))
    old = leaves(rl.autograd.functional.jacobian(lambda x: tuple(leaves(function(x))), point()))
    for a, b, c in zip(reverse, forward, old, strict=True):
        assert rl.allclose(a, b, rtol=1e-10, atol=1e-12)
        assert rl.allclose(a, c, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_hessians_are_symmetric(name: str) -> None:
    def total(x):
        return sum((leaf * leaf).sum() for leaf in leaves(FUNCTIONS[name](x)))

    f = rl.func
    hessian = f.hessian(total)(point())
    assert rl.allclose(hessian, hessian.t(), rtol=1e-9, atol=1e-10)
    for other in (f.jacrev(f.jacrev(total)), f.jacfwd(f.jacfwd(total)), f.jacrev(f.jacfwd(total))):
        assert rl.allclose(hessian, other(point()), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_mapped_derivatives_are_the_stack(name: str) -> None:
    def total(x):
        return sum((leaf * leaf).sum() for leaf in leaves(FUNCTIONS[name](x)))

    batch = rl.stack([point(), point() * 0.8, point().flip(0)])
    for transform in (rl.func.grad, rl.func.hessian):
        together = rl.func.vmap(transform(total))(batch)
        apart = rl.stack([transform(total)(row) for row in batch.unbind(0)])
        assert rl.allclose(together, apart, rtol=1e-10, atol=1e-12)
