"""Nested tensors as objects: making them, what they say of themselves, errors."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import rushlight as rl
from rushlight.core.dispatch import call
from rushlight.core.registry import REGISTRY
from rushlight.core.schema import REQUIRED
from rushlight.core.tensor import TRACED

from .conftest import SIZES, assert_same, scope

LIBRARIES = (torch, rl)


def in_both(program: Callable[[Any], Any]) -> None:
    """The program gives the same with torch and with rushlight, or raises an error of the same type."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expected = program(torch)
        except Exception as error:
            with pytest.raises(type(error)) as caught:
                program(rl)
            assert str(caught.value)
            return
        assert_same(program(rl), expected)


def larger(nested: Any) -> Any:
    return nested.masked_select(nested > 1.5)


MADE: list[Callable[[Any], Any]] = [
    lambda L: L.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=L.jagged),
    lambda L: L.nested.nested_tensor([L.ones(2, 3), L.zeros(1, 3)], layout=L.jagged, dtype=L.float64),
    lambda L: L.nested.nested_tensor([L.ones(3, 2), L.zeros(3, 1)], layout=L.jagged),
    lambda L: L.nested.nested_tensor([np.ones((2, 2)), np.zeros((0, 2))], layout=L.jagged),
    lambda L: L.nested.nested_tensor([L.ones(2)], layout=L.jagged, requires_grad=True).requires_grad,
    lambda L: L.nested.nested_tensor([], layout=L.jagged),
    lambda L: L.nested.nested_tensor([L.ones(2), L.ones(2, 2)], layout=L.jagged),
    lambda L: L.nested.nested_tensor([L.ones(2), L.ones(2, dtype=L.float64)], layout=L.jagged),
    lambda L: L.nested.nested_tensor([L.ones(()), L.ones(())], layout=L.jagged),
    lambda L: L.nested.nested_tensor([L.ones(2, 3), L.ones(3, 4)], layout=L.jagged),
    lambda L: L.nested.nested_tensor([L.ones(2)], layout=L.sparse_coo),
    lambda L: L.nested.as_nested_tensor(L.arange(6.0).reshape(2, 3), layout=L.jagged),
    lambda L: L.nested.as_nested_tensor([L.ones(2, 3), L.zeros(1, 3)], layout=L.jagged),
    lambda L: L.nested.as_nested_tensor((L.ones(2),), dtype=L.float64, layout=L.jagged),
    lambda L: L.nested.as_nested_tensor(L.ones(3), layout=L.jagged),
    lambda L: L.nested.as_nested_tensor([[1.0]], layout=L.jagged),
    lambda L: L.nested.as_nested_tensor("text", layout=L.jagged),
    lambda L: L.nested.nested_tensor_from_jagged(L.arange(6.0).reshape(6, 1), L.tensor([0, 2, 6])),
    lambda L: L.nested.nested_tensor_from_jagged(L.arange(6.0), lengths=L.tensor([2, 0, 4])),
    lambda L: L.nested.nested_tensor_from_jagged(L.arange(6.0), L.tensor([0, 3, 6]), L.tensor([2, 1])),
    lambda L: L.nested.nested_tensor_from_jagged(L.ones(2, 6), L.tensor([0, 3, 6]), jagged_dim=2),
    lambda L: L.nested.nested_tensor_from_jagged(L.ones(6)),
    lambda L: L.nested.nested_tensor_from_jagged(L.ones(6), L.tensor([0, 6]), jagged_dim=0),
    lambda L: L.nested.narrow(
        L.arange(12.0).reshape(3, 4), 1, L.tensor([0, 1, 2]), L.tensor([2, 3, 1]), layout=L.jagged
    ),
    lambda L: L.nested.narrow(L.arange(24.0).reshape(3, 4, 2), 1, 1, L.tensor([2, 3, 1]), layout=L.jagged),
    lambda L: L.nested.narrow(L.ones(3, 4), 0, 1, 2, layout=L.jagged),
    lambda L: L.nested.narrow(L.ones(3, 4), 1, "a", 2, layout=L.jagged),
    lambda L: L.nested.narrow(L.ones(3, 4), 1, L.tensor([0, 1]), 2, layout=L.jagged),
    lambda L: L.nested.masked_select(L.arange(4.0).reshape(2, 2), L.tensor([[True, True], [False] * 2])),
    lambda L: L.nested.masked_select(L.arange(6.0).reshape(3, 2), L.tensor([True, False])),
    lambda L: larger(L.nested.nested_tensor([[1.0, 2.0], [0.5], [3.0]], layout=L.jagged)),
]


