"""Function transforms over operators: vmap is the stack of calls, forward mode the transpose of reverse mode.

The quick tests take a few operators of each family; the slow ones every entry of PyTorch's OpInfo database
that Rushlight runs. What vmap may still do one by one, with a warning, is a strict list.
"""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight.core.registry import REGISTRY, Kind
from rushlight.testing.conformance import run_entry, select
from rushlight.testing.record import FAIL, PASS

HISTOGRAMS = "the bins of each element of the batch are its own"
SEGMENTS = "segments of each element of the batch have their own lengths"
BAGS = "bags of each element of the batch have their own offsets"

# Operators without a batching rule: vmap runs them once for each element, and warns.
LOOPS = {
    "histc": HISTOGRAMS, "histogram.bin_ct": HISTOGRAMS, "histogram.bins_tensor": HISTOGRAMS,
    "_histogramdd_bin_edges": HISTOGRAMS, "_histogramdd_from_bin_cts": HISTOGRAMS,
    "_histogramdd_from_bin_tensors": HISTOGRAMS, "segment_reduce": SEGMENTS,
    "_segment_reduce_backward": SEGMENTS,
    "_embedding_bag": BAGS, "_embedding_bag_forward_only": BAGS, "_embedding_bag_dense_backward": BAGS,
    "_embedding_bag_per_sample_weights_backward": BAGS,
}
# Entries whose operators loop.
LOOPING_ENTRIES = {"histc", "histogram", "histogramdd", "_segment_reduce.lengths", "_segment_reduce.offsets"}


def needs_rule(op) -> bool:
    """Composites go through their body, pointwise operators broadcast, random ones may loop."""
    return op.kind in (Kind.VIEW, Kind.STRUCTURAL) and bool(op.tensor_positions or op.list_positions) \
        and not op.data_dependent and not op.random


def test_every_operator_has_a_batching_rule() -> None:
    without = {op.name for op in REGISTRY if needs_rule(op) and op.batching is None}
    assert without == set(LOOPS)


QUICK = ("add", "sum", "cumsum", "transpose", "index_select", "gather", "sort", "matmul", "cat", "softmax",
         "where",
         "index_put", "var", "scatter_add", "diagonal", "clamp", "logsumexp", "masked_fill", "roll", "tril")


@pytest.mark.parametrize("name", QUICK)
def test_vmap_is_the_stack_of_calls(name: str) -> None:
    result = run_entry(name, "", "float64", "vmap")
    assert result.status == PASS, result.line()


@pytest.mark.parametrize("name", QUICK)
def test_modes_are_transposes(name: str) -> None:
    result = run_entry(name, "", "float64", "adjoint")
    assert result.status == PASS, result.line()


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["vmap", "adjoint"])
@pytest.mark.parametrize("entry", select(), ids=lambda entry: entry.full_name)
def test_all_entries(entry, variant: str) -> None:
    result = run_entry(entry.name, entry.variant_name, "float64", variant)
    missing = ("not available", "has no attribute", "there is no operator")
    if result.status == FAIL and any(text in result.line() for text in missing):
        pytest.skip("calls an operator that is not here yet")
    if variant == "vmap" and entry.full_name in LOOPING_ENTRIES:
        assert result.status == FAIL
        assert "has no batching rule" in result.line()
        return
    assert result.status != FAIL, result.line()


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
