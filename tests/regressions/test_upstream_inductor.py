"""Defects that PyTorch's test_torchinductor found."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rushlight as rl


@pytest.mark.parametrize(
    "program",
    [
        lambda t, x: t.ops.aten.to(x, t.float64),
        lambda t, x: t.ops.aten.to(x, t.bool),
        lambda t, x: t.ops.aten.to.dtype(x, t.int32, False, True),
        lambda t, x: t.ops.aten.to(x, "cpu", t.int64),
        lambda t, x: t.ops.aten.to(x, x.double()),
        lambda t, x: t.ops.aten.to(x, dtype=t.int16, copy=True),
    ],
)
def test_to_is_an_operator(program) -> None:
    values = [0.0, 1.5, -2.0]
    expected = program(torch, torch.tensor(values))
    for run in (program, rl.compile(lambda t, x: program(t, x), fullgraph=True)):
        found = run(rl, rl.tensor(values))
        assert found.dtype.name == str(expected.dtype)[6:]
        assert found.tolist() == expected.tolist()


def test_to_without_a_change_is_the_tensor() -> None:
    x = rl.ones(2)
    assert rl.ops.aten.to.dtype(x, rl.float32) is x


def test_rows_of_bytes() -> None:
    table = np.random.default_rng(0).normal(size=(2, 5, 7)).astype(np.float32)
    table[0, 1] = 2.5
    packed = torch.ops.quantized.embedding_bag_byte_prepack(torch.tensor(table)).numpy()
    assert (rl.ops.quantized.embedding_bag_byte_prepack(rl.tensor(table)).numpy() == packed).all()
    expected = torch.ops.quantized.embedding_bag_byte_unpack(torch.tensor(packed)).numpy()
    unpack = rl.ops.quantized.embedding_bag_byte_unpack
    for run in (unpack, rl.compile(lambda rows: unpack(rows), fullgraph=True)):
        np.testing.assert_allclose(run(rl.tensor(packed)).numpy(), expected, rtol=1e-6, atol=1e-6)


def test_custom_operator_with_nothing_to_write_to() -> None:
    """An optional argument that the operator writes to, and that is None: it has no result in a graph."""
    ran = []

    def write(a, b):
        ran.append(b is None)
        if b is not None:
            b.add_(1)

    with rl.library._scoped_library("upstream_regression", "FRAGMENT") as space:
        space.define("write(Tensor a, Tensor(b!)? b) -> ()")
        space.impl("write", write, "CompositeExplicitAutograd")

        def program(a, b):
            rl.ops.upstream_regression.write(a, b)
            return a + 1

        compiled = rl.compile(program)
        for _ in range(2):
            assert compiled(rl.ones(2), None).tolist() == [2.0, 2.0]
        assert ran == [True, True]
        target = rl.zeros(2)
        compiled(rl.ones(2), target)
        assert target.tolist() == [1.0, 1.0]


def test_modes_are_told_of_new_data() -> None:
    """`tensor` of Python's numbers is `lift_fresh` for a mode, as in PyTorch."""
    found = {}
    for library, modes in ((rl, rl.utils._python_dispatch), (torch, torch.utils._python_dispatch)):
        seen = found[library.__name__] = []

        class Seeing(modes.TorchDispatchMode):
            def __torch_dispatch__(self, func, types, args=(), kwargs=None, seen=seen):
                seen.append(str(func))
                return func(*args, **(kwargs or {}))

        with Seeing():
            assert library.tensor([1.0, 2.0]).tolist() == [1.0, 2.0]
    assert "aten.lift_fresh.default" in found["rushlight"]
    assert "aten.lift_fresh.default" in found["torch"]
