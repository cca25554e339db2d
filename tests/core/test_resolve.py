"""Which overload a call goes to: calls that look alike to the memory of earlier decisions."""

from __future__ import annotations

import pytest

from rushlight.testing.side_by_side import assert_same

from .sides import ramp

# Each program is run twice, so that its second run meets the decisions of the first.
PROGRAMS = {
    "sizes": lambda T, x: (x.view(2, 4), x.view(4, 2), x.view(-1, 2), x.view(8), x.view(2, 2, 2)),
    "a list of sizes": lambda T, x: (x.view(2, 4), x.view((2, 4)), x.view([4, 2]), x.view(T.Size((2, 4)))),
    "a dtype": lambda T, x: (x.view(8), x.view(T.int32), x.view(8)),
    "wrong sizes": lambda T, x: (x.view(2, 4), x.view(3, 3)),
    "a number that is no int": lambda T, x: (x.view(2, 4), x.view(2, 4.0)),
    "order of dimensions": lambda T, x: (x.view(2, 4).permute(1, 0), x.view(2, 4).permute(0, 1)),
    "a dimension twice": lambda T, x: (x.view(2, 4).permute(1, 0), x.view(2, 4).permute(1, 1)),
    "factories": lambda T, x: (T.zeros(2, 3), T.zeros(3, 2), T.zeros(5), T.ones(2), T.zeros((2, 3))),
    "negative sizes": lambda T, x: (T.zeros(2, 3), T.zeros(2, -3)),
    "expand": lambda T, x: (x.expand(2, 8), x.expand(-1), x.expand(3, -1)),
    "one dimension or several": lambda T, x: (x.sum(0), x.view(2, 4).sum((0, 1)), x.view(2, 4).sum(1)),
    "two ints that are two arguments": lambda T, x: (x.view(2, 4).transpose(0, 1), x.narrow(0, 1, 2)),
    "tensors as sizes": lambda T, x: (x.reshape(2, 4), x.reshape(T.tensor(2), T.tensor(4))),
    "flip": lambda T, x: (x.view(2, 4).flip(0), x.view(2, 4).flip(0, 1), x.view(2, 4).flip(1)),
    "repeat": lambda T, x: (x.repeat(2), x.repeat(2, 1), x.tile(1, 2)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_decisions_are_right_the_second_time(name):
    for _ in range(2):
        assert_same(lambda T: PROGRAMS[name](T, ramp(T, 8)))
