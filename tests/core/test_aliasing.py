"""Views, version counters and storages: the same programs on PyTorch and on Rushlight."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

from rushlight.testing.side_by_side import assert_same

from .sides import ramp

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


# --- writes through views reach the base, and count once --------------------------------------------

VIEWS = {
    "select": lambda x: x.select(0, 1),
    "slice": lambda x: x[:, 1:3],
    "step": lambda x: x[:, ::2],
    "transpose": lambda x: x.transpose(0, 1),
    "t": lambda x: x.t(),
    "permute": lambda x: x.permute(1, 0),
    "view": lambda x: x.view(2, 2, -1),
    "reshape": lambda x: x.reshape(-1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x[:1].squeeze(),
    "diagonal": lambda x: x.diagonal(),
    "unbind": lambda x: x.unbind(1)[2],
    "split": lambda x: x.split(3)[1],
    "chunk": lambda x: x.chunk(2, 1)[0],
    "narrow": lambda x: x.narrow(1, 1, 2),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 3), 2),
    "detach": lambda x: x.detach(),
    "flatten": lambda x: x.flatten(),
    "movedim": lambda x: x.movedim(0, 1),
    "view_as": lambda x: x.view_as(x),
    "alias of alias": lambda x: x[1:][:, 1:].t()[0],
    "T": lambda x: x.T,
    "unfold without overlap": lambda x: x.unfold(1, 2, 2),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "real": lambda x: x.real,
    "expand of nothing": lambda x: x.expand(4, 6),
    "view dtype": lambda x: x.view(x.dtype),
    "tensor_split": lambda x: x.tensor_split(3, 1)[1],
    "ellipsis": lambda x: x[...],
    "new axis": lambda x: x[None],
    "empty": lambda x: x[4:],
}
WRITES = {
    "add": lambda v: v.add_(1),
    "mul by itself": lambda v: v.mul_(v),
    "operator": lambda v: v.__iadd__(2),
    "copy": lambda v: v.copy_(v.clone() * 2),
    "fill": lambda v: v.fill_(7),
    "zero": lambda v: v.zero_(),
    "setitem": lambda v: v.__setitem__(..., 5),
    "masked": lambda v: v.masked_fill_(v > 3, 0),
    "cast": lambda v: v.copy_(v.long() + 1),
}


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("view", VIEWS)
def test_writes_through_views_reach_the_base(view, write):
    def run(T):
        base = ramp(T, 4, 6)
        sibling = base[1]
        shown = VIEWS[view](base)
        WRITES[write](shown)
        return base, shown, sibling

    assert_same(run)


@pytest.mark.parametrize("view", VIEWS)
def test_writes_to_the_base_are_seen_in_views(view):
    def run(T):
        base = ramp(T, 4, 6)
        shown = VIEWS[view](base)
        base.mul_(-1)
        base[1] = 50
        return base, shown

    assert_same(run)


@pytest.mark.parametrize("view", VIEWS)
def test_base_of_a_view(view):
    def run(T):
        base = ramp(T, 4, 6)
        shown = VIEWS[view](base)
        again = shown.view_as(shown)
        return (
            shown._base is base,
            shown._base is None,
            again._base is base,
            shown.is_contiguous(),
            shown is base,
        )

    assert_same(run)


# --- what is not a view ------------------------------------------------------------------------------

COPIES = {
    "clone": lambda x: x.clone(),
    "reshape that copies": lambda x: x.t().reshape(-1),
    "contiguous": lambda x: x.t().contiguous(),
    "flatten that copies": lambda x: x.t().flatten(),
    "ravel that copies": lambda x: x.t().ravel(),
    "advanced index": lambda x: x[[0, 1]],
    "mask": lambda x: x[x > 3],
    "arithmetic": lambda x: x + 0,
    "repeat": lambda x: x.repeat(1, 1),
    "flip": lambda x: x.flip(0),
    "cast": lambda x: x.double(),
}


@pytest.mark.parametrize("name", COPIES)
def test_copies_are_apart(name):
    def run(T):
        base = ramp(T, 4, 6)
        copy = COPIES[name](base)
        copy.add_(1)
        base.mul_(2)
        return base, copy, copy._base is None

    assert_same(run)


# --- version counters --------------------------------------------------------------------------------


@program
def versions_are_shared_by_views(T):
    x = ramp(T, 3, 4)
    a, b = x[0], x.t()[1:]
    a.add_(1)
    b.add_(1)
    x.add_(1)
    return x._version, a._version, b._version, b[0]._version


@program
def detach_shares_the_version_and_the_memory(T):
    x = ramp(T, 4)
    d = x.detach()
    d.add_(1)
    e = d.detach()[1:]
    e.zero_()
    return x, d, e, d._base is None, e._base is d


@program
def data_has_its_own_version(T):
    x = ramp(T, 4)
    d = x.data
    d.add_(1)
    x.mul_(2)
    return x, d


@program
def setting_data_keeps_the_version(T):
    x = ramp(T, 4)
    x.add_(1)
    x.data = ramp(T, 2, 2)
    return x


@program
def untracked_views_have_their_own_version(T):
    x = ramp(T, 4)
    pieces = T.unsafe_split(x, 2)
    x.add_(1)
    pieces[0].mul_(2)
    return x, pieces, pieces[0]._base is None


@program
def out_counts_as_a_write(T):
    out = T.zeros(3)
    T.add(ramp(T, 3), 1, out=out)
    T.add(ramp(T, 3), 1, out=out[:])
    return out


@program
def a_failed_write_is_not_counted(T):
    x = ramp(T, 3)
    for wrong in (lambda: x.add_(ramp(T, 4)), lambda: x.__setitem__(5, 1.0), lambda: x.copy_(ramp(T, 2))):
        with contextlib.suppress(RuntimeError, IndexError):
            wrong()
    return x


@program
def operators_without_inplace_form_make_new_tensors(T):
    x = y = ramp(T, 2, 2)
    y = y @ y
    return x, y


@program
def augmented_assignment_to_an_index(T):
    x = ramp(T, 3, 4)
    x[1] += 10
    x[:, 0] *= 2
    x[[0, 2]] -= 1
    return x


# --- storages ----------------------------------------------------------------------------------------


@program
def offsets_of_views_of_views(T):
    x = ramp(T, 4, 6)
    v = x[1:, 2:][1:, ::2].t()
    return (
        v,
        v.as_strided((2,), (1,)),
        v.as_strided((2,), (1,), 0),
        v.contiguous(),
        v[1].untyped_storage().nbytes(),
    )


@program
def storage_of_a_numpy_view(T):
    array = np.arange(24.0).reshape(4, 6)
    x = T.from_numpy(array[1:3, 2:5])
    x.add_(100)
    return x, x.untyped_storage().nbytes(), array.sum()


@program
def numpy_shares_memory(T):
    x = ramp(T, 3)
    array = x.numpy()
    array[0] = 5
    x[1] = 7
    return x, array.tolist(), x[1:].numpy().tolist()


@program
def aliases_of_a_storage_that_grows(T):
    x = ramp(T, 2, 2).clone()  # NumPy memory cannot grow
    row, turned, apart, bits = x[1], x.t(), x.detach(), x.view(T.int32)
    x.resize_(3, 3).fill_(5)
    row.mul_(2)
    grown = x.reshape(-1)[:4].clone()
    return (
        row,
        turned,
        apart,
        bits,
        grown,
        turned.stride(),
        {tensor.untyped_storage().nbytes() for tensor in (x, row, turned, apart)},
        {tensor.data_ptr() - x.data_ptr() for tensor in (row, turned, apart, bits)},
    )


@program
def a_view_that_grows(T):
    x = ramp(T, 4).clone()  # NumPy memory cannot grow
    row = x[2:]
    row.resize_(4)[:2].add_(10)
    return x, row[:2], x.untyped_storage().nbytes()


@program
def as_strided_beyond_the_storage(T):
    return ramp(T, 3).as_strided((4,), (1,))


@program
def as_strided_negative(T):
    return ramp(T, 3).as_strided((2,), (-1,), 2)


@program
def view_across_a_gap(T):
    return ramp(T, 3, 4).t().view(12)


@program
def deep_copies_keep_sharing(T):
    import copy

    x = ramp(T, 4)
    pair = copy.deepcopy([x, x[1:]])
    pair[0].add_(1)
    return x, pair[0].clone(), pair[1].clone()


@pytest.mark.parametrize("run", PROGRAMS, ids=lambda function: function.__name__)
def test_program(run):
    assert_same(run)


# --- indices on the meta device ----------------------------------------------------------------------

META_INDICES = [
    "x[1]",
    "x[:, None]",
    "x[..., 0]",
    "x[[0, 1]]",
    "x[T.tensor([1, 0], device='meta')]",
    "x[True]",
    "x[T.tensor(1, device='meta')]",
    "x[:, T.tensor([1, 0])]",
    "x[T.tensor([True, False, True])]",
    "x[0, [0, 2], None]",
    "x[T.tensor([[0, 1]]), T.tensor([[2], [1]])]",
    "x[False]",
    "x[7]",
]


@pytest.mark.parametrize("expression", META_INDICES)
def test_meta_indices(expression):
    def run(T):
        result = eval(expression, {"T": T, "x": T.empty(3, 4, 5, device="meta")})
        return tuple(result.shape), result.stride(), result.device.type

    assert_same(run)


def test_assignment_on_the_meta_device():
    import rushlight

    x = rushlight.empty(3, 4, device="meta")
    for index in (0, (slice(None), 1), [0, 2], x > 0, (rushlight.tensor([1], device="meta"), 2)):
        x[index] = 1.0
    assert x._version == 5
