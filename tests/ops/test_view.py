"""View operators: geometry, error types, lazy bits and the twins that copy, against PyTorch."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import rushlight
from rushlight.core.registry import REGISTRY, Kind
from rushlight.testing.side_by_side import assert_same


@pytest.fixture(autouse=True)
def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's x.T warns for anything but matrices
        yield


def ramp(T, *shape, dtype="float32"):
    return T.from_numpy(np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype).copy())


# Each is evaluated with `x` of every shape below; what PyTorch refuses must be refused with the same type.
EXPRESSIONS = [
    "x.view(-1)",
    "x.view(x.numel())",
    "x.view(2, -1)",
    "x.view(-1, -1)",
    "x.view(0)",
    "x.view(-2)",
    "x.view(())",
    "x.view(x.shape)",
    "x.reshape(-1)",
    "x.reshape(3, -1)",
    "x.reshape(5)",
    "x.reshape(x.shape)",
    "x.reshape_as(x)",
    "x.view_as(x)",
    "x.transpose(0, 1)",
    "x.transpose(0, -1)",
    "x.transpose(0, 0)",
    "x.transpose(0, 4)",
    "x.swapaxes(0, -1)",
    "x.swapdims(-2, -1)",
    "x.t()",
    "x.permute(1, 0)",
    "x.permute((0, 1, 2))",
    "x.permute(2, 0, 1)",
    "x.permute(0, 0, 1)",
    "x.permute(-1, 0, 1)",
    "x.permute(())",
    "T.permute(x, (0, 2, 1))",
    "x.movedim(0, -1)",
    "x.movedim((0, 1), (1, 0))",
    "x.movedim(0, 5)",
    "x.movedim((0, 0), (1, 2))",
    "x.movedim((0,), (1, 2))",
    "x.moveaxis(-1, 0)",
    "x.squeeze()",
    "x.squeeze(0)",
    "x.squeeze(-1)",
    "x.squeeze(7)",
    "x.squeeze((0, 1))",
    "x.squeeze((0, 0))",
    "x.squeeze(())",
    "x.unsqueeze(0)",
    "x.unsqueeze(-1)",
    "x.unsqueeze(5)",
    "x.unsqueeze(-6)",
    "x.expand(2, 3, 4)",
    "x.expand(5, 2, 3, 4)",
    "x.expand(-1, 3, 4)",
    "x.expand(-1)",
    "x.expand(3)",
    "x.expand(2, 0, 4)",
    "x.expand(-1, 2, 3, 4)",
    "x.expand(2, 3, -2)",
    "x.expand_as(x)",
    "x.expand(())",
    "x.expand(1, 1)",
    "x.broadcast_to((2, 3, 4))",
    "x.select(0, 0)",
    "x.select(0, -1)",
    "x.select(1, 5)",
    "x.select(4, 0)",
    "x.select(-1, 0)",
    "x.narrow(0, 0, 1)",
    "x.narrow(0, -1, 1)",
    "x.narrow(0, 1, 5)",
    "x.narrow(0, 0, -1)",
    "x.narrow(5, 0, 1)",
    "x.narrow(0, 9, 0)",
    "x.narrow(0, T.tensor(0), 1)",
    "x.narrow(0, T.tensor([0]), 1)",
    "x.narrow(0, T.tensor(0.), 1)",
    "x.diagonal()",
    "x.diagonal(1)",
    "x.diagonal(-1, 0, -1)",
    "x.diagonal(9)",
    "x.diagonal(-9)",
    "x.diagonal(0, 0, 0)",
    "x.diagonal(0, 3, 0)",
    "x.split(1)",
    "x.split(2, 1)",
    "x.split(0)",
    "x.split(-1)",
    "x.split([1, 1])",
    "x.split([1, 2], 1)",
    "x.split([1, -1, 2])",
    "x.split(1, 5)",
    "T.split(x, 2)",
    "T.split(x, split_size_or_sections=[1, 1])",
    "x.split_with_sizes([1, 1])",
    "x.chunk(2)",
    "x.chunk(5, -1)",
    "x.chunk(0)",
    "x.chunk(2, 9)",
    "x.unsafe_chunk(2)",
    "x.unsafe_split(1)",
    "x.tensor_split(3)",
    "x.tensor_split(0)",
    "x.tensor_split((1, 2), 1)",
    "x.tensor_split((-1,))",
    "x.tensor_split((2, 1))",
    "x.tensor_split(T.tensor(2))",
    "x.tensor_split(T.tensor([1, 2]), -1)",
    "x.tensor_split(T.tensor([1.]))",
    "x.tensor_split(T.tensor([[1]]))",
    "x.hsplit(1)",
    "x.hsplit(2)",
    "x.hsplit((1,))",
    "x.vsplit(1)",
    "x.vsplit(0)",
    "x.vsplit((1, 2))",
    "x.dsplit(2)",
    "x.dsplit((1, 3))",
    "x.unbind()",
    "x.unbind(-1)",
    "x.unbind(3)",
    "x.unfold(0, 1, 1)",
    "x.unfold(-1, 2, 1)",
    "x.unfold(0, 0, 1)",
    "x.unfold(0, 9, 1)",
    "x.unfold(0, 1, 0)",
    "x.unfold(0, -1, 1)",
    "x.unfold(4, 1, 1)",
    "x.unflatten(0, (1, -1))",
    "x.unflatten(-1, (2, 2))",
    "x.unflatten(0, (-1, -1))",
    "x.unflatten(0, ())",
    "x.unflatten(3, (1,))",
    "x.unflatten(0, (7,))",
    "x.flatten()",
    "x.flatten(1)",
    "x.flatten(0, 1)",
    "x.flatten(1, 0)",
    "x.flatten(4)",
    "x.flatten(-1)",
    "x.ravel()",
    "x.T",
    "x.mT",
    "x.H",
    "x.mH",
    "x.adjoint()",
    "T.atleast_1d(x)",
    "T.atleast_2d(x)",
    "T.atleast_3d(x)",
    "T.atleast_2d(x, x)",
    "T.atleast_3d([x, x])",
    "x.real",
    "x.imag",
    "x.conj()",
    "x.resolve_conj()",
    "x._neg_view()",
    "x._neg_view().sum()",
    "x.detach()",
    "T.view_as_real(x)",
    "T.view_as_complex(x)",
    "x.view(T.int32)",
    "x.view(T.float64)",
    "x.view(T.int16)",
    "x.view(T.uint8)",
    "x.as_strided((2,), (2,))",
    "x.as_strided((2,), (2,), 1)",
    "x.as_strided((2, 1), (2,))",
    "x.as_strided((-1,), (1,))",
    "x.as_strided((0, 5), (1, 1))",
    "x.as_strided((99,), (1,))",
    "x.as_strided((99,), (0,))",
    "x.as_strided((1,), (1,), -1)",
    "x.contiguous()",
    "T.broadcast_tensors(x, T.ones(4))",
    "T.linalg.diagonal(x)",
    "T.select_copy(x, 0, 0)",
    "T.view_copy(x.unsqueeze(0), (-1,))",
    "T.t_copy(x)",
    "T.split_copy(x, 1)",
    "T.unbind_copy(x)",
    "T.narrow_copy(x, 0, 0, 1)",
    "T.narrow_copy(x, 9, 0, 1)",
    "T.select_scatter(x, x.select(0, 0) * 0 - 1, 0, 0)",
    "T.select_scatter(x, T.zeros(5), 0, 0)",
    "T.slice_scatter(x, x.narrow(0, 0, 1) * 0 - 1, 0, 0, 1)",
    "T.diagonal_scatter(x, x.diagonal() * 0 - 1)",
    "T.as_strided_scatter(x, T.ones(2), (2,), (1,))",
    "T.as_strided_scatter(x, T.ones(2), (2,), (1,), 1)",
]
BASES = {
    "0-d": lambda T: T.tensor(3.0),
    "vector": lambda T: ramp(T, 4),
    "matrix": lambda T: ramp(T, 2, 3),
    "cube": lambda T: ramp(T, 2, 3, 4),
    "permuted": lambda T: ramp(T, 4, 2, 3).permute(1, 2, 0),
    "part": lambda T: ramp(T, 4, 5, 6)[1:3, ::2, 1:5],
    "ones": lambda T: ramp(T, 1, 3, 1),
    "empty": lambda T: T.zeros(2, 0, 4),
    "expanded": lambda T: ramp(T, 3, 1).expand(2, 3, 4),
    "pairs": lambda T: ramp(T, 3, 2),
}


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_same_as_torch(expression, base):
    if "linalg" in expression and not hasattr(rushlight, "linalg"):
        pytest.skip("there is no rushlight.linalg yet")
    assert_same(lambda T: eval(expression, {"T": T, "x": BASES[base](T)}), fresh="_scatter" in expression)


COMPLEX = [
    "x.real",
    "x.imag",
    "x.conj()",
    "x.conj().imag",
    "x.conj().real",
    "x.mH",
    "x.H",
    "x.adjoint()",
    "x.T",
    "T.view_as_real(x)",
    "x.view(T.float32)",
    "x.view(T.int64)",
    "x.conj().view(2, 2)",
    "x.conj()[0]",
    "x.conj().resolve_conj()",
    "T.view_as_real(x.conj())",
    "x.conj().view(T.complex64)",
    "x.is_conj()",
    "x.conj().is_conj()",
    "x.conj().imag.is_neg()",
    "T._conj_copy(x)",
    "T._neg_view_copy(x.real)",
    "T.view_as_real_copy(x)",
    "x.conj().T.conj()",
    "x.conj().unsqueeze(0).sum()",
    "x.conj().expand(3, 2, 2)",
    "x.imag.conj()",
    "x.conj().diagonal()",
    "T.as_strided_copy(x.conj(), (2,), (1,))",
]


@pytest.mark.parametrize("expression", COMPLEX)
def test_complex(expression):
    assert_same(lambda T: eval(expression, {"T": T, "x": T.tensor([[1 + 2j, 3 - 1j], [0.5j, -2.0]])}))


DTYPE_VIEWS = [
    "bool",
    "uint8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex64",
    "complex128",
]


@pytest.mark.parametrize("target", DTYPE_VIEWS)
@pytest.mark.parametrize("source", ["uint8", "int16", "float32", "float64", "complex64", "complex128"])
def test_view_dtype(source, target):
    def run(T):
        x = T.from_numpy(np.arange(64, dtype=np.uint8)).view(getattr(T, source))
        y = x.view(getattr(T, target))
        parts = x.view(-1, 2)[:, 1:]
        try:
            shown = parts.view(getattr(T, target))
            part = tuple(shown.shape), shown.stride(), shown.storage_offset()
        except RuntimeError:
            part = "refused"
        return tuple(y.shape), y.stride(), y.storage_offset(), part

    assert_same(run)


NEEDS_DATA = ("scatter", "_copy", "T.tensor", "as_strided", "T.ones", "sum", "linalg")


def test_meta_views_have_the_geometry_of_real_ones():
    for expression in EXPRESSIONS:
        if any(word in expression for word in NEEDS_DATA):
            continue
        for base in ("cube", "matrix", "ones"):
            geometry = []
            for device in ("cpu", "meta"):
                x = rushlight.empty(BASES[base](rushlight).shape, device=device)
                try:
                    result = eval(expression, {"T": rushlight, "x": x})
                except (RuntimeError, IndexError) as error:
                    result = type(error)
                results = result if isinstance(result, tuple) else (result,)
                geometry.append(
                    [
                        (tuple(r.shape), r.stride(), r.storage_offset())
                        if isinstance(r, rushlight.Tensor)
                        else r
                        for r in results
                    ]
                )
            assert geometry[0] == geometry[1], expression


def test_every_view_has_a_copying_twin():
    for op in REGISTRY:
        if op.kind is Kind.VIEW and op.schema.returns[0].type.alias is not None:
            name, _, overload = op.name.partition(".")
            twin = f"{name}_copy{'.' if overload else ''}{overload}"
            assert twin in REGISTRY
            expected = getattr(torch.ops.aten, f"{name}_copy")._schemas[overload]
            assert [a.name for a in REGISTRY[twin].schema.arguments] == [a.name for a in expected.arguments]


def test_is_set_to():
    def run(T):
        x = ramp(T, 2, 2)
        return [x.is_set_to(y) for y in (x, x.view(2, 2), x[0], x.t(), x.clone())]

    assert_same(run)


def test_copies_share_no_memory():
    x = ramp(rushlight, 2, 3)
    for copy in (
        rushlight.alias_copy(x),
        rushlight.view_copy(x, (6,)),
        rushlight.detach_copy(x),
        rushlight.split_copy(x, 1)[0],
        rushlight.select_scatter(x, x[0] * 2, 0, 0),
    ):
        copy.zero_()
    assert x.sum().item() == 15


def test_error_messages_say_what_is_allowed():
    x = ramp(rushlight, 2, 3)
    with pytest.raises(RuntimeError, match=r"view: .*\[3, 2\].*\[6\].*reshape"):
        x.t().view(6)
    with pytest.raises(IndexError, match=r"select\(\): index 5 out of range .* \[2, 3\] at dimension 1"):
        x.select(1, 5)
    with pytest.raises(RuntimeError, match=r"expanded size .* .5. must match the existing size .3."):
        x.expand(2, 5)
    with pytest.raises(IndexError, match=r"squeeze: Dimension out of range \(expected .* \[-2, 1\]"):
        x.squeeze(4)
