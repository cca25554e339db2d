"""Embeddings, bags of embeddings and one-hot vectors against PyTorch's own operators."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import rushlight
from rushlight.core.dispatch import run_name
from rushlight.core.registry import REGISTRY

W = [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0], [9.0, 10.0, 11.0]]
INDICES = [0, 1, 3, 2, 1]


def ours(name: str, *args: Any) -> Any:
    """The operator `name` on arguments given by value, the missing ones by default."""
    op = REGISTRY[name]
    return run_name(name, *args, *op.defaults[len(args) :])


def theirs(name: str, *args: Any) -> Any:
    return getattr(torch.ops.aten, name)(*args)


def data(lib: Any, value: Any, dtype: str | None = None) -> Any:
    return lib.tensor(value, dtype=None if dtype is None else getattr(lib, dtype))


def check(actual: Any, expected: Any) -> None:
    if isinstance(expected, tuple):
        for a, e in zip(actual, expected, strict=True):
            check(a, e)
        return
    assert f"torch.{actual.dtype.name}" == str(expected.dtype)
    assert tuple(actual.shape) == tuple(expected.shape)
    torch.testing.assert_close(
        torch.tensor(actual.tolist(), dtype=expected.dtype).reshape(expected.shape), expected, equal_nan=True
    )


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64"])
@pytest.mark.parametrize("index", ["int64", "int32"])
def test_embedding(dtype: str, index: str) -> None:
    args = [(data(lib, W, dtype), data(lib, [INDICES, INDICES[::-1]], index)) for lib in (rushlight, torch)]
    check(rushlight.embedding(*args[0]), torch.embedding(*args[1]))


@pytest.mark.parametrize("padding", [-1, 1])
@pytest.mark.parametrize("by_frequency", [False, True])
def test_embedding_dense_backward(padding: int, by_frequency: bool) -> None:
    grad = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0], [0.5, 0.25, 0.125], [1.0, 1.0, 1.0]]
    arguments = [
        (data(lib, grad), data(lib, INDICES), 4, padding, by_frequency) for lib in (rushlight, torch)
    ]
    check(ours("embedding_dense_backward", *arguments[0]), theirs("embedding_dense_backward", *arguments[1]))


@pytest.mark.parametrize("norm", [1.0, 2.0, float("inf")])
def test_renorm_changes_large_rows_only(norm: float) -> None:
    a, b = data(rushlight, W), data(torch, W)
    index = [0, 0, 2]
    assert rushlight.embedding_renorm_(a, data(rushlight, index), 2.5, norm) is a
    torch.embedding_renorm_(b, data(torch, index), 2.5, norm)
    check(a, b)
    assert a._version == 1


OFFSETS = {
    "plain": ([0, 2, 2], False),
    "all": ([0], False),
    "empty last": ([0, 5], False),
    "with end": ([0, 2, 5], True),
    "early end": ([0, 2, 4], True),
}


@pytest.mark.parametrize("mode", [0, 1, 2])
@pytest.mark.parametrize("offsets", OFFSETS)
@pytest.mark.parametrize("padding", [-1, 1])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_embedding_bag(mode: int, offsets: str, padding: int, dtype: str) -> None:
    starts, with_end = OFFSETS[offsets]
    if offsets == "early end" and mode != 2 and padding == -1:
        pytest.skip("PyTorch's fast path counts the indices after the end in the last bag")
    args = [
        (
            data(lib, W, dtype),
            data(lib, INDICES),
            data(lib, starts),
            False,
            mode,
            False,
            None,
            with_end,
            padding,
        )
        for lib in (rushlight, torch)
    ]
    actual, expected = ours("_embedding_bag", *args[0]), theirs("_embedding_bag", *args[1])
    check(actual[0], expected[0])
    if mode == 2:
        check(actual[3], expected[3])


def test_embedding_bag_with_weights() -> None:
    weights = [1.0, 2.0, 3.0, 4.0, 5.0]
    args = [
        (data(lib, W), data(lib, INDICES), data(lib, [0, 2, 2]), False, 0, False, data(lib, weights))
        for lib in (rushlight, torch)
    ]
    check(rushlight.embedding_bag(*args[0])[0], torch.embedding_bag(*args[1])[0])


def test_embedding_bag_backward() -> None:
    bags, sizes, grad = [0, 0, 2, 2, 2], [2, 0, 3], [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]
    maxima = [[1, 1, 1], [0, 0, 0], [3, 2, 3]]
    for mode in (0, 1, 2):
        for weights in (None, [1.0, 2.0, 3.0, 4.0, 5.0]) if mode == 0 else (None,):
            args = [
                (
                    data(lib, grad),
                    data(lib, INDICES),
                    data(lib, bags),
                    data(lib, sizes),
                    data(lib, maxima),
                    4,
                    False,
                    mode,
                    None if weights is None else data(lib, weights),
                )
                for lib in (rushlight, torch)
            ]
            check(
                ours("_embedding_bag_dense_backward", *args[0]),
                theirs("_embedding_bag_dense_backward", *args[1]),
            )
    args = [
        (data(lib, grad), data(lib, W), data(lib, INDICES), data(lib, [0, 2, 2]), data(lib, bags), 0)
        for lib in (rushlight, torch)
    ]
    name = "_embedding_bag_per_sample_weights_backward"
    check(ours(name, *args[0]), theirs(name, *args[1]))


BAD = {
    "weight is 1-D": ("embedding", lambda T: (T([1.0]), T([0]))),
    "float indices": ("embedding", lambda T: (T(W), T([0.0]))),
    "index too large": ("embedding", lambda T: (T(W), T([4]))),
    "negative index": ("embedding", lambda T: (T(W), T([-1]))),
    "bag index too large": ("_embedding_bag", lambda T: (T(W), T([5]), T([0]))),
    "bags start late": ("_embedding_bag", lambda T: (T(W), T([0, 1]), T([1]))),
    "bags end late": ("_embedding_bag", lambda T: (T(W), T([0, 1]), T([0, 9]))),
    "offsets are 2-D": ("_embedding_bag", lambda T: (T(W), T([0, 1]), T([[0]]))),
    "unknown mode": ("_embedding_bag", lambda T: (T(W), T([0, 1]), T([0]), False, 3)),
    "weighted mean": ("_embedding_bag", lambda T: (T(W), T([0]), T([0]), False, 1, False, T([1.0]))),
    "integer weights": ("_embedding_bag", lambda T: (T([[1]]), T([0]), T([0]))),
    "one_hot of floats": ("one_hot", lambda T: (T([1.0]),)),
    "one_hot of negatives": ("one_hot", lambda T: (T([-1]),)),
    "one_hot out of range": ("one_hot", lambda T: (T([3]), 3)),
    "one_hot of nothing": ("one_hot", lambda T: (T([], dtype=T([0]).dtype),)),
}


@pytest.mark.parametrize("case", BAD)
def test_errors(case: str) -> None:
    name, arguments = BAD[case]
    function = torch.nn.functional.one_hot if name == "one_hot" else getattr(torch.ops.aten, name)
    with pytest.raises(Exception) as expected:
        function(*arguments(torch.tensor))
    with pytest.raises(expected.type):
        ours(name, *arguments(rushlight.tensor))


@pytest.mark.parametrize("value", [[], [0, 2, 1], [[0, 1], [3, 0]]])
@pytest.mark.parametrize("classes", [-1, 5])
def test_one_hot(value: list, classes: int) -> None:
    if not value and classes == -1:
        return
    check(
        ours("one_hot", data(rushlight, value, "int64"), classes),
        torch.nn.functional.one_hot(data(torch, value, "int64"), classes),
    )


def test_meta_descriptions() -> None:
    def meta(*shape: int, dtype: Any = rushlight.float32) -> Any:
        return rushlight.empty(shape, dtype=dtype, device="meta")

    index = meta(7, dtype=rushlight.int64)
    assert rushlight.embedding(meta(4, 3), index).shape == (7, 3)
    assert ours("one_hot", index, 5).shape == (7, 5)
    with pytest.raises(NotImplementedError, match="depends on data"):
        ours("one_hot", index, -1)
    bag = ours("_embedding_bag", meta(4, 3), index, meta(2, dtype=rushlight.int64), False, 2)
    assert [tuple(output.shape) for output in bag] == [(2, 3), (7,), (2,), (2, 3)]
