"""NumPy and DLPack: operators with arrays (defect 16), DLPack (defect 21), and who keeps memory alive."""

from __future__ import annotations

import gc
import operator
import weakref
from typing import Any

import numpy as np
import pytest
import torch

import rushlight as rl
from rushlight.core.errors import WARNINGS

OPERATORS = (
    "add",
    "sub",
    "mul",
    "truediv",
    "floordiv",
    "mod",
    "pow",
    "matmul",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "and_",
    "or_",
    "xor",
    "lshift",
    "rshift",
    "iadd",
    "isub",
    "imul",
    "itruediv",
    "ifloordiv",
    "imod",
    "ipow",
    "iand",
    "ior",
    "ixor",
    "ilshift",
    "irshift",
    "imatmul",
)
TENSORS = ("float32", "float64", "int64", "bool", "float16", "complex64", "uint8")
ARRAYS = (*TENSORS, "int32")


def outcome(library: Any, name: str, tensor: str, array: str, shape: tuple[int, ...], left: bool) -> Any:
    t = library.tensor([3, 2] if shape else 3).to(getattr(library, tensor))
    a = np.array([1, 2] if shape else 2).astype(array)
    try:
        result = getattr(operator, name)(*(t, a) if left else (a, t))
    except Exception as error:
        return type(error)
    if not isinstance(result, library.Tensor):
        return type(result), str(result)
    return str(result.dtype).rpartition(".")[2], result.tolist(), result is t


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", OPERATORS)
def test_d16_operators_with_arrays_on_either_side(name: str) -> None:
    for tensor in TENSORS:
        for array in ARRAYS:
            for shape in ((2,), ()):
                for left in (True, False):
                    case = (name, tensor, array, shape, left)
                    assert outcome(rl, *case) == outcome(torch, *case), case


@pytest.mark.filterwarnings("ignore:__array_wrap__ must accept")  # PyTorch's
def test_d16_numpy_functions_of_tensors_give_tensors() -> None:
    for function in (np.sin, np.abs, lambda x: np.add(x, np.ones(3)), lambda x: np.greater(x, 0)):
        ours, theirs = function(rl.tensor([1.0, -2.0, 3.0])), function(torch.tensor([1.0, -2.0, 3.0]))
        assert isinstance(ours, rl.Tensor)
        assert str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]
        assert np.allclose(ours.tolist(), theirs.tolist())


EXCHANGED = (
    "bool",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "int8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "complex32",
    "complex64",
    "complex128",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("name", EXCHANGED)
def test_d21_dlpack_of_every_dtype_both_ways(name: str) -> None:
    ours = rl.tensor([1, 2, 4, 8]).to(getattr(rl, name))
    theirs = torch.from_dlpack(ours)
    assert theirs.dtype is getattr(torch, name)
    assert theirs.tolist() == ours.tolist()
    theirs[0] = theirs[3]
    assert ours[0].item() == ours[3].item()  # one memory
    back = rl.from_dlpack(theirs)
    assert back.dtype is ours.dtype
    assert back.data_ptr() == ours.data_ptr()
    for capsule in (
        rl.to_dlpack(ours),
        torch.utils.dlpack.to_dlpack(theirs),
        ours.__dlpack__(stream=-1),
        ours.__dlpack__(max_version=(1, 0)),
        theirs.__dlpack__(max_version=(1, 0)),
    ):
        taken = rl.asarray(capsule)
        assert taken.tolist() == ours.tolist()
        taken[1] = taken[2]
        assert ours[1].item() == ours[2].item()
    assert rl.from_dlpack(ours[::2]).tolist() == ours[::2].tolist()
    assert rl.from_dlpack(theirs, copy=True).data_ptr() != ours.data_ptr()


def test_d21_dlpack_refuses_what_it_cannot_say() -> None:
    x = rl.ones(3)
    with pytest.raises(TypeError, match="stream"):
        x.__dlpack__(stream=object())
    with pytest.raises(AssertionError, match="stream"):
        x.__dlpack__(stream=2)
    with pytest.raises(BufferError, match="gradient"):
        rl.ones(3, requires_grad=True).__dlpack__()
    with pytest.raises(BufferError, match="strided"):
        rl.eye(2).to_sparse().__dlpack__()
    with pytest.raises(ValueError, match="meta"):
        rl.ones(2, device="meta").__dlpack_device__()
    capsule = rl.to_dlpack(x)
    rl.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="once"):
        rl.from_dlpack(capsule)
    with pytest.raises(RuntimeError, match="__dlpack__"):
        rl.from_dlpack(3)
    for bad in (3, "text", None):

        class Bad:
            def __dlpack__(self, given: Any = bad) -> Any:
                return given

            def __dlpack_device__(self) -> tuple[int, int]:
                return (1, 0)

        with pytest.raises(TypeError, match="capsule"):
            rl.from_dlpack(Bad())


# Lifetimes: an array lives on after its tensor, and a tensor after its array.


def test_memory_outlives_the_tensor_or_the_array() -> None:
    x = rl.arange(1000.0)
    array, view, capsule = x.numpy(), x[10:20].numpy(), rl.to_dlpack(x)
    unread = rl.to_dlpack(x)
    gone = weakref.ref(x)
    del x
    gc.collect()
    assert gone() is None
    assert array.sum() == 499500
    assert view.tolist() == list(range(10, 20))
    kept = rl.from_dlpack(capsule)
    del array, view, capsule, unread
    gc.collect()
    assert kept.sum().item() == 499500
    source = np.arange(1000.0)
    t = rl.from_numpy(source)
    part = t[5:7]
    owner = weakref.ref(source)
    del source, t
    gc.collect()
    assert owner() is not None
    assert part.tolist() == [5.0, 6.0]
    del part
    gc.collect()
    assert owner() is None


def test_memory_that_others_hold_is_not_resized() -> None:
    for tensor in (rl.from_numpy(np.ones(3)), rl.frombuffer(bytearray(12), dtype=rl.float32)):
        with pytest.raises(RuntimeError, match="not resizable"):
            tensor.resize_(100)
        assert tensor.shape == (3,)
    x = rl.arange(3.0)
    array = x.numpy()
    with pytest.raises(RuntimeError, match="not resizable"):
        x.resize_(1000)
    assert x.resize_(2).tolist() == [0.0, 1.0]
    array[0] = 5.0
    assert x[0].item() == 5.0
    shared = rl.arange(4.0)
    consumer = torch.from_dlpack(shared)
    with pytest.raises(RuntimeError, match="not resizable"):
        shared.untyped_storage().resize_(10**6)
    shared.set_()
    gc.collect()
    assert consumer.tolist() == [0.0, 1.0, 2.0, 3.0]


def test_read_only_memory_stays_as_it_is() -> None:
    WARNINGS.given.clear()  # it is given once
    source = np.ones(3)
    source.flags.writeable = False
    with pytest.warns(UserWarning, match="not writable"):
        x = rl.from_numpy(source)
    assert (x + 1).tolist() == [2, 2, 2]
    with pytest.raises((RuntimeError, ValueError)):
        x.add_(1)
    assert source.tolist() == [1, 1, 1]
    text = b"\x01\x02\x03"
    with pytest.warns(UserWarning, match="not writable"):
        y = rl.frombuffer(text, dtype=rl.uint8)
    with pytest.raises((RuntimeError, ValueError)):
        y.fill_(7)
    assert text == b"\x01\x02\x03"
