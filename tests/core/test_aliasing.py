"""Views, in-place writes, overlap and version counters: the same programs on PyTorch and on Rushlight.

Left out are the programs whose outcome PyTorch leaves open: in-place arithmetic on tensors whose elements
overlap without being expanded (`unfold`), and copies between views that overlap in ways too costly to detect.
There Rushlight computes the whole result before it writes any of it.
"""

from __future__ import annotations

import contextlib
import warnings

import numpy as np
import pytest

from rushlight.testing.side_by_side import assert_same

PROGRAMS = []


def program(function):
    PROGRAMS.append(function)
    return function


def ramp(T, *shape, dtype="float32"):
    return T.from_numpy(np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype).copy())


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
        return (shown._base is base, shown._base is None, again._base is base, shown.is_contiguous(),
                shown is base)
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
    import rushlight

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


# --- storages ----------------------------------------------------------------------------------------

@program
def offsets_of_views_of_views(T):
    x = ramp(T, 4, 6)
    v = x[1:, 2:][1:, ::2].t()
    return (v, v.as_strided((2,), (1,)), v.as_strided((2,), (1,), 0), v.contiguous(),
            v[1].untyped_storage().nbytes())


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
    "x[1]", "x[:, None]", "x[..., 0]", "x[[0, 1]]", "x[T.tensor([1, 0], device='meta')]", "x[True]",
    "x[T.tensor(1, device='meta')]", "x[:, T.tensor([1, 0])]", "x[T.tensor([True, False, True])]",
    "x[0, [0, 2], None]", "x[T.tensor([[0, 1]]), T.tensor([[2], [1]])]", "x[False]", "x[7]",
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
