"""save and load of sparse and nested tensors, whose members are entries of their own."""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import pytest
import safetensors.numpy

import rushlight
from rushlight.serialization import SerializationError

from .files import load_with_flipped_bytes, saved, through

COMPRESSED = ("compressed_indices", "plain_indices", "values")


def matrix(dtype: str = "float32") -> rushlight.Tensor:
    values = [[0, 1, 0, 2], [0, 0, 0, 0], [3, 0, 0, 4], [0, 5, 0, 0]]
    return rushlight.tensor(values).to(getattr(rushlight, dtype))


SPARSE = {
    "coo": lambda m: m.to_sparse(),
    "hybrid": lambda m: m.to_sparse(1),
    "uncoalesced": lambda m: rushlight.sparse_coo_tensor([[1, 0, 1], [2, 0, 2]], m[2, [0, 3, 3]], (3, 4)),
    "empty": lambda m: rushlight.sparse_coo_tensor(size=(2, 3), indices=np.zeros((2, 0)), values=m[0, :0]),
    "csr": lambda m: m.to_sparse_csr(),
    "csc": lambda m: m.to_sparse_csc(),
    "bsr": lambda m: m.to_sparse_bsr((2, 2)),
    "bsc": lambda m: m.to_sparse_bsc((1, 2)),
    "batch": lambda m: rushlight.stack([m, m]).to_sparse_csr(),
    "dense dims": lambda m: rushlight.stack([m, m], -1).to_sparse_csr(dense_dim=1),
}


def members(tensor: rushlight.Tensor) -> list[rushlight.Tensor]:
    return [part for part in tensor._parts if isinstance(part, rushlight.Tensor)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "complex128", "int64", "bool"])
@pytest.mark.parametrize("name", SPARSE)
def test_sparse_tensors_come_back(name: str, dtype: str) -> None:
    tensor = SPARSE[name](matrix(dtype))
    found = through({"w": [tensor]})["w"][0]
    assert found.layout is tensor.layout and found.shape == tensor.shape and found.dtype is tensor.dtype
    assert len(members(found)) == len(members(tensor)) >= 2
    for mine, expected in zip(members(found), members(tensor), strict=True):
        assert mine.dtype is expected.dtype and mine.shape == expected.shape
        assert mine.numpy_array().tobytes() == expected.numpy_array().tobytes()
    if tensor.layout is rushlight.sparse_coo:
        assert found.is_coalesced() is tensor.is_coalesced()


def test_other_readers_find_the_members() -> None:
    made = safetensors.numpy.load(saved({"a": matrix().to_sparse(), "b": matrix().to_sparse_csc()}))
    assert set(made) == {"a.indices", "a.values", *(f"b.{name}" for name in COMPRESSED)}
    assert made["a.values"].tolist() == [1, 2, 3, 4, 5]
    assert made["a.indices"].tolist() == [[0, 0, 2, 2, 3], [1, 3, 0, 3, 1]]
    assert made["b.compressed_indices"].tolist() == [0, 1, 3, 3, 5]


def test_sparse_leaves_stay_leaves() -> None:
    tensor = matrix().to_sparse().requires_grad_()
    found = through(tensor)
    assert found.requires_grad and found.is_leaf
    (found * 2).sum().backward()
    assert found.grad.to_dense().tolist() == (2.0 * (matrix() != 0)).tolist()
    assert through(tensor * 2).is_leaf


def test_sparse_tensors_share_their_members_again() -> None:
    tensor = matrix().to_sparse_csr()
    first, second = through([tensor, tensor])
    first.values().fill_(7)
    assert second.values().tolist() == [7] * 5
    assert len(safetensors.numpy.load(saved([tensor, tensor]))) == 3


def test_state_of_a_module_with_a_sparse_buffer() -> None:
    module = rushlight.nn.Linear(2, 2)
    module.register_buffer("adjacency", matrix().to_sparse())
    state = through(module.state_dict())
    assert state["adjacency"].to_dense().tolist() == matrix().tolist()
    assert state._metadata == module.state_dict()._metadata


def nested(*lengths: int, requires_grad: bool = False) -> rushlight.Tensor:
    rows = [rushlight.arange(2.0 * n).reshape(n, 2) for n in lengths]
    return rushlight.nested.nested_tensor(rows, layout=rushlight.jagged, requires_grad=requires_grad)


NESTED = {
    "plain": lambda: nested(3, 0, 2),
    "leaf": lambda: nested(1, 4, requires_grad=True),
    "one row": lambda: nested(2),
    "holes": lambda: rushlight.nested.narrow(
        rushlight.arange(15.0).reshape(3, 5),
        1,
        rushlight.tensor([0, 1, 2]),
        rushlight.tensor([2, 1, 3]),
        layout=rushlight.jagged,
    ),
    "transposed": lambda: nested(3, 1).transpose(1, 2),
    "integers": lambda: nested(3, 1).to(rushlight.int64),
}


@pytest.mark.parametrize("name", NESTED)
def test_nested_tensors_come_back(name: str) -> None:
    tensor = NESTED[name]()
    found = through((tensor, 1))[0]
    assert type(found) is type(tensor) and found.shape == tensor.shape and found.dtype is tensor.dtype
    assert found.requires_grad is tensor.requires_grad and found.stride() == tensor.stride()
    assert found.offsets().tolist() == tensor.offsets().tolist()
    assert (found.lengths() is None) is (tensor.lengths() is None)
    assert found.tolist() == tensor.tolist()
    assert (found + tensor).tolist() == (tensor * 2).tolist()


