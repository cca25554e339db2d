"""Arguments and functions that control flow refuses, with PyTorch's types of errors, eagerly and compiled."""

from __future__ import annotations

from typing import Any

import pytest

import rushlight as rl
from rushlight._higher_order_ops import associative_scan, cond, scan, while_loop
from rushlight._higher_order_ops import map as map_slices

X = rl.arange(6.0).reshape(3, 2) - 2


def add(a: Any, b: Any) -> Any:
    return a + b


REFUSED: dict[str, tuple[Any, type[Exception], str]] = {
    "cond: structures": (
        lambda x: cond(x.sum() > 0, lambda x: x, lambda x: (x, x), (x,)),
        RuntimeError,
        "structures differ",
    ),
    "cond: dtypes": (
        lambda x: cond(x.sum() > 0, lambda x: x, lambda x: x.double(), (x,)),
        RuntimeError,
        "leaf 0 differ: .*float32.* and .*float64",
    ),
    "cond: dimensions": (
        lambda x: cond(x.sum() > 0, lambda x: x, lambda x: x[0], (x,)),
        RuntimeError,
        "leaf 0 differ",
    ),
    "cond: numbers": (
        lambda x: cond(x.sum() > 0, lambda x: (x, 1), lambda x: (x, 2), (x,)),
        RuntimeError,
        "objects differ",
    ),
    "cond: predicate": (
        lambda x: cond(x > 0, lambda x: x, lambda x: x, (x,)),
        RuntimeError,
        "single-element tensor",
    ),
    "cond: no predicate": (
        lambda x: cond("yes", lambda x: x, lambda x: x, (x,)),  # type: ignore[arg-type]
        RuntimeError,
        "bool or tensor",
    ),
    "cond: branch": (
        lambda x: cond(x.sum() > 0, 1, lambda x: x, (x,)),  # type: ignore[arg-type]
        RuntimeError,
        "callable",
    ),
    "cond: operands": (
        lambda x: cond(x.sum() > 0, lambda x, y: x, lambda x, y: x, (x, "a")),
        RuntimeError,
        "tensor leaves",
    ),
    "scan: dtype": (lambda x: scan(lambda h, r: (h.double(), r), x[0], x), RuntimeError, "same metadata"),
    "scan: shape": (lambda x: scan(lambda h, r: (h[:1], r), x[0], x), RuntimeError, "same metadata"),
    "scan: structure": (lambda x: scan(lambda h, r: ((h, h), r), x[0], x), RuntimeError, "structure of init"),
    "scan: no output": (lambda x: scan(lambda h, r: h + r, x[0], x), RuntimeError, "a carry and an output"),
    "scan: init": (
        lambda x: scan(lambda h, r: (h, r), 3, x),
        RuntimeError,
        "All init leaves must be a Tensor",
    ),
    "scan: no init": (lambda x: scan(lambda h, r: (h, r), (), x), RuntimeError, "requires init leaves"),
    "scan: xs": (lambda x: scan(lambda h, r: (h, r), x[0], [x, 3]), RuntimeError, "All xs leaves"),
    "scan: empty": (lambda x: scan(lambda h, r: (h, r), x[0], x[:0]), RuntimeError, "scan dimension > 0"),
    "scan: lengths": (lambda x: scan(lambda h, r: (h, r[0]), x[0], [x, x[:2]]), RuntimeError, "same size"),
    "scan: dim": (lambda x: scan(lambda h, r: (h, r), x[0], x, dim=2), IndexError, "out of range"),
    "scan: function": (lambda x: scan(1, x[0], x), RuntimeError, "callable"),  # type: ignore[arg-type]
    "while_loop: dtype": (
        lambda x: while_loop(lambda x: x.sum() < 9, lambda x: (x.double(),), (x,)),
        RuntimeError,
        "same metadata",
    ),
    "while_loop: shape": (
        lambda x: while_loop(lambda x: x.sum() < 9, lambda x: (x[:1],), (x,)),
        RuntimeError,
        "same metadata",
    ),
    "while_loop: structure": (
        lambda x: while_loop(lambda x: x.sum() < 9, lambda x: (x, x), (x,)),
        RuntimeError,
        "same number of elements as carried_inputs, got 2 vs 1",
    ),
    "while_loop: condition": (
        lambda x: while_loop(lambda x: x < 9, lambda x: (x + 1,), (x,)),
        RuntimeError,
        "boolean scalar tensor",
    ),
    "while_loop: carried": (
        lambda x: while_loop(lambda x: x < 9, lambda x: (x + 1,), ("a",)),
        RuntimeError,
        "tensor or int",
    ),
    "while_loop: function": (
        lambda x: while_loop(lambda x: x < 9, 2, (x,)),  # type: ignore[arg-type]
        RuntimeError,
        "callable",
    ),
    "map: lengths": (lambda x: map_slices(lambda r: r[0], [x, x[:2]]), RuntimeError, "must be consistent"),
    "map: empty": (lambda x: map_slices(lambda r: r, x[:0]), RuntimeError, "cannot be 0"),
    "map: number": (lambda x: map_slices(lambda r: r, [x, 2]), RuntimeError, "only consist of tensors"),
    "associative_scan: mode": (
        lambda x: associative_scan(add, x, 0, combine_mode="fast"),
        ValueError,
        "Combine_mode",
    ),
    "associative_scan: dim": (lambda x: associative_scan(add, x, 2), IndexError, "out of range"),
    "associative_scan: empty": (lambda x: associative_scan(add, x[:0], 0), ValueError, "scan dimension > 0"),
    "associative_scan: leaf": (lambda x: associative_scan(add, [x, 1], 0), ValueError, "must be a Tensor"),
    "associative_scan: shape": (
        lambda x: associative_scan(lambda a, b: a[:1], x, 0, combine_mode="generic"),
        RuntimeError,
        "same metadata",
    ),
    "associative_scan: structure": (
        lambda x: associative_scan(lambda a, b: (a, b), x, 0),
        RuntimeError,
        "structure of xs",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    function, error, message = REFUSED[name]
    with pytest.raises(error, match=message):
        function(X)
    for fullgraph in (False, True):
        with pytest.raises(error, match=message):
            rl.compile(function, fullgraph=fullgraph)(X)


def test_branches_of_different_shapes() -> None:
    """They are allowed eagerly, as in PyTorch."""
    for sign in (1, -1):
        x = X.abs() * sign
        found = cond(x.sum() > 0, lambda x: x, lambda x: x[:2], (x,))
        assert found.shape == (3, 2) if sign > 0 else (2, 2)


def test_names() -> None:
    assert rl.cond is cond
    assert rl.while_loop is while_loop
