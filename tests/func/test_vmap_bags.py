"""vmap over bags, segments and masks equals the loop, whatever is batched."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.dispatch import run_name
from rushlight.core.registry import REGISTRY


def check_vmap(name: str, one: Any, other: Any) -> None:
    """Every choice of the tensors in which two calls differ: together as apart."""
    op = REGISTRY[name]
    places = [i for i in op.tensor_positions if one[i] is not None]
    choices = (c for n in range(1, len(places) + 1) for c in itertools.combinations(places, n))
    for chosen in choices:
        calls = [list(one), [other[i] if i in chosen else value for i, value in enumerate(one)]]
        expected = [leaves(run_name(name, *call)) for call in calls]

        def mapped(*tensors: Any, chosen: Any = chosen) -> Any:
            values = list(one)
            for i, tensor in zip(chosen, tensors, strict=True):
                values[i] = tensor
            return tuple(leaves(run_name(name, *values)))

        found = rl.func.vmap(mapped)(*[rl.stack([one[i], other[i]]) for i in chosen])
        for j, result in enumerate(found):
            for n in range(2):
                assert result[n].dtype is expected[n][j].dtype
                assert rl.allclose(result[n].double(), expected[n][j].double()), (name, chosen, j)


def leaves(result: Any) -> list[Any]:
    return list(result) if isinstance(result, tuple) else [result]


def random(*shape: int) -> Any:
    return rl.from_numpy(np.random.default_rng(sum(shape)).standard_normal(shape))


def index(*values: int) -> Any:
    return rl.tensor(values)


def bags() -> Iterator[tuple[int, bool, int, bool]]:
    for mode, last, padding in itertools.product((0, 1, 2), (False, True), (-1, 2)):
        yield mode, last, padding, False
    yield 0, False, 2, True


@pytest.mark.parametrize(("mode", "last", "padding", "weighted"), list(bags()))
def test_bags(mode: int, last: bool, padding: int, weighted: bool) -> None:
    """An empty bag, padding, indices behind the last bag."""
    weight, indices = random(5, 3), index(0, 2, 2, 4, 1, 3)
    sample_weights = random(6) if weighted else None
    one = (weight, indices, index(0, 2, 2, 5), False, mode, False, sample_weights, last, padding)
    other = (
        weight * 0.5 + 1,
        index(1, 1, 2, 0, 4, 4),
        index(0, 1, 4, 4),
        False,
        mode,
        False,
        None if sample_weights is None else sample_weights + 1,
        last,
        padding,
    )
    check_vmap("_embedding_bag", one, other)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize(("mode", "padding"), [(0, -1), (0, 2), (1, -1), (1, 2), (2, -1)])
def test_gradients_of_bags(mode: int, padding: int, scaled: bool) -> None:
    def forward(indices: Any, offsets: Any) -> Any:
        return run_name(
            "_embedding_bag", random(5, 3), indices, offsets, False, mode, False, None, False, padding
        )

    cases = []
    for indices, offsets in (
        (index(0, 2, 2, 4, 1, 3), index(0, 2, 2)),
        (index(1, 1, 2, 0, 4, 4), index(0, 1, 4)),
    ):
        _, bag, size, maxima = forward(indices, offsets)
        weights = random(6) if mode == 0 else None
        grad = random(3, 3) * len(cases) + 1
        cases.append((grad, indices, bag, size, maxima, 5, scaled, mode, weights, padding))
    check_vmap("_embedding_bag_dense_backward", *cases)
    if mode == 0:
        given = [
            (grad, random(5, 3) + n, indices, index(0, 2, 2), bag, 0, padding)
            for n, (grad, indices, bag, *_) in enumerate(cases)
        ]
        check_vmap("_embedding_bag_per_sample_weights_backward", *given)


@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "max", "min"])
@pytest.mark.parametrize("axis", [0, 1])
def test_segments(reduce: str, axis: int) -> None:
    shape = (5, 2) if axis == 0 else (2, 5, 2)
    lengths = [index(2, 0, 3), index(1, 3, 1)]
    if axis == 1:
        lengths = [rl.stack([a, b]) for a, b in (lengths, lengths[::-1])]
    data = [random(*shape), random(*shape) + 1]
    cases = [(x, reduce, n, None, None, axis, False, 1.0) for x, n in zip(data, lengths, strict=True)]
    check_vmap("segment_reduce", *cases)
    results = [run_name("segment_reduce", *case) for case in cases]
    # The result belongs to its data: they vary together.
    given = [
        (y.cos(), y, x, reduce, n, None, axis, 1.0) for x, y, n in zip(data, results, lengths, strict=True)
    ]
    expected = [run_name("_segment_reduce_backward", *case) for case in given]
    mapped = rl.func.vmap(
        lambda g, y, x, n: run_name("_segment_reduce_backward", g, y, x, reduce, n, None, axis, 1.0)
    )
    found = mapped(*[rl.stack([case[i] for case in given]) for i in (0, 1, 2, 4)])
    for n in range(2):
        assert rl.allclose(found[n], expected[n])


def test_one_mask_selects_from_every_element() -> None:
    mask = rl.tensor([[True, False, True], [False, False, True]])
    batch = random(4, 2, 3)
    found = rl.func.vmap(lambda x: x.masked_select(mask))(batch)
    assert rl.equal(found, rl.stack([x.masked_select(mask) for x in batch]))
    narrow = rl.func.vmap(lambda x: x.masked_select(mask))(batch[:, 0])
    assert rl.equal(narrow, rl.stack([x.masked_select(mask) for x in batch[:, 0]]))
    jacobian = rl.func.jacfwd(lambda x: x.masked_select(mask))(batch[0])
    assert rl.equal(jacobian, rl.func.jacrev(lambda x: x.masked_select(mask))(batch[0]))
    with pytest.raises(RuntimeError, match="dynamic shape"):
        rl.func.vmap(lambda x, m: x.masked_select(m))(batch, mask.expand(4, 2, 3))
