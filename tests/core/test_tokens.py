"""Devices, layouts, memory formats and sizes, against PyTorch's."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight
from rushlight.core import tokens
from rushlight.core.tokens import LAYOUTS, MEMORY_FORMATS, Size, device, make_size

# --- device ------------------------------------------------------------------------------------------

GOOD_DEVICES = [("cpu",), ("meta",), ("cpu:0",), ("cpu:12",), ("cpu", 0), ("meta", 3), ("cpu", None)]
BAD_DEVICES = [
    ("foo",),
    ("",),
    ("CPU",),
    ("cpu:",),
    ("cpu:x",),
    ("cpu:-1",),
    ("cpu:01",),
    (" cpu",),
    ("cpu ",),
    ("cpu", -1),
    ("cpu:0", 0),
    ("cpu", True),
    ("cpu", "0"),
    (0,),
    (1.5,),
    (None,),
]


@pytest.mark.parametrize("arguments", GOOD_DEVICES, ids=repr)
def test_device_agrees_with_torch(arguments):
    found, expected = device(*arguments), torch.device(*arguments)
    assert (found.type, found.index) == (expected.type, expected.index)
    assert repr(found) == repr(expected)
    assert str(found) == str(expected)


@pytest.mark.parametrize("arguments", BAD_DEVICES, ids=repr)
def test_device_refuses_as_torch_does(arguments):
    with pytest.raises((RuntimeError, TypeError)) as expected:
        torch.device(*arguments)
    with pytest.raises(expected.type):
        device(*arguments)


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps", "xpu"])
def test_other_devices_have_names_and_no_tensors(name):
    assert (device(name).type, device(name).index) == (torch.device(name).type, torch.device(name).index)
    assert repr(device(name)) == repr(torch.device(name))
    with pytest.raises((AssertionError, NotImplementedError)) as expected:
        torch.zeros(2, device=name)
    for make in (
        lambda: rushlight.zeros(2, device=name),
        lambda: rushlight.tensor([1.0], device=device(name)),
        lambda: rushlight.zeros(2).to(name),
        lambda: rushlight.nn.Linear(2, 2).to(name),
    ):
        with pytest.raises(expected.type, match="rushlight runs on cpu and meta"):
            make()


def test_equal_devices_are_one_object():
    assert device("cpu") is device("cpu", None) is device(type="cpu") is device(device("cpu")) is tokens.cpu
    assert device("cpu:1") is device("cpu", 1) is device(type="cpu", index=1)
    assert device("cpu") != device("cpu:0")
    assert device("cpu") != device("meta")
    assert device("cpu") != "cpu"
    assert len({device("cpu"), device("cpu"), device("cpu", 0), device("meta")}) == 3
    assert device("cpu", 1) is not device("cpu", 0)


def test_device_index_true_is_not_one():
    device("cpu", 1)
    with pytest.raises(TypeError):
        device("cpu", True)


@pytest.mark.parametrize(
    "value", [device("cpu"), device("meta", 1), *LAYOUTS.values(), *MEMORY_FORMATS.values()], ids=repr
)
def test_tokens_are_immutable_singletons(value):
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(value, protocol)) is value
    assert copy.copy(value) is value
    assert copy.deepcopy([value])[0] is value
    for field in ("type", "name", "other"):
        with pytest.raises(AttributeError):
            setattr(value, field, "x")
    with pytest.raises(AttributeError, match="immutable"):
        del value.type


# --- layout, memory format ---------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "kind"), [(LAYOUTS, "layout"), (MEMORY_FORMATS, "memory_format")])
def test_tokens_are_torchs(table, kind):
    theirs = {name for name in dir(torch) if isinstance(getattr(torch, name), getattr(torch, kind))}
    assert set(table) == theirs - {"_mkldnn", "legacy_contiguous_format"}
    for name, token in table.items():
        assert getattr(tokens, name) is token
        assert isinstance(token, getattr(tokens, kind))
        assert repr(token) == f"rushlight.{name}"
        assert repr(getattr(torch, name)) == f"torch.{name}"


# --- size --------------------------------------------------------------------------------------------

shapes = st.lists(st.integers(0, 1000), max_size=6).map(tuple)


def same(found, expected):
    assert type(found) is Size
    assert type(expected) is torch.Size
    assert tuple(found) == tuple(expected)


@settings(deadline=None)
@given(shapes, shapes, st.slices(6), st.integers(-1, 3))
def test_size_behaves_as_torch_size(first, second, cut, count):
    found, expected = Size(first), torch.Size(first)
    same(found, expected)
    same(found[cut], expected[cut])
    same(found + second, expected + second)
    same(second + found, second + expected)
    same(found + Size(second), expected + torch.Size(second))
    same(found * count, expected * count)
    same(count * found, count * expected)
    assert found.numel() == expected.numel()
    assert repr(found) == repr(expected).replace("torch", "rushlight")
    assert str(found) == repr(found)
    assert found == first
    assert hash(found) == hash(first)
    assert list(found) == list(first)


@pytest.mark.parametrize(
    "items", [[2, 3], (2, 3), range(2), iter([4]), np.array([2, 3]), [np.int32(4)], [True], []]
)
def test_size_takes_any_iterable_of_ints(items):
    items = list(items)
    same(Size(items), torch.Size(items))
    assert all(type(item) is int for item in Size(items))


@pytest.mark.parametrize("items", [[1.5], ["a"], [None], [1, [2]], 3, None])
def test_size_refuses_as_torch_does(items):
    with pytest.raises(TypeError):
        torch.Size(items)
    with pytest.raises(TypeError):
        Size(items)


def test_size_error_names_the_item():
    with pytest.raises(TypeError, match="item 1 is a float"):
        Size([1, 2.0])


@pytest.mark.parametrize("other", [[1], 1, (1.5,)], ids=repr)
def test_size_adds_tuples_of_ints_only(other):
    with pytest.raises(TypeError):
        torch.Size([2]) + other
    with pytest.raises(TypeError):
        Size([2]) + other
    with pytest.raises(TypeError):
        other + Size([2])


def test_size_indexing_gives_ints():
    size = Size([2, 3, 4])
    assert (size[0], size[-1]) == (2, 4)
    assert type(size[1]) is int
    with pytest.raises(IndexError):
        size[3]


def test_make_size_does_not_validate():
    extent = object()
    assert make_size((2, extent))[1] is extent
    assert type(make_size((2, 3))) is Size
    assert make_size((2, 3)) == Size((2, 3))


def test_size_survives_copy_and_pickle():
    size = Size([2, 3])
    for found in (
        copy.copy(size),
        copy.deepcopy(size),
        *(pickle.loads(pickle.dumps(size, protocol)) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)),
    ):
        assert type(found) is Size
        assert found == size
