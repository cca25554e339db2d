"""Operators of lists that write in place, where members share memory: PyTorch writes one after the other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import rushlight as rl


def _overlapping(m: Any) -> Any:
    a = m.zeros(4)
    m._foreach_add_([a[:2], a[1:3]], 1.0)
    return a


def _of_two(write: Callable[[Any, Any, Any], Any]) -> Callable[[Any], Any]:
    def scenario(m: Any) -> Any:
        x, y = m.full((2,), 2.0), m.full((2,), 3.0)
        write(m, x, y)
        return x, y

    return scenario


SHARED: dict[str, Callable[[Any], Any]] = {
    "overlapping views": _overlapping,
    "one tensor twice": _of_two(lambda m, x, y: m._foreach_add_([x, x], 1.0)),
    "numbers": _of_two(lambda m, x, y: m._foreach_mul_([x, x], [2.0, 3.0])),
    "each other": _of_two(lambda m, x, y: m._foreach_add_([x, y], [y, x])),
    "read later": _of_two(lambda m, x, y: m._foreach_add_([x, y], [x, x], alpha=2)),
    "numbers in a tensor": _of_two(
        lambda m, x, y: m._foreach_addcdiv_([x, x], [y, x], [y, y], m.tensor([1.0, 2.0]))
    ),
    "copies": _of_two(lambda m, x, y: m._foreach_copy_([x, y], [y, x])),
    "weights": _of_two(lambda m, x, y: m._foreach_lerp_([x, x], [y, x], 0.5)),
    "a function": _of_two(lambda m, x, y: m._foreach_sqrt_([x, x])),
    "a tensor for all": lambda m: (x := m.tensor(2.0), y := m.ones(2), m._foreach_mul_([x, y], x))[:2],
    "nothing shared": _of_two(lambda m, x, y: m._foreach_mul_([x, y], [y, y.clone()])),
}


@pytest.mark.parametrize("name", SHARED)
def test_members_that_share_memory(same: Callable[..., None], name: str) -> None:
    same(SHARED[name])


def test_compiled_members_that_share_memory() -> None:
    def program(x: Any, y: Any) -> Any:
        rl._foreach_add_([x, y], [y, x])
        rl._foreach_mul_([x, x], 2.0)
        return x + y

    plain, ours = ([rl.ones(3), rl.full((3,), 3.0)] for _ in range(2))
    assert rl.compile(program, fullgraph=True)(*ours).tolist() == program(*plain).tolist()
    assert [t.tolist() for t in ours] == [t.tolist() for t in plain]