@pytest.mark.parametrize("number", range(len(MADE)))
def test_made_like_pytorch(number: int) -> None:
    in_both(MADE[number])


ERRORS = [
    "n.unbind(1)",
    "n.sum(0)",
    "n.sum((1, 2))",
    "n.softmax(0)",
    "n.select(1, 0)",
    "n[9]",
    "n.transpose(0, 1)",
    "n.transpose(0, 2)",
    "n.permute(1, 0, 2)",
    "n.permute(0, 1)",
    "n.permute(0, 1, 1)",
    "n.view(B, 7, 4)",
    "n.view(-1)",
    "n.unsqueeze(0)",
    "n.squeeze(1)",
    "n.squeeze(0)",
    "n.flatten(0, 1)",
    "n.flatten(1, 2)",
    "n.split(1, 1)",
    "n.chunk(2, 1)",
    "n.narrow(1, 0, 1)",
    "L.cat([n, m], 0)",
    "L.cat([n, m], 1)",
    "L.stack([n, m], 0)",
    "L.stack([n, m], 1)",
    "L.stack([n, h], 2)",
    "n + L.ones(7, 9, 4)",
    "n + L.ones(1, 3, 3, 4)",
    "n + L.nested.nested_tensor([L.ones(5, 4), L.ones(1, 4), L.ones(1, 4)], layout=L.jagged)",
    "n + n.transpose(1, 2)",
    "n @ L.ones(3, 2)",
    "n @ n",
    "n.bmm(L.ones(4, 2))",
    "F.layer_norm(e, (3,))",
    "F.layer_norm(n, (4, 4))",
    "F.rms_norm(n, (n.size(1), 4))",
    "F.linear(n.transpose(1, 2), w)",
    "F.scaled_dot_product_attention(h, h, v)",
    "F.scaled_dot_product_attention(h, h, h.double())",
    "F.scaled_dot_product_attention(n.unsqueeze(1), n.unsqueeze(1), n.unsqueeze(2))",
    "n.expand(B, n.size(1), 7)",
    "n.expand(5, n.size(1), 4)",
    "n.size(5)",
    "n.sum(7)",
    "n.masked_select(n > 0)",
    "N.to_padded_tensor(v, 0.0)",
    "v.to_padded_tensor(0.0)",
    "n.broadcast_to(2, B, n.size(1), 4)",
    "n.detach().add_(h)",
]


@pytest.mark.parametrize("expression", ERRORS)
def test_errors_are_those_of_pytorch(expression: str) -> None:
    in_both(lambda lib: eval(expression, scope(lib, SIZES["several"], "float32")))


# Operators that make nested tensors of the strided layout.


def buffer(lib: Any, sizes: Any, strides: Any, offsets: Any) -> Any:
    return lib._nested_view_from_buffer(lib.arange(12.0), *(lib.tensor(x) for x in (sizes, strides, offsets)))


OPERATORS: list[Callable[[Any], Any]] = [
    lambda L: L._nested_tensor_from_tensor_list([L.ones(2, 3), L.zeros(1, 3)]),
    lambda L: L._nested_tensor_from_tensor_list([L.ones(2, 3), L.zeros(2, 1)], L.float64),
    lambda L: L._nested_tensor_from_mask(
        L.arange(12.0).reshape(2, 3, 2), L.tensor([[True, True, False], [True, False, False]])
    ),
    lambda L: L._nested_tensor_from_mask(L.ones(1, 3, 2), L.tensor([[True, False, True]])),
    lambda L: L._nested_tensor_from_mask(L.ones(2, 3), L.ones(2, 3).bool()),
    lambda L: L._nested_tensor_from_mask(L.ones(2, 3, 2), L.ones(2, 3)),
    lambda L: L._nested_tensor_from_mask(L.ones(2, 3, 2), L.ones(2, 2).bool()),
    lambda L: L._nested_from_padded(L.arange(12.0).reshape(2, 3, 2), L.tensor([[2, 2], [3, 2]])),
    lambda L: L._nested_from_padded(L.arange(12.0).reshape(2, 3, 2), L.tensor([[2, 1], [3, 1]])),
    lambda L: L._nested_from_padded(L.arange(24.0).reshape(2, 2, 3, 2), L.tensor([[2, 4], [3, 4]]), True),
    lambda L: buffer(L, [[2, 2], [4, 2]], [[2, 1], [2, 1]], [0, 4]),
    lambda L: buffer(L, [[2, 2], [3, 2]], [[2, 1], [2, 1]], [0, 6]),
    lambda L: buffer(L, [[2, 2], [2, 3]], [[1, 2], [1, 2]], [0, 4]),
]


