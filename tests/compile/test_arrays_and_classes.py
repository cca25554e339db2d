"""Arguments that are NumPy's arrays, and tensors of classes that run operators themselves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.capture.errors import CaptureError
from rushlight.testing.program_classes import classes_of

Wrapped = classes_of(rl)["Wrapped"]


def added_to(t: rl.Tensor, a: np.ndarray) -> rl.Tensor:
    a += 1
    return t * 2


ARRAYS: dict[str, Callable[[rl.Tensor, np.ndarray], rl.Tensor]] = {
    "an operand": lambda t, a: t + a,
    "the memory of a tensor": lambda t, a: t + rl.from_numpy(a),
    "copied to a tensor": lambda t, a: t + rl.tensor(a),
    "a number": lambda t, a: t * float(a.sum()),
    "written by an operator": lambda t, a: rl.from_numpy(a).add_(t),
    "written by NumPy": added_to,
}


@pytest.mark.parametrize("name", ARRAYS)
def test_contents_of_an_array_change_between_calls(name: str) -> None:
    function = ARRAYS[name]
    compiled = rl.compile(function)
    ours, theirs = np.ones(3), np.ones(3)
    for _ in range(4):
        x = rl.arange(3.0, dtype=rl.float64)
        assert compiled(x, ours).tolist() == function(x, theirs).tolist()
        assert ours.tolist() == theirs.tolist()
        ours[0] += 1
        theirs[0] += 1


WRITES: dict[str, Callable[[rl.Tensor, Any], Any]] = {
    "operator into it": lambda x, w: w.add_(x),
    "operator with it": lambda x, w: x.add_(w),
    "copy into it": lambda x, w: w.copy_(x * 2),
    "copy of it": lambda x, w: (x * 2).copy_(w),
    "made of an argument": lambda x, w: Wrapped(x).mul_(3),
    "made of a result": lambda x, w: Wrapped(x * 2).sub_(w) + x,
    "made and asked for what it holds": lambda x, w: Wrapped(x + 1).held * 2,
}


@pytest.mark.parametrize("name", WRITES)
def test_wrappers_end_the_graph(name: str) -> None:
    function = WRITES[name]
    ours, theirs = (Wrapped(rl.arange(3.0) + 1) for _ in range(2))
    compiled = rl.compile(lambda x: function(x, ours))
    for _ in range(3):
        x, y = rl.ones(3), rl.ones(3)
        actual, expected = compiled(x), function(y, theirs)
        assert type(actual) is type(expected)
        assert getattr(actual, "held", actual).tolist() == getattr(expected, "held", expected).tolist()
        assert (x.tolist(), ours.held.tolist()) == (y.tolist(), theirs.held.tolist())
    assert any("runs operators itself" in reason for reason in compiled.eager.values())


@pytest.mark.parametrize("name", WRITES)
def test_a_whole_graph_of_wrappers_is_refused(name: str) -> None:
    held = rl.ones(3)
    with pytest.raises(CaptureError, match="runs operators itself"):
        rl.compile(lambda x: WRITES[name](x, Wrapped(held)), fullgraph=True)(rl.ones(3))
    assert held.tolist() == [1, 1, 1]
