"""In-place writes: the same programs on PyTorch and on Rushlight.

Left out are the programs whose outcome PyTorch leaves open: in-place arithmetic on tensors whose elements
overlap without being expanded (`unfold`), and copies between views that overlap in ways too costly to detect.
There Rushlight computes the whole result before it writes any of it.
"""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pytest

import rushlight
from rushlight.testing.side_by_side import assert_same

from .sides import ramp

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


# --- expanded tensors --------------------------------------------------------------------------------

EXPANDED_WRITES = {
    "add": lambda T, e: e.add_(1),
    "mul": lambda T, e: e.mul_(e),
    "copy": lambda T, e: e.copy_(T.ones(3, 4)),
    "exp": lambda T, e: e.exp_(),
    "clamp": lambda T, e: e.clamp_(0, 1),
    "setitem": lambda T, e: e.__setitem__(slice(None), 1.0),
    "setitem of one": lambda T, e: e.__setitem__((0, 0), 5.0),
    "setitem of a row": lambda T, e: e.__setitem__(0, 5.0),
    "out": lambda T, e: T.add(T.ones(3, 4), 1, out=e),
    "fill": lambda T, e: e.fill_(3),
    "zero": lambda T, e: e.zero_(),
    "masked_fill": lambda T, e: e.masked_fill_(T.eye(3, 4).bool(), 9),
    "index_fill": lambda T, e: e.index_fill_(0, T.tensor([1]), 9.0),
    "index_put": lambda T, e: e.index_put_((T.tensor([1]), T.tensor([2])), T.tensor(9.0)),
    "advanced setitem": lambda T, e: e.__setitem__((T.tensor([0, 1]), T.tensor([2, 3])), 9.0),
    "index_add": lambda T, e: e.index_add_(0, T.tensor([1]), T.ones(1, 4)),
    "index_copy": lambda T, e: e.index_copy_(0, T.tensor([1]), T.ones(1, 4)),
    "scatter": lambda T, e: e.scatter_(0, T.zeros(3, 4).long(), 1.0),
    "tril": lambda T, e: e.tril_(),
    "squeeze": lambda T, e: e.squeeze_(),
    "t": lambda T, e: e.t_(),
    "unsqueeze": lambda T, e: e.unsqueeze_(0),
}
EXPANSIONS = {
    "row": lambda T: (ramp(T, 1, 4), (3, 4)),
    "column": lambda T: (ramp(T, 3, 1), (3, 4)),
    "scalar": lambda T: (ramp(T, 1), (3, 4)),
}


@pytest.mark.parametrize("expansion", EXPANSIONS)
@pytest.mark.parametrize("write", EXPANDED_WRITES)
def test_writes_to_expanded_tensors(write, expansion):
    def run(T):
        base, shape = EXPANSIONS[expansion](T)
        expanded = base.expand(shape)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            EXPANDED_WRITES[write](T, expanded)
        return base, expanded

    assert_same(run)


DEPRECATED_EXPANDED_WRITES = ("masked_fill", "index_fill", "index_put", "advanced setitem")


@pytest.mark.parametrize("write", DEPRECATED_EXPANDED_WRITES)
def test_deprecated_writes_to_expanded_tensors_warn(write):
    expanded = rushlight.ones(1, 4).expand(3, 4)
    with pytest.warns(UserWarning, match="on expanded tensors is deprecated"):
        EXPANDED_WRITES[write](rushlight, expanded)


@program
def expanding_size_one_dimensions_is_no_overlap(T):
    x = ramp(T, 3, 1).expand(3, 1)
    return x.add_(1)


@program
def empty_expanded_tensors_can_be_written(T):
    x = T.zeros(1).expand(0, 3)
    return x.add_(1)


@program
def writes_to_the_base_of_an_expanded_tensor(T):
    x = ramp(T, 3, 1)
    e = x.expand(3, 4)
    x.add_(e[:, :1].clone())
    return x, e


# --- overlap between what is read and what is written ------------------------------------------------

