"""Errors of capture say what happened, where in the user's program, and what to do."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rushlight as rl
from rushlight.capture.errors import OTHERWISE, CaptureError, Problem, StateError

items = [1, 2, 3]


class Wrapper(rl.Tensor):
    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def reads_value(x):
    return x + 1 if x.sum() > 0 else x  # <-


def shape_from_data(x):
    return x[None].unique(dim=0).sum()  # <-


def write_before_use(x):
    picked = x[None].unique(dim=0)
    x.zero_()  # <-
    return picked


def sparse(x):
    return rl.zeros(2, 2, layout=rl.sparse_coo) + x  # <-


def large_number(x):
    return x * 2**70  # <-


def history(x):
    x.mul_(rl.ones(3, requires_grad=True).detach().requires_grad_())  # <-
    return x


def own_leaf(x):
    return rl.ones(3, requires_grad=True)


def random_state(x):
    rl.set_rng_state(rl.get_rng_state().clone())  # <-
    return x


def state(x):  # <-
    items.pop()
    return x + 1


def returned_object(x):  # <-
    return (y for y in x)


def prints(x):
    print(x.shape)  # <-
    return x


def clock(x):
    return x + time.perf_counter()  # <-


KINDS: list[tuple[Callable[..., Any], Problem, str]] = [
    (reads_value, Problem.READS_VALUE, "reads a value"),
    (shape_from_data, Problem.SHAPE_FROM_DATA, "depends on data"),
    (write_before_use, Problem.WRITE_BEFORE_USE, "it writes to what"),
    (sparse, Problem.LAYOUT, "makes or takes a sparse tensor"),
    (large_number, Problem.LARGE_NUMBER, "too large for a graph"),
    (history, Problem.HISTORY, "gives a tensor of the caller a history"),
    (own_leaf, Problem.OWN_LEAF, "returns a leaf that it made"),
    (random_state, Problem.RANDOM_STATE, "state of a random generator"),
    (state, Problem.STATE, "it removes something"),
    (returned_object, Problem.RETURNED_OBJECT, "to iterate over once"),
    (prints, Problem.EFFECT, "it prints"),
    (clock, Problem.EFFECT, "it reads a clock"),
]


def error_of(function: Callable[..., Any], *args: Any) -> CaptureError:
    with pytest.raises(CaptureError) as found:
        rl.compile(function, fullgraph=True)(*args)
    return found.value


@pytest.mark.parametrize(("function", "problem", "what"), KINDS, ids=lambda v: getattr(v, "__name__", ""))
def test_what_where_and_what_to_do(function: Callable[..., Any], problem: Problem, what: str) -> None:
    error = error_of(function, rl.tensor([1.0, -1.0, 2.0]))
    assert error.problem is problem
    assert what in error.what
    lines = str(error).splitlines()
    assert lines[0] == f"{error.place}: {error.what}"
    file, _, line = error.place.rpartition(":")
    assert file == __file__
    text = Path(__file__).read_text()
    source = text.splitlines()[int(line) - 1]
    marked = "# <-" in text.split(f"def {function.__name__}(")[1].split("\n\n\n")[0]
    assert not marked or "# <-" in source
    assert lines[1] == f"    {source.strip()}"
    assert lines[2] == f"What to do: {problem.remedy}."
    assert lines[3] == f"    {problem.example}"
    assert lines[4] == OTHERWISE


def test_arguments_that_cannot_be_captured() -> None:
    array = np.ones(6, np.float32)
    shared = error_of(lambda x, y: x.add_(y), rl.from_numpy(array[:4]), rl.from_numpy(array[2:]))
    assert shared.problem is Problem.SHARED_MEMORY and "share memory through NumPy" in str(shared)
    wrapped = error_of(lambda x: x + 1, rl.ones(2).as_subclass(Wrapper))
    assert wrapped.problem is Problem.TENSOR_CLASS and "class Wrapper" in str(wrapped)
    assert wrapped.place.startswith(__file__)


def test_a_backward_pass_through_earlier_history() -> None:
    loss = (rl.ones(2, requires_grad=True) * 2).sum()

    def step(loss):
        loss.backward()

    error = error_of(step, loss)
    assert error.problem is Problem.EARLIER_HISTORY and "history from before the program" in error.what


def test_reasons_to_run_eagerly_are_one_line() -> None:
    compiled = rl.compile(reads_value)
    compiled(rl.ones(3))
    (reason,) = compiled.eager.values()
    assert "\n" not in reason and reason.startswith(f"{__file__}:") and "reads a value" in reason


def test_every_problem_has_a_remedy_with_an_example() -> None:
    for problem in Problem:
        assert problem.remedy and problem.example, problem
        assert not problem.remedy.endswith("."), problem


def test_errors_can_be_pickled() -> None:
    error = pickle.loads(pickle.dumps(StateError("it changes x", "a.py:3")))
    assert (type(error), error.summary, error.problem) == (StateError, "a.py:3: it changes x", Problem.STATE)