STRIDED = {
    "plain": lambda rows: rushlight.nested.nested_tensor(rows),
    "leaf": lambda rows: rushlight.nested.nested_tensor(rows, requires_grad=True),
    "transposed": lambda rows: rushlight.nested.nested_tensor(rows).transpose(1, 2),
    "part": lambda rows: rushlight.nested.nested_tensor(rows).narrow(0, 1, 2),
    "none": lambda rows: rushlight.nested.nested_tensor([]),
}


@pytest.mark.parametrize("name", STRIDED)
def test_nested_tensors_of_the_strided_layout_come_back(name: str) -> None:
    tensor = STRIDED[name]([rushlight.ones(2, 3), rushlight.zeros(0, 3), rushlight.ones(1, 4)])
    found = through((tensor, 1))[0]
    assert type(found) is type(tensor) and found._rows == tensor._rows and found.dtype is tensor.dtype
    assert found.requires_grad is tensor.requires_grad
    assert found.tolist() == tensor.tolist()


def test_nested_tensors_of_the_same_rows_share_their_offsets() -> None:
    first = nested(3, 2)
    entries = safetensors.numpy.load(saved({"x": first, "y": first * 2}))
    assert set(entries) == {"x.values", "y.values", "x.offsets"}


def test_there_are_none_without_data() -> None:
    for tensor in (matrix().to_sparse(), matrix().to_sparse_bsr((2, 2)), nested(1, 2)):
        with pytest.raises(NotImplementedError, match=r"load: w\.0 is a (sparse|nested) tensor"):
            through({"w": [tensor]}, map_location="meta")


def edited(obj: Any, change: Any) -> bytes:
    """A file whose description of `obj` was changed."""
    data = saved(obj)
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    described = json.loads(header["__metadata__"]["rushlight"])
    change(described["tree"])
    header["__metadata__"]["rushlight"] = json.dumps(described)
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data[8 + size :]


def out_of_bounds() -> rushlight.Tensor:
    return rushlight.sparse_coo_tensor([[0, 5]], [1.0, 2.0], (3,))


DAMAGED = {
    "index past the end": lambda: saved(out_of_bounds()),
    "row past the end": lambda: saved(rushlight.sparse_csr_tensor([0, 1, 2], [0, 9], [1.0, 2.0], (2, 3))),
    "rows that fall": lambda: saved(rushlight.sparse_csr_tensor([0, 2, 1], [0, 1], [1.0, 2.0], (2, 3))),
    "smaller size": lambda: edited(matrix().to_sparse(), lambda tree: tree.update(shape=[2, 2])),
    "other rank": lambda: edited(matrix().to_sparse_csr(), lambda tree: tree.update(shape=[4, 4, 4])),
    "negative size": lambda: edited(matrix().to_sparse(), lambda tree: tree.update(shape=[-4, 4])),
    "size of text": lambda: edited(matrix().to_sparse(), lambda tree: tree.update(shape="44")),
    "no values": lambda: edited(matrix().to_sparse(), lambda tree: tree["members"].pop("values")),
    "number as values": lambda: edited(matrix().to_sparse(), lambda tree: tree["members"].update(values=3)),
    "members are a list": lambda: edited(matrix().to_sparse(), lambda tree: tree.update(members=[1])),
    "another layout": lambda: edited(matrix().to_sparse_csr(), lambda tree: tree.update(layout="sparse_bsr")),
    "no layout": lambda: edited(matrix().to_sparse_csr(), lambda tree: tree.update(layout="dense")),
    "strided": lambda: edited(matrix().to_sparse_csr(), lambda tree: tree.update(layout="strided")),
    "said to be coalesced": lambda: edited(
        SPARSE["uncoalesced"](matrix()), lambda tree: tree.update(coalesced=True)
    ),
    "no offsets": lambda: edited(nested(1, 2), lambda tree: tree["members"].update(offsets=None)),
    "ragged dimension": lambda: edited(nested(1, 2), lambda tree: tree.update(ragged_idx=3)),
    "ragged dimension 0": lambda: edited(nested(1, 2), lambda tree: tree.update(ragged_idx=0)),
    "lengths that are offsets": lambda: edited(
        nested(1, 2), lambda tree: tree["members"].update(lengths=tree["members"]["offsets"])
    ),
    "offsets of another": lambda: edited(
        [nested(1, 2), nested(4, 4)],
        lambda tree: tree[0]["members"].update(offsets=tree[1]["members"]["offsets"]),
    ),
}


@pytest.mark.parametrize("case", DAMAGED)
def test_members_that_do_not_fit_are_refused(case: str) -> None:
    with pytest.raises(SerializationError, match="load: damaged file"):
        rushlight.load(io.BytesIO(DAMAGED[case]()))


def test_flipped_bytes_never_do_worse_than_raise() -> None:
    load_with_flipped_bytes(saved([matrix().to_sparse(), matrix().to_sparse_csr(), nested(1, 2)]))