@pytest.mark.parametrize("number", range(len(OPERATORS)))
def test_operators_that_make_rows(number: int) -> None:
    in_both(lambda lib: list(OPERATORS[number](lib).unbind()))


def test_dropout() -> None:
    nested = rl.nested.nested_tensor([rl.ones(50, 4), rl.ones(3, 4)], requires_grad=True, layout=rl.jagged)
    rl.manual_seed(0)
    kept = rl.nn.functional.dropout(nested, 0.5)
    assert kept.shape == nested.shape and set(kept.values().unique().tolist()) == {0.0, 2.0}
    kept.sum().backward()
    assert nested.grad.tolist() == kept.tolist()
    rl.manual_seed(0)
    assert rl.nn.functional.dropout(nested.values(), 0.5).tolist() == kept.values().tolist()


def test_shape_and_text() -> None:
    nested = rl.nested.nested_tensor([rl.ones(2, 3), rl.ones(4, 3)], layout=rl.jagged)
    size = repr(nested.size(1))
    assert size[0] == "j" and size[1:].isdecimal()
    assert repr(nested.shape) == f"rushlight.Size([2, {size}, 3])"
    assert repr(nested.stride()) == f"(3*{size}, 3, 1)"
    assert repr(nested) == (f"NestedTensor(size=(2, {size}, 3), offsets=tensor([0, 2, 6]), contiguous=True)")
    assert repr(nested.requires_grad_()) == (
        f"NestedTensor(size=(2, {size}, 3), offsets=tensor([0, 2, 6]), requires_grad=True, contiguous=True)"
    )
    assert "grad_fn=<MulBackward0" in repr(nested * 2)
    assert nested.is_nested and nested.layout is rl.jagged and not nested.values().is_nested
    assert nested._max_seqlen == 4 and nested._min_seqlen == 2
    assert nested.shape[:1] + (nested.size(1), 7) == (2, nested.size(1), 7)
    assert isinstance(nested, rl.Tensor) and type(nested).__name__ == "NestedTensor"


def test_ragged_sizes() -> None:
    size = rl.nested.nested_tensor([rl.ones(2), rl.ones(4)], layout=rl.jagged).size(1)
    other = rl.nested.nested_tensor([rl.ones(3), rl.ones(4)], layout=rl.jagged).size(1)
    assert size == size and size != other and size != 2 and hash(size) == hash(size)
    assert size >= 2 and size > 1 and not size < 2 and not size <= 1
    assert 2 * size != size and repr(size * 3) == f"3*{size!r}" and 2 * size > size
    with pytest.raises(ValueError, match="differs from row to row"):
        _ = size > 5
    with pytest.raises(TypeError, match="stands for the lengths of all rows"):
        int(size)
    with pytest.raises(TypeError):
        rl.zeros(3, size)


def test_equal_lengths_fit_together() -> None:
    """PyTorch refuses operands that were made apart, even of equal lengths; here lengths decide."""
    first = rl.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=rl.jagged)
    second = rl.nested.nested_tensor([[10.0, 20.0], [30.0]], layout=rl.jagged)
    assert first.shape == second.shape
    assert (first + second).tolist() == [[11.0, 22.0], [33.0]]


def holes(lib: Any) -> Any:
    base = lib.arange(24.0).reshape(3, 4, 2)
    return lib.nested.narrow(base, 1, lib.tensor([0, 1, 2]), lib.tensor([2, 3, 1]), layout=lib.jagged)


@pytest.mark.parametrize(
    "program",
    [
        lambda n: n * 2,
        lambda n: n + n,
        lambda n: n.sum(-1),
        lambda n: n.unbind(),
        lambda n: n.contiguous(),
        lambda n: n.numel(),
        lambda n: n.is_contiguous(),
        lambda n: n.lengths(),
        lambda n: n.offsets(),
        lambda n: n.clone(),
        lambda n: n[1],
        lambda n: n.softmax(-1),
        lambda n: n.values(),
        lambda n: n.transpose(1, 2),
    ],
)
def test_holes_like_pytorch(program: Callable[[Any], Any]) -> None:
    in_both(lambda lib: program(holes(lib)))


