"""A program that gives a tensor data over memory that overlaps with other memory runs eagerly to its end."""

from __future__ import annotations

from typing import Any

import rushlight as rl
from rushlight import nn


def test_a_capture_that_is_left_while_data_is_assigned() -> None:
    memory = rl.arange(6.0)
    first, last = memory[:4], memory[2:]
    compiled_weight, eager_weight = (nn.Parameter(rl.zeros(4)) for _ in range(2))

    def program(x: Any, weight: Any) -> Any:
        y = x * first
        weight.data = last
        return y + weight

    compiled = rl.compile(program)
    for _ in range(3):
        found = compiled(rl.ones(4), compiled_weight)
        assert found.tolist() == program(rl.ones(4), eager_weight).tolist() == [2.0, 4.0, 6.0, 8.0]
        assert compiled_weight.data_ptr() == last.data_ptr()
        found.sum().backward()
    assert compiled_weight.grad.tolist() == [3.0] * 4
