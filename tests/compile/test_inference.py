"""Compiled functions in inference mode: graphs as whole as elsewhere, and results that are inference tensors."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import rushlight as rl
from rushlight.capture.errors import CaptureError

FACTORIES: dict[str, Callable[[rl.Tensor], rl.Tensor]] = {
    "zeros": lambda x: x + rl.zeros(3),
    "ones": lambda x: x + rl.ones(3),
    "empty": lambda x: x + rl.empty(3).fill_(1),
    "full": lambda x: x + rl.full((3,), 2.0),
    "zeros_like": lambda x: x + rl.zeros_like(x),
    "empty_like": lambda x: x + rl.empty_like(x).zero_(),
    "full_like": lambda x: x + rl.full_like(x, 2),
    "new_zeros": lambda x: x + x.new_zeros(3),
    "new_empty": lambda x: x + x.new_empty(3).fill_(2),
    "empty_strided": lambda x: x + rl.empty_strided((3,), (1,)).fill_(2),
    "arange": lambda x: x + rl.arange(3),
    "linspace": lambda x: x + rl.linspace(0, 1, 3),
    "logspace": lambda x: x + rl.logspace(0, 1, 3),
    "eye": lambda x: x + rl.eye(3),
    "tril_indices": lambda x: x + rl.tril_indices(3, 3).sum(),
    "hann_window": lambda x: x + rl.hann_window(3),
    "tensor": lambda x: x + rl.tensor([1.0, 2.0, 3.0]),
    "scalar_tensor": lambda x: x + rl.scalar_tensor(2.0),
    "rand": lambda x: x + rl.rand(3),
    "randn": lambda x: x + rl.randn(3),
    "randint": lambda x: x + rl.randint(0, 3, (3,)),
    "randperm": lambda x: x + rl.randperm(3),
}


@pytest.mark.parametrize("name", FACTORIES)
def test_factories(name: str) -> None:
    function = FACTORIES[name]
    compiled = rl.compile(function, fullgraph=True)
    with rl.inference_mode():
        for _ in range(2):
            rl.manual_seed(0)
            expected = function(rl.ones(3))
            rl.manual_seed(0)
            actual = compiled(rl.ones(3))
            rl.testing.assert_close(actual, expected)
            assert actual.is_inference() and expected.is_inference()


@pytest.mark.parametrize("kind", ["GRU", "LSTM", "RNN"])
def test_recurrent_networks(kind: str) -> None:
    """Their first states are zeros, which "make or take a sparse tensor", it was said."""
    network = getattr(rl.nn, kind)(4, 6, batch_first=True, bidirectional=True).eval()
    compiled = rl.compile(lambda x: network(x)[0], fullgraph=True)
    with rl.inference_mode():
        x = rl.randn(2, 5, 4)
        rl.testing.assert_close(compiled(x), network(x)[0])


def test_sparse_tensors_are_refused() -> None:
    with rl.inference_mode(), pytest.raises(CaptureError, match="sparse tensor"):
        rl.compile(lambda x: x + rl.zeros(3, layout=rl.sparse_coo).to_dense(), fullgraph=True)(rl.ones(3))
