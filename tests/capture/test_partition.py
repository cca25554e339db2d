"""The joint graph is cut so that few values are saved."""

from __future__ import annotations

import numpy as np

import rushlight as rl
from rushlight.capture.partition import partition
from rushlight.capture.program import capture_call


def saved(program, *args) -> list[tuple[int, ...]]:
    call = capture_call(program, args, {})
    wanted = [g for g in call.backward if g is not None]
    halves = partition(call.graph, list(call.graph.outputs), call.tangents, wanted)
    inputs = set(call.graph.inputs)
    return [value.shape for value in halves.saved if value not in inputs]


def leaf(*shape: int) -> rl.Tensor:
    return rl.from_numpy(np.random.default_rng(0).standard_normal(shape).astype(np.float32)).requires_grad_()


def test_a_chain_of_pointwise_operators_saves_nothing_but_its_input() -> None:
    assert saved(lambda x: ((x * 2).sigmoid().tanh() + x).exp(), leaf(64, 64)) == []


def test_rows_are_saved_not_matrices() -> None:
    def layer_norm(x):
        centred = x - x.mean(1, keepdim=True)
        return centred * (centred * centred).mean(1, keepdim=True).add(1e-5).rsqrt()

    sizes = saved(layer_norm, leaf(64, 64))
    assert sizes
    assert all(np.prod(shape) <= 64 for shape in sizes), sizes


def test_a_product_is_saved_once() -> None:
    sizes = saved(lambda x, w: ((x @ w) * 2).sigmoid() + 1, leaf(8, 16), leaf(16, 4))
    assert sizes == [(8, 4)]
