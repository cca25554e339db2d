"""One compilation serves arguments wherever they begin in their storages, as slices of a data set do."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import nn, optim
from rushlight.capture.errors import CaptureError


def transposed_in_place(x):
    x.t_()
    return x * 2


def resized(x):
    return x.resize_(2, 2) + 1


def doubled_data(x):
    x.data = x.data * 2


PROGRAMS = {
    "sum": lambda x: x * 2 + x.sum(),
    "view that is returned": lambda x: x[1:],
    "write": lambda x: x.add_(1),
    "write to a part": lambda x: x[0].add_(1),
    "read of a part": lambda x: x[1:, 2:] * 3,
    "window": lambda x: x.unfold(0, 2, 1).sum(-1),
    "split": lambda x: x.split(1)[1] * 2,
    "diagonal that is written to": lambda x: x.fill_diagonal_(3),
    "strided": lambda x: x.as_strided((2, 2), (1, 1)) + 1,
    "complex numbers": lambda x: rl.view_as_complex(x.view(3, 2, 2)) * 2,
    "another dtype": lambda x: x.view(rl.int64) + 1,
    "batches": lambda x: rl.vmap(lambda row: row.view(2, 2).diagonal())(x),
    "branches": lambda x: rl.cond(x.sum() > 0, lambda x: x[1:] * 2, lambda x: x[1:] * 3, (x,)),
    "late": lambda x: x[x > 3],
    "transposed in place": transposed_in_place,
    "resized": resized,
    "other data": doubled_data,
    "offset": lambda x: x + x.storage_offset(),
    "offset as a size": lambda x: rl.ones(x.storage_offset() + 2),
}


def part(data, row, columns=slice(None)):
    return data[row : row + 3, columns]


@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("name", PROGRAMS)
def test_one_compilation_serves_all_offsets(name, dynamic):
    program = PROGRAMS[name]
    compiled = rl.compile(program, dynamic=dynamic)
    for row in (2, 0, 5, 7, 0):
        expected_memory, memory = rl.arange(64.0).view(16, 4), rl.arange(64.0).view(16, 4)
        expected, found = program(part(expected_memory, row)), compiled(part(memory, row))
        assert rl.equal(memory, expected_memory)
        if expected is not None:
            assert rl.equal(found, expected)
            assert (found.stride(), found.storage_offset()) == (expected.stride(), expected.storage_offset())
    assert len(compiled.reasons) == 1, compiled.reasons


def test_tensors_with_gaps_and_tensors_of_one_storage():
    data = rl.arange(64.0).view(16, 4)
    compiled = rl.compile(lambda x, y: x * 2 + y.sum())
    for row in (0, 4, 9):
        x, y = part(data, row, slice(1, 3)), part(data, row, slice(2, 3))[1:]
        assert rl.equal(compiled(x, y), x * 2 + y.sum())
    assert len(compiled.reasons) == 1, compiled.reasons
    compiled(part(data, 0, slice(1, 3)), data[0:2, 2:3])  # at another distance
    assert len(compiled.reasons) == 2


def test_an_offset_from_the_beginning_of_the_storage_is_one_whatever_the_argument_is():
    data = rl.arange(64.0)
    compiled = rl.compile(lambda x: x.as_strided((4,), (1,), 6) * 2)
    for first in (2, 6, 0, 4, 4, 6, 6):
        assert rl.equal(compiled(data[first : first + 10]), data[6:10] * 2)
    assert len(compiled.reasons) == 1
    for first in (40, 7, 8):
        assert rl.equal(compiled(data[first : first + 10]), data[6:10] * 2)


def test_memory_outside_of_an_argument_is_no_part_of_a_graph():
    compiled = rl.compile(lambda x: x.as_strided((10,), (1,)) * 2)
    assert rl.equal(compiled(rl.arange(10.0)[:5]), rl.arange(10.0) * 2)
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 20"):
        compiled(rl.arange(5.0))
    with pytest.raises(RuntimeError, match="out of bounds for storage of size 40"):
        compiled(rl.arange(10.0)[2:7])
    with pytest.raises(CaptureError, match="outside of the tensor"):
        rl.compile(lambda x: x.as_strided((10,), (1,)) * 2, fullgraph=True)(rl.arange(10.0)[:5])


def test_alignment_that_a_view_needs_is_a_guard():
    data = rl.arange(64.0)
    compiled = rl.compile(lambda x: x.view(rl.int64) + 1)
    for first in (2, 4, 20):
        assert rl.equal(compiled(data[first : first + 4]), data[first : first + 4].clone().view(rl.int64) + 1)
    assert len(compiled.reasons) == 1
    with pytest.raises(RuntimeError, match="storage_offset"):
        compiled(data[3:7])


def test_a_training_step_takes_slices_of_a_data_set_on_the_native_path():
    rl.manual_seed(0)
    data, labels = rl.randn(64, 8), rl.randint(3, (64,))
    model = nn.Linear(8, 3)
    optimizer = optim.SGD(model.parameters(), lr=0.1)

    @rl.compile(fullgraph=True)
    def step(x, target):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    for first in range(0, 64, 8):
        step(data[first : first + 8], labels[first : first + 8])
    assert len(step.reasons) == 1
    assert step._fast is not None
    native, _ = step._fast
    assert native(data[8:16], labels[8:16]) is not NotImplemented


def test_native_code_takes_slices_and_whole_tensors_and_sees_history_that_a_slice_gets():
    data = rl.randn(64, 8)
    compiled = rl.compile(lambda x: x * 2)
    for x in (data[8:16], data[8:16].clone(), data[:8], data.detach()[:8]):
        compiled(x)
        native, _ = compiled._fast
        assert rl.equal(native(x), x * 2)
    slice_ = data[:8]
    compiled(slice_)
    data.mul_(rl.ones(64, 8, requires_grad=True))
    assert slice_.requires_grad
    assert compiled._fast[0](slice_) is NotImplemented
    assert compiled(slice_).requires_grad
    leaf = rl.ones(8, 8, requires_grad=True)
    assert compiled(leaf).requires_grad
    assert compiled(leaf[:]).requires_grad
