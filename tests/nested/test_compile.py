"""Compiled functions of nested tensors: results, gradients, writes, and what makes them compile again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight.capture.errors import CaptureError


def batch(*sizes: int, seed: int = 0, grad: bool = True) -> Any:
    random = np.random.default_rng(seed)
    rows = [random.standard_normal((n, 4)).astype(np.float32) for n in sizes]
    return rl.nested.nested_tensor(rows, layout=rl.jagged, requires_grad=grad)


def close(found: Any, expected: Any) -> None:
    assert found.is_nested == expected.is_nested and found.shape == expected.shape
    ours, theirs = (t.values() if t.is_nested else t for t in (found, expected))
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), 2e-5, 1e-5)


PROGRAMS = [
    lambda n, m: n * m + 1,
    lambda n, m: (n.sum(1), m.mean(-1)),
    lambda n, m: F.softmax(n, 1),
    lambda n, m: F.layer_norm(n + m, (4,)).relu(),
    lambda n, m: n.to_padded_tensor(2.0) @ rl.ones(4, 3),
    lambda n, m: n.transpose(1, 2) @ m,
    lambda n, m: rl.cat([n, m], -1).unflatten(-1, [2, 4]),
    lambda n, m: [row.exp().sum() for row in n],
    lambda n, m: n + m.amax(1, keepdim=True),
    lambda n, m: F.scaled_dot_product_attention(
        *[t.unflatten(-1, [2, 2]).transpose(1, 2) for t in (n, m, n)], is_causal=True
    ),
    lambda n, m: {"first": n[0], "all": n[1:] * 2},
    lambda n, m: (n, n.detach(), m.values() * 2),
]


@pytest.mark.parametrize("sizes", [(3, 1, 2), (2, 2), (2, 0, 1)])
@pytest.mark.parametrize("number", range(len(PROGRAMS)))
def test_compiled_is_eager(number: int, sizes: tuple[int, ...]) -> None:
    program = PROGRAMS[number]
    compiled = rl.compile(program, fullgraph=True)
    for _ in range(2):
        grads = []
        results = []
        for run in (program, compiled):
            n, m = batch(*sizes), batch(*sizes, seed=1)
            returned = run(n, m)
            returned = [*returned.values()] if isinstance(returned, dict) else returned
            parts = returned if isinstance(returned, tuple | list) else [returned]
            results.append(parts)
            sum((p.values() if p.is_nested else p).square().sum() for p in parts).backward()
            grads.append([n.grad, m.grad])
        for found, expected in zip(results[1], results[0], strict=True):
            close(found, expected)
        for found, expected in zip(grads[1], grads[0], strict=True):
            assert (found is None) == (expected is None)
            if expected is not None:
                close(found, expected)
    assert compiled.reasons == ["first call"]


def test_lengths_are_a_guard() -> None:
    f = rl.compile(lambda n: n.mean(1), fullgraph=True)
    for sizes in ((2, 1), (1, 2), (2, 1)):
        close(f(batch(*sizes)), batch(*sizes).mean(1))
    assert len(f.reasons) == 2
    assert "[2, 1]" in f.reasons[1] and "[1, 2]" in f.reasons[1]


def test_many_lengths_run_eagerly() -> None:
    """Lengths that keep changing are not compiled for over and over."""
    f = rl.compile(lambda n: n.relu())
    for length in range(20):
        nested = batch(length, 1)
        close(f(nested), nested.relu())
    assert len(f.reasons) == 16
    assert f.eager == {"nested tensors": "compiled for 16 batches of rows of different lengths"}
    assert f(rl.tensor([-1.0, 1.0])).tolist() == [0.0, 1.0] and len(f.reasons) == 17


def test_result_fits_the_argument() -> None:
    """The rows of a result are those of the argument, also if the program was compiled for an equal one."""
    f = rl.compile(lambda n: n.relu())
    f(batch(2, 1))
    nested = batch(2, 1, seed=5)
    close(f(nested) + nested, nested.relu() + nested)
    assert f.reasons == ["first call"]


def test_dense_values_are_not_rows() -> None:
    f = rl.compile(lambda t: t * 2)
    nested = batch(2, 1, grad=False)
    for _ in range(2):
        assert f(nested).is_nested and not f(nested.values()).is_nested


def test_a_training_step() -> None:
    weight = rl.ones(3, 4, requires_grad=True)

    @rl.compile(fullgraph=True)
    def step(n: Any) -> Any:
        loss = F.linear(n, weight).tanh().sum(1).square().mean()
        loss.backward()
        with rl.no_grad():
            weight.sub_(weight.grad * 0.1)
        weight.grad = None
        return loss

    losses = [step(batch(3, 1, 2, grad=False)).item() for _ in range(4)]
    assert losses == sorted(losses, reverse=True) and step.reasons == ["first call"]


def test_writes_reach_the_argument() -> None:
    @rl.compile(fullgraph=True)
    def double(n: Any) -> Any:
        n.mul_(2)
        return n.sum()

    nested = batch(2, 1, grad=False)
    before = nested.values().tolist()
    double(nested)
    assert nested.values().tolist() == [[2 * x for x in row] for row in before]


def test_rows_made_inside() -> None:
    def program(a: Any, b: Any) -> Any:
        return rl.nested.as_nested_tensor([a, b], layout=rl.jagged).softmax(1)

    a, b = rl.ones(2, 3), rl.ones(1, 3)
    close(rl.compile(program, fullgraph=True)(a, b), program(a, b))


def test_offsets_of_another_tensor_run_eagerly() -> None:
    """Lengths that only a value tells: such a call runs eagerly, and says so."""

    def program(values: Any, offsets: Any) -> Any:
        return rl.nested.nested_tensor_from_jagged(values, offsets).sum(1)

    f = rl.compile(program)
    values = rl.arange(6.0)
    assert f(values, rl.tensor([0, 2, 6])).tolist() == [1.0, 14.0]
    assert f(values, rl.tensor([0, 3, 6])).tolist() == [3.0, 12.0]
    assert "reads a value" in next(iter(f.eager.values()))
    with pytest.raises(CaptureError, match="reads a value"):
        rl.compile(program, fullgraph=True)(values, rl.tensor([0, 2, 6]))