def test_holes_beyond_pytorch() -> None:
    """What belongs to no row is in no result."""
    nested = holes(rl)
    rows = [r.numpy() for r in nested.unbind()]
    assert nested.sum().item() == sum(r.sum() for r in rows)
    assert nested.sum(1).tolist() == [r.sum(0).tolist() for r in rows]
    assert nested.to_padded_tensor(-1.0)[2].tolist() == [*rows[2].tolist(), [-1.0, -1.0], [-1.0, -1.0]]
    whole = nested.contiguous()
    assert (whole + nested).tolist() == (nested + whole).tolist() == [(2 * r).tolist() for r in rows]
    assert (nested + rl.ones(3, 1, 2)).tolist() == [(r + 1).tolist() for r in rows]
    assert nested[1:].tolist() == [r.tolist() for r in rows[1:]]
    assert nested.max().item() == max(r.max() for r in rows)


def test_copies() -> None:
    nested = rl.nested.nested_tensor([[1.0, 2.0], [3.0]], requires_grad=True, layout=rl.jagged)
    for other in (copy.deepcopy(nested), pickle.loads(pickle.dumps(nested)), copy.copy(nested)):
        assert other.tolist() == nested.tolist() and other.requires_grad and other.shape == nested.shape


def test_meta_device() -> None:
    nested = rl.nested.nested_tensor([rl.ones(2, 3), rl.ones(1, 3)], layout=rl.jagged).to("meta")
    assert nested.is_meta and (nested * 2).softmax(1).is_meta
    assert tuple(nested.sum(1).shape) == (2, 3) and tuple(nested.to_padded_tensor(0.0).shape) == (2, 2, 3)
    assert tuple((nested + rl.ones(2, 1, 3, device="meta")).mean(1).shape) == (2, 3)


# What is not there.


def test_what_has_no_rule_says_so() -> None:
    nested = rl.nested.nested_tensor([[1.0, 2.0], [3.0]], layout=rl.jagged)
    with pytest.raises(NotImplementedError, match=r"flip: there is no rule .* unbind\(\).* to_padded_tensor"):
        nested.flip(0)
    with pytest.raises(NotImplementedError, match=r"use the layout rushlight\.jagged"):
        rl.nested.nested_tensor([[1.0]], layout=rl.strided).exp()
    with pytest.raises(TypeError, match="not one array"):
        nested.numpy()
    with pytest.raises(TypeError, match="not one array"):
        np.asarray(nested)


def test_offsets_are_checked() -> None:
    for offsets, lengths in (
        ([0, 7], None),
        ([1, 3, 6], None),
        ([0, 4, 2, 6], None),
        ([0, 2, 6], [3, 5]),
        ([0, 2, 6], [1]),
        ([0, 2, 6], [-1, 2]),
    ):
        with pytest.raises(RuntimeError, match="offsets"):
            rl.nested.nested_tensor_from_jagged(
                rl.ones(6), rl.tensor(offsets), None if lengths is None else rl.tensor(lengths)
            )


def test_every_operator_runs_or_says_why() -> None:
    """No operator crashes on nested tensors, or takes them for dense ones."""
    nested = rl.nested.nested_tensor([rl.ones(2, 4), rl.ones(1, 4)], layout=rl.jagged)
    strange = []
    for op in REGISTRY:
        arguments = op.schema.arguments
        if not op.tensor_positions or any(
            a.type.base not in ("Tensor", "Scalar", "int", "float", "bool")
            and a.default is REQUIRED
            and not a.type.optional
            for a in arguments
        ):
            continue
        values = tuple(_argument(a, nested) for a in arguments)
        try:
            result = call(op, values)
        except (NotImplementedError, RuntimeError, ValueError, TypeError, IndexError, AssertionError):
            continue
        except Exception as error:
            strange.append(f"{op.name}: {error!r}")
            continue
        for part in result if isinstance(result, tuple) else (result,):
            if isinstance(part, rl.Tensor) and not part.is_nested and part._keys & TRACED:
                strange.append(f"{op.name}: a traced result")
    assert not strange


def _argument(argument: Any, nested: Any) -> Any:
    kind = argument.type
    if kind.base == "Tensor":
        return (nested, nested) if kind.is_list else nested
    if kind.optional:
        return None
    plain = {"Scalar": 1.0, "int": 1, "float": 0.5, "bool": False}.get(kind.base, argument.default)
    return (plain,) if kind.is_list else plain


def test_ragged_sizes_are_symbols():
    for m in LIBRARIES:
        ragged = m.nested.nested_tensor([m.ones(3, 2), m.ones(2, 2)], layout=m.jagged).shape[1]
        assert isinstance(ragged, m.SymInt) and isinstance(ragged * 2, m.SymInt)
        assert not any(isinstance(3, kind) for kind in (m.SymInt, m.SymFloat, m.SymBool))
    for kind in (rl.SymInt, rl.SymFloat, rl.SymBool):
        with pytest.raises(TypeError, match="cannot be made from a value"):
            kind(3)