OVERLAPS = {
    "same tensor": lambda T, x: x.add_(x),
    "same elements": lambda T, x: x.add_(x.view(3, 4)),
    "shifted rows": lambda T, x: x[1:].add_(x[:-1]),
    "disjoint rows": lambda T, x: x[:1].add_(x[1:2]),
    "row of itself": lambda T, x: x.add_(x[0]),
    "transpose of itself": lambda T, x: x[:3, :3].contiguous().add_(x[:3, :3].t()),
    "square and its transpose": lambda T, x: x.view(12)[:9].view(3, 3).add_(x.view(12)[:9].view(3, 3).t()),
    "shifted copy": lambda T, x: x.view(12)[1:].copy_(x.view(12)[:-1]),
    "shifted setitem": lambda T, x: x.view(12).__setitem__(slice(1, None), x.view(12)[:-1]),
    "copy of itself": lambda T, x: x.copy_(x),
    "copy of the same elements": lambda T, x: x.copy_(x.view(3, 4)),
    "row setitem": lambda T, x: x.__setitem__(0, x[1]),
    "advanced setitem from itself": lambda T, x: x.__setitem__(T.tensor([0]), x[1]),
    "advanced setitem from a copy": lambda T, x: x.__setitem__(T.tensor([0]), x[1].clone()),
    "out is an input": lambda T, x: T.add(x, 1, out=x),
    "out is a shifted input": lambda T, x: T.add(x[:-1], 1, out=x[1:]),
    "out is one of several": lambda T, x: T.mul(x, x[:1], out=x),
    "cat into an input": lambda T, x: T.cat([x[:1], x[1:]], out=x),
    "cat into another": lambda T, x: T.cat([x[:1], x[1:]], out=T.empty(3, 4)),
    "other dtype": lambda T, x: x.add_(x.view(T.int32)),
    "scalar of itself": lambda T, x: x.mul_(x[0, 1]),
    "sum of itself": lambda T, x: x.sub_(x.sum()),
}


INDEXED_WRITES = {
    "put_": lambda x, i, v: x.put_(i, v),
    "index_put_": lambda x, i, v: x.index_put_((i,), v),
    "index_put_ added": lambda x, i, v: x.index_put_((i,), v, accumulate=True),
    "setitem": lambda x, i, v: x.__setitem__(i, v),
    "index_copy_": lambda x, i, v: x.index_copy_(0, i, v),
    "index_add_": lambda x, i, v: x.index_add_(0, i, v),
    "index_reduce_": lambda x, i, v: x.index_reduce_(0, i, v, "prod"),
    "scatter_": lambda x, i, v: x.scatter_(0, i, v),
    "scatter_add_": lambda x, i, v: x.scatter_add_(0, i, v),
    "scatter_reduce_": lambda x, i, v: x.scatter_reduce_(0, i, v, "prod"),
    "index_fill_": lambda x, i, v: x.index_fill_(0, i, 3),
    "index_fill_ of a tensor": lambda x, i, v: x.index_fill_(0, i, v[0]),
    "masked_fill_": lambda x, i, v: x.masked_fill_(i > 0, v[0]),
    "masked_scatter_": lambda x, i, v: x.masked_scatter_(i > 0, v),
}
# What is written, the index and the values, of one tensor of indices.
SHARED = {
    "nothing": lambda x: (x, x.clone(), x.clone()),
    "the index": lambda x: (x, x, x.clone()),
    "the values": lambda x: (x, x.clone(), x),
    "both": lambda x: (x, x, x),
    "values of the same elements": lambda x: (x, x.clone(), x.view(3)),
}


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("shared", SHARED)
@pytest.mark.parametrize("name", INDEXED_WRITES)
def test_overlap_of_indices_and_what_is_written(name, shared):
    def run(T):
        x, index, values = SHARED[shared](T.tensor([2, 1, 0]))
        INDEXED_WRITES[name](x, index, values)
        return x

    assert_same(run)


@program
def a_mask_is_read_before_the_write(T):
    mask = T.tensor([True, False, True])
    return mask.index_put_((mask,), T.tensor(False))


@pytest.mark.parametrize("name", OVERLAPS)
def test_overlap_of_input_and_output(name):
    def run(T):
        x = ramp(T, 3, 4)
        OVERLAPS[name](T, x)
        return x

    assert_same(run)


# --- in-place forms that change the geometry ---------------------------------------------------------

GEOMETRY = {
    "squeeze": lambda x: x.squeeze_(),
    "squeeze dim": lambda x: x.squeeze_(0),
    "squeeze dims": lambda x: x.squeeze_((0, 2)),
    "squeeze out of range": lambda x: x.squeeze_(5),
    "unsqueeze": lambda x: x.unsqueeze_(-1),
    "transpose": lambda x: x.transpose_(0, 1),
    "swapaxes": lambda x: x.swapaxes_(0, 2),
    "swapdims": lambda x: x.swapdims_(1, 2),
    "t of three dimensions": lambda x: x.t_(),
    "as_strided": lambda x: x.as_strided_((2, 2), (1, 3), 1),
    "as_strided out of range": lambda x: x.as_strided_((20,), (1,)),
    "resize smaller": lambda x: x.resize_(2, 3),
    "resize as": lambda x: x.resize_as_(x[0, 0]),
    "set": lambda x: x.set_(x.view(12)[2:5]),
}


@pytest.mark.parametrize("name", GEOMETRY)
def test_geometry_in_place(name):
    def run(T):
        x = ramp(T, 1, 3, 4)
        before = x[0]
        result = GEOMETRY[name](x)
        x.add_(1)
        return x, before, result is x

    assert_same(run)


