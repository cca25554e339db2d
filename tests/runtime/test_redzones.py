"""Guard zones: they notice what they are there for, and compiled programs leave them alone."""

import ctypes

import numpy as np
import pytest

import rushlight as rl
from rushlight.codegen.llvm import nests
from rushlight.compiler import pipeline
from rushlight.core.errors import InternalError
from rushlight.loops.nest import MemoryKind
from rushlight.runtime import executable
from rushlight.runtime.guarded_run import Guarded
from rushlight.runtime.redzones import ZONE, guarding


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


def test_a_compiled_function_that_ran_before_is_guarded(monkeypatch):
    """The native callable of an entry used before ran without zones inside of `guarding()`."""
    calls = []
    guarded = executable.run_guarded
    monkeypatch.setattr(executable, "run_guarded", lambda *args: calls.append(1) or guarded(*args))
    x = rl.randn(5)
    double = rl.compile(lambda a: a * 2)
    double(x), double(x)
    with guarding():
        double(x), double(x)
    double(x)
    assert len(calls) == 2


def row_program(x):
    rows = (x * 2).sin().exp() + x.tanh()
    return (rows - rows.mean(1, keepdim=True)) * rows.amax(1, keepdim=True)


def test_a_write_beside_a_row_temporary_is_noticed(monkeypatch):
    """The zones of row temporaries are part of the generated code: here they lie one element too near."""
    x = rl.randn(16, 37)  # rows take their steps together: the last of eight is beside the zone
    with guarding():
        compiled = rl.compile(row_program, fullgraph=True)
        np.testing.assert_allclose(compiled(x).numpy(), row_program(x).numpy(), rtol=1e-5, atol=1e-5)
        (entry,) = next(iter(compiled.specializations.values()))
        nests_of = [step.nest for step in entry.artifact.schedule.steps]
        assert any(access.buffer.memory is MemoryKind.ROW for nest in nests_of for access in nest.writes())
        monkeypatch.setattr(pipeline, "program_key", lambda *given: None)  # nobody is to find this code
        exact = nests.row_bytes
        monkeypatch.setattr(nests, "row_bytes", lambda buffer: exact(buffer) - buffer.dtype.itemsize)
        with pytest.raises(SystemError, match="wrote outside of row"):
            rl.compile(lambda x: row_program(x * 2), fullgraph=True)(x)
