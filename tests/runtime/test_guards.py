"""Guard zones: they notice what they are there for, and compiled programs leave them alone."""

import ctypes

import numpy as np
import pytest

import rushlight as rl
from rushlight.core.errors import InternalError
from rushlight.runtime.guards import ZONE, Guarded, guarding


@pytest.mark.parametrize("place", [-1, -ZONE, 40, 40 + ZONE - 1])
def test_a_write_outside_is_noticed(place):
    zone = Guarded("a buffer", 40)
    ctypes.c_uint8.from_address(zone.address + place).value = 3
    with pytest.raises(InternalError, match=r"kernel wrote 1 bytes (before|behind) a buffer"):
        zone.check("kernel")


def test_writes_inside_are_fine():
    zone = Guarded("a buffer", 40)
    zone.inside[:] = 7
    zone.check("kernel")
    assert zone.address % 64 == 0


@pytest.mark.parametrize("size", [1, 7, 8, 9, 31, 33, 100])
def test_programs_between_zones(size):
    def program(x, y):
        rows = (x * 2 + y).tanh()
        return rows.softmax(1), rows.sum(0), x @ y.t(), rows.cumsum(1), rows.sort(1)

    x, y = rl.randn(5, size), rl.randn(5, size)
    compiled = rl.compile(program, fullgraph=True)
    plain = flat(compiled(x, y))
    with guarding():
        guarded = flat(compiled(x, y))
    for a, b in zip(plain, guarded, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_strided_and_empty_inputs():
    x = rl.randn(6, 8)[1:, ::2].t()
    empty = rl.empty(0, 3)
    with guarding():
        assert rl.compile(lambda a: a + 1)(x).equal(x + 1)
        assert rl.compile(lambda a: a.sum(0))(empty).equal(rl.zeros(3))


def flat(results):
    found = []
    for result in results:
        found.extend(result if isinstance(result, tuple) else [result])
    return found