@program
def geometry_of_a_view_in_place(T):
    x = ramp(T, 3, 4)
    row = x[1]
    row.unsqueeze_(0).t_()
    row.mul_(10)
    return x, row


@program
def geometry_of_an_expanded_tensor_in_place(T):
    x = ramp(T, 4).expand(3, 4)
    return x.t_(), x.unsqueeze_(1)


# --- result dtype and shape of in-place forms --------------------------------------------------------

REFUSED = {
    "float into int": lambda T: ramp(T, 3, dtype="int64").add_(1.5),
    "float tensor into int": lambda T: ramp(T, 3, dtype="int64").mul_(T.ones(3)),
    "division of ints": lambda T: ramp(T, 3, dtype="int64").div_(2),
    "complex into float": lambda T: ramp(T, 3).mul_(1j),
    "int into bool": lambda T: T.tensor([True]).add_(1),
    "broadcast of the target": lambda T: ramp(T, 3, 1).add_(ramp(T, 3, 4)),
    "more dimensions": lambda T: ramp(T, 3).add_(ramp(T, 2, 3)),
    "mismatch": lambda T: ramp(T, 3).add_(ramp(T, 4)),
    "copy mismatch": lambda T: ramp(T, 3).copy_(ramp(T, 4)),
    "out of the wrong dtype": lambda T: T.add(T.ones(3), 1, out=T.zeros(3, dtype=T.int64)),
    "out of a wider dtype": lambda T: T.add(T.ones(3), 1, out=T.zeros(3, dtype=T.float64)),
    "double into float": lambda T: ramp(T, 3).add_(T.ones(3, dtype=T.float64)),
    "zero-dim double into float": lambda T: ramp(T, 3).add_(T.tensor(1.5, dtype=T.float64)),
    "bool target of a comparison": lambda T: ramp(T, 3).eq_(1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_result_must_fit_the_target(name):
    assert_same(REFUSED[name])


# --- leaves that require grad ------------------------------------------------------------------------


def _leaf(T):
    return ramp(T, 3, 4).requires_grad_()


LEAVES = {
    "in place": lambda T, x: x.add_(1),
    "through a view": lambda T, x: x[0].add_(1),
    "setitem": lambda T, x: x.__setitem__(0, 1.0),
    "advanced setitem": lambda T, x: x.__setitem__([0], 1.0),
    "geometry": lambda T, x: x.t_(),
    "copy": lambda T, x: x.copy_(x.detach()),
    "fill": lambda T, x: x.fill_(1),
    "out": lambda T, x: T.add(T.ones(3, 4), 1, out=x),
    "detached": lambda T, x: x.detach().add_(1),
    "data": lambda T, x: x.data.add_(1),
    "resize": lambda T, x: x.resize_(2),
    "detach_ of a view": lambda T, x: x[0].detach_(),
    "detach_": lambda T, x: x.detach_().add_(1),
    "numpy": lambda T, x: x.numpy(),
}


@pytest.mark.parametrize("name", LEAVES)
def test_writes_to_leaves(name):
    def run(T):
        x = _leaf(T)
        LEAVES[name](T, x)
        return x, x.requires_grad

    assert_same(run)


@pytest.mark.parametrize("name", LEAVES)
def test_writes_to_leaves_without_grad_mode(name):
    def run(T):
        x = _leaf(T)
        with T.no_grad():
            LEAVES[name](T, x)
        return x, x.requires_grad

    assert_same(run)


# --- lazy conjugation and negation -------------------------------------------------------------------


def complex_ramp(T):
    return T.tensor([[1 + 2j, 3 - 1j], [0.5j, -2.0]])


LAZY = {
    "conj is a view": lambda T, x: (x.conj(), x.conj()._base is x, x.conj().conj()),
    "conj of a real tensor is the tensor": lambda T, x: (x.real.contiguous().conj().is_conj(),),
    "write through conj": lambda T, x: (x.conj().fill_(1 + 1j), x),
    "write to the base": lambda T, x: (x.conj(), x.mul_(2)),
    "imag of conj": lambda T, x: (x.conj().imag, x.conj().imag.add_(1), x),
    "real of conj": lambda T, x: (x.conj().real.zero_(), x),
    "write to imag": lambda T, x: (x.imag.mul_(3), x),
    "view of conj": lambda T, x: (x.conj()[0], x.conj().t(), x.mH, x.adjoint()),
    "arithmetic on conj": lambda T, x: (x.conj() * x, x.conj() + x, x.conj().sum()),
    "copy from conj": lambda T, x: (T.zeros_like(x).copy_(x.conj()),),
    "copy into conj": lambda T, x: (x.conj().copy_(x.clone()), x),
    "clone of conj": lambda T, x: (x.conj().clone(), x.conj().contiguous(), x.conj().resolve_conj()),
    "resolve_conj of plain": lambda T, x: (x.resolve_conj() is x, x.conj().resolve_conj().is_conj()),
    "resolve_neg": lambda T, x: (x.conj().imag.resolve_neg(), x.real.resolve_neg() is None),
    "neg_view": lambda T, x: (x.real._neg_view(), x.real._neg_view().add_(1), x),
    "view_as_real of conj": lambda T, x: T.view_as_real(x.conj()),
    "view dtype of conj": lambda T, x: x.conj().view(T.float32),
    "setitem of conj": lambda T, x: (x.conj().__setitem__(0, 1j), x),
    "numpy of conj": lambda T, x: x.conj().numpy(),
    "item of conj": lambda T, x: (x.conj()[0, 0].item(), x.conj().tolist()),
    "view_as_real": lambda T, x: (T.view_as_real(x).zero_(), x),
    "view_as_complex": lambda T, x: (T.view_as_complex(T.view_as_real(x)).mul_(1j), x),
    "index of conj": lambda T, x: (x.conj()[[1, 0]], x.conj()[x.real > 0]),
    "cat of conj": lambda T, x: (T.cat([x.conj(), x]),),
    "conj_physical": lambda T, x: (x.conj_physical(), x.conj().conj_physical()),
    "as_strided of conj": lambda T, x: (x.conj().as_strided((2,), (1,)),),
}


@pytest.mark.parametrize("name", LAZY)
def test_lazy_bits(name):
    assert_same(lambda T: LAZY[name](T, complex_ramp(T)))


# --- computed straight into memory -------------------------------------------------------------------

DIRECT = {
    "tensor": lambda T, x: x.add_(T.ones(2, 3)),
    "number": lambda T, x: x.mul_(2.5),
    "itself": lambda T, x: x.mul_(x),
    "unary": lambda T, x: x.neg_(),
    "row": lambda T, x: x.sub_(T.ones(3)),
    "0-d": lambda T, x: x.add_(T.tensor(2.0)),
    "double 0-d": lambda T, x: x.add_(T.tensor(2.0, dtype=T.float64)),
    "double": lambda T, x: x.add_(T.ones(3, dtype=T.float64)),
    "integers": lambda T, x: x.add_(T.arange(3)),
    "integer target": lambda T, x: x.long().add_(T.arange(3)),
    "bool target": lambda T, x: x.bool().add_(T.tensor([True, False, True])),
    "half target": lambda T, x: x.bfloat16().add_(0.1),
    "alpha": lambda T, x: x.add_(T.ones(2, 3), alpha=2),
    "comparison": lambda T, x: x.gt_(2),
    "transposed": lambda T, x: x.t().contiguous().t().add_(1),
    "empty": lambda T, x: x[:0].clone().add_(T.ones(3)),
    "larger operand": lambda T, x: x.add_(T.ones(4, 2, 3)),
    "operand that does not fit": lambda T, x: x.add_(T.ones(2)),
    "fraction to integers": lambda T, x: x.long().add_(0.5),
    "division of integers": lambda T, x: x.long().div_(2),
    "division by zero": lambda T, x: x.div_(0),
    "memory of NumPy": lambda T, x: T.from_numpy(x.numpy()).add_(T.from_numpy(x.numpy())),
}


@pytest.mark.parametrize("name", DIRECT)
def test_writes_straight_into_memory(name):
    def run(T):
        x = ramp(T, 2, 3)
        kept = x.detach()
        with contextlib.suppress(RuntimeError):
            DIRECT[name](T, x)
        return x, kept, x._version

    assert_same(run)
    assert_same(lambda T: DIRECT[name](T, ramp(T, 2, 3)))


def test_overlap_that_nobody_knows_of():
    """Two arrays of NumPy's: what is read is what was there before."""
    array = np.arange(6, dtype=np.float32)
    rushlight.from_numpy(array[1:]).add_(rushlight.from_numpy(array[:-1]))
    assert array.tolist() == [0, 1, 3, 5, 7, 9]


def test_memory_is_kept():
    x = rushlight.ones(1000)
    address = x.data_ptr()
    assert x.add_(1) is x
    assert x.data_ptr() == address
    assert x.tolist() == [2.0] * 1000


def test_memory_that_cannot_be_written():
    array = np.ones(3, np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = rushlight.from_numpy(array)
    array.flags.writeable = False
    x._array.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        x.add_(1)
    assert array.tolist() == [1, 1, 1]


@pytest.mark.parametrize("run", PROGRAMS, ids=lambda function: function.__name__)
def test_program(run):
    assert_same(run)
