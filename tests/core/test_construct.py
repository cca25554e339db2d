"""tensor, as_tensor, asarray, from_numpy, frombuffer and from_dlpack on many inputs, against PyTorch."""

from __future__ import annotations

import array
import math
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import rushlight

SCOPE = {"np": np, "nan": math.nan, "inf": math.inf, "array": array}


def outcome(expression: str, lib: Any) -> Any:
    """What can be seen of a result, or the type of the exception."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            result = eval(expression, {"t": lib, **SCOPE})
        except Exception as error:
            return type(error)
    if not isinstance(result, lib.Tensor):
        return result
    values = None if result.device.type == "meta" else repr(result.tolist())
    strides = [stride for stride, size in zip(result.stride(), result.shape, strict=True) if size > 1]
    return (
        tuple(result.shape),
        str(result.dtype).rpartition(".")[2],
        values,
        result.requires_grad,
        str(result.device),
        strides if result.numel() else None,
    )


def check(expressions: list[str]) -> None:
    wrong = [
        f"{e}: PyTorch {expected}, here {actual}"
        for e in expressions
        if (actual := outcome(e, rushlight)) != (expected := outcome(e, torch))
    ]
    assert not wrong, "\n".join(wrong)


NUMBERS = """
1 | 1.5 | True | 1j | 2**40 | 2**63-1 | -2**63 | 2**63 | 2**64 | -2**63-1 | nan | inf | None | "a" | b"ab"
{1: 2}
{1} | object() | float | t.float32 | (x for x in [1, 2]) | iter([1]) | 10**400
"""

SEQUENCES = """
[] | [[]] | [[], []] | [[[]]] | () | [1, 2] | (1, 2) | [1, 2.5] | [True, 2] | [True, 2.5] | [1, 1j] | [True,
                                                                                                       1j]
[[1, 2], [3, 4]] | [[1, 2], [3]] | [[1, 2], 3] | [1, [2]] | [[1], []] | [[], [1]] | [1,
                                                                                     None] | ["a"]
[[1, "a"]]
["ab", "cd"] | [1, "a"] | [1, {}] | [{}] | [1.5, [2]] | [[1, 2], [3, [4]]] | range(3) | [range(3)] | [True,
                                                                                                      False]
[1e300] | [2**40, 1] | [2**63] | [2**64] | [1.5, 2**40] | [2**63, 1.5] | [(1, 2),
                                                                          [3, 4]] | [object()] | [None]
[[[1, 2], [3, 4]], [[5, 6], [7, 8]]] | [[[1, 2], [3, 4]], [[5, 6], [7]]] | array.array("i",
                                                                                       [1, 2])
bytearray(b"ab")
memoryview(b"ab") | t.Size([1, 2])
"""

ARRAYS = """
np.float32(1.5) | np.float64(1.5) | np.int8(3) | np.bool_(True) | np.complex64(1j) | np.uint16(3)
np.uint64(2**63)
[np.float32(1.5)] | [np.float64(1.5)] | [np.int8(3)] | [np.int8(3), 2] | [np.float32(1),
                                                                          2.0] | [np.float16(1)]
[np.bool_(True), 2] | [np.bool_(True)] | [np.float64(1.5), np.float32(2)] | np.array(1) | np.array([])
np.zeros((0, 3)) | np.zeros((2, 0)) | np.array(["a"]) | np.array([None]) | np.array([1, "a"], dtype=object)
[np.array([1, 2]), np.array([3, 4])] | [np.array([1., 2]), [3, 4]] | [np.array([1, 2]), np.array([3])]
[np.array(1.5, dtype=np.float32), 2] | [np.array([1.5], dtype=np.float32)] | (np.zeros(2), np.zeros(2))
[np.array([1, 2]), 3] | [3, np.array([1, 2])] | [np.array([1, 2]), np.array([1.5, 2])]
np.zeros((2, 3)).T | np.zeros((2, 3))[:, ::-1] | np.zeros((2, 3))[:, ::2] | np.zeros(3,
                                                                                     ">f4")
np.arange(3)[None]
np.zeros(2, dtype="datetime64[s]") | np.zeros(2,
                                              dtype=[("a", int)]) | np.ma.array([1, 2]) | np.matrix([[1, 2]])
"""

TENSORS = """
t.tensor(3) | t.tensor([1., 2.]) | [t.tensor(1), t.tensor(2)] | [t.tensor(1.5), 2] | [t.tensor(1), 2.5]
[t.tensor([1, 2]), t.tensor([3, 4])] | [t.tensor([1])] | [t.tensor([1, 2]),
                                                          [3, 4]] | [t.tensor(1, dtype=t.int8)]
[t.tensor(1., dtype=t.float64)] | [t.tensor(1., dtype=t.float64), t.tensor(1)] | [t.tensor(True), 1]
t.tensor([1., 2.]).requires_grad_() | [t.tensor(1.).requires_grad_()] | t.zeros(2, device="meta")
[t.zeros((), device="meta")] | t.arange(6.).reshape(2, 3).t()
"""


def cells(text: str) -> list[str]:
    return [cell.strip() for line in text.strip().splitlines() for cell in line.split(" | ")]


@pytest.mark.parametrize("function", ["tensor", "as_tensor", "asarray"])
@pytest.mark.parametrize(
    "inputs", [NUMBERS, SEQUENCES, ARRAYS, TENSORS], ids=["numbers", "sequences", "arrays", "tensors"]
)
def test_what_it_makes_of_it(function: str, inputs: str) -> None:
    check([f"t.{function}({value})" for value in cells(inputs)])


DTYPES = [
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
    "complex64",
    "complex128",
]
VALUES = [
    "1",
    "1.5",
    "-1",
    "-129",
    "300",
    "True",
    "1j",
    "1+0j",
    "nan",
    "inf",
    "-inf",
    "1e10",
    "2**40",
    "2**63-1",
    "2**63",
    "2**64-1",
    "2**64",
    "-2**63",
    "-2**63-1",
    "-1.5",
    "-0.5",
    "255.5",
    "256.5",
    "1e300",
    "1e39",
    "70000.",
    "65519.9",
    "0.1",
    "np.float32(1.5)",
    "np.float64(1.5)",
    "np.int8(3)",
    "np.bool_(True)",
    "np.uint64(2**63)",
    "t.tensor(1.5)",
    "t.tensor(3)",
    "t.tensor(True)",
    "t.tensor([3])",
    "t.tensor([1,2])",
    "np.array(1.5)",
    "np.array([3])",
]


@pytest.mark.parametrize("dtype", DTYPES)
def test_conversion_to_a_dtype(dtype: str) -> None:
    inputs = [
        *VALUES,
        *(f"[{value}]" for value in VALUES),
        *(f"[{value}, 1]" for value in VALUES[:24]),
        "[]",
        "np.array([1.5, 300., -1])",
        "[1, 2.5]",
        "[[1, 2], [3, 4]]",
    ]
    check([f"t.tensor({value}, dtype=t.{dtype})" for value in inputs])


@pytest.mark.parametrize("dtype", [name for name in DTYPES if name != "bfloat16"])
def test_arrays_of_a_dtype(dtype: str) -> None:
    made = f"np.array([0, 1, 2]).astype(np.{'bool_' if dtype == 'bool' else dtype})"
    check([f"t.{function}({made})" for function in ("tensor", "as_tensor", "asarray", "from_numpy")])


OPTIONS = """
t.tensor([1, 2], device="meta") | t.tensor([1., 2], requires_grad=True) | t.tensor([1, 2], requires_grad=True)
t.tensor([1, 2], pin_memory=False) | t.tensor() | t.tensor(1, 2) | t.tensor(data=[1]) | t.tensor([1],
                                                                                                 t.float32)
t.tensor([1], dtype=float) | t.tensor([1], dtype=int) | t.tensor([1], dtype="float32") | t.tensor([1],
                                                                                                  dtype=np.float32)
t.tensor([1], device="cpu:0").shape == (1,) | t.as_tensor([1], dtype=t.float32) | t.as_tensor([1], t.float32)
t.as_tensor(np.arange(3), dtype=t.float32) | t.as_tensor(t.arange(3), dtype=t.float32) | t.as_tensor([1],
                                                                                                     device="meta")
t.as_tensor(np.arange(3), device="meta") | t.as_tensor(np.zeros(3)[::-1]) | t.asarray([1, 2], copy=False)
t.asarray(np.arange(3), copy=False) | t.asarray(np.arange(3), copy=True) | t.asarray(t.arange(3), copy=False)
t.asarray(np.arange(3), dtype=t.float32, copy=False) | t.asarray(t.arange(3.), requires_grad=True)
t.asarray(np.arange(3.), requires_grad=True) | t.asarray(np.arange(3), requires_grad=True)
t.asarray(bytearray(b"abcd"),
          dtype=t.uint8) | t.asarray(bytearray(b"abcdefgh")) | t.asarray(b"") | t.asarray(bytearray())
t.asarray(bytearray(b"abcdefgh"), dtype=t.int32) | t.asarray(bytearray(b"abc"), dtype=t.int32)
t.asarray(memoryview(bytearray(b"abcd")), dtype=t.uint8) | t.asarray(array.array("f", [1, 2]))
t.asarray([1, 2], dtype=t.float64) | t.asarray([1], device="meta") | t.asarray(np.arange(3), device="meta",
                                                                               copy=False)
t.asarray(t.arange(3.).requires_grad_()) | t.asarray(t.arange(3.).requires_grad_(), requires_grad=False)
t.asarray(3, copy=False) | t.asarray(np.float32(3), copy=False) | t.asarray(np.array(3), copy=False)
t.from_numpy([1]) | t.from_numpy(1) | t.from_numpy(np.float32(1)) | t.from_numpy(np.array(1.5))
t.from_numpy(np.zeros((2, 3)).T) | t.from_numpy(np.zeros(3)[::-1]) | t.from_numpy(np.zeros(3, ">f4"))
t.from_numpy(np.array(["a"])) | t.from_numpy(np.zeros(2, dtype=[("a", np.int8), ("b", np.float32)])["b"])
t.from_numpy(np.broadcast_to(np.zeros(1), (3,))) | t.from_dlpack(np.arange(3.)) | t.from_dlpack(t.arange(3))
t.from_dlpack([1]) | t.from_dlpack(np.zeros((2,
                                             3)).T) | t.from_dlpack(np.array(1.5))
t.from_dlpack(np.array([True]))
t.Tensor([1, 2]) | t.Tensor() | t.Tensor((1,
                                          2)) | t.Tensor(np.zeros(2)) | t.Tensor(t.zeros(2)) | t.Tensor(2.5)
t.Tensor([[1, 2], [3]]) | t.Tensor("a") | t.zeros(2).new_tensor([1, 2]) | t.zeros(2).new_tensor(3,
                                                                                                dtype=t.int8)
t.zeros(2, dtype=t.int64).new_tensor([1.7]) | t.zeros(2).new_tensor(t.arange(2))
"""

BUFFERS = [
    "",
    ", count=1",
    ", offset=4",
    ", offset=3",
    ", count=3",
    ", count=0",
    ", count=-2",
    ", offset=-1",
    ", offset=8",
    ", offset=9",
    ", count=1, offset=6",
]


def test_options() -> None:
    check(cells(OPTIONS))


def test_frombuffer() -> None:
    check([f't.frombuffer(bytearray(b"abcdefgh"), dtype=t.int32{more})' for more in BUFFERS])
    check(
        [
            't.frombuffer(bytearray(b""), dtype=t.int32)',
            't.frombuffer(bytearray(b"abc"), dtype=t.int32)',
            "t.frombuffer([1], dtype=t.int32)",
            't.frombuffer(bytearray(b"abcd"))',
            't.frombuffer(bytearray(b"abcd"), dtype=t.float32, requires_grad=True)',
            't.frombuffer(bytearray(b"abcd"), dtype=t.bfloat16)',
            't.frombuffer(array.array("d", [1, 2]), dtype=t.float64)',
        ]
    )


def test_memory_is_shared_where_it_should_be() -> None:
    source = np.arange(4.0)
    shared = [
        rushlight.from_numpy(source),
        rushlight.as_tensor(source),
        rushlight.asarray(source, copy=False),
        rushlight.from_dlpack(source),
    ]
    copies = [
        rushlight.tensor(source),
        rushlight.asarray(source, copy=True),
        rushlight.as_tensor(source, dtype=rushlight.float32),
    ]
    source[0] = 7
    assert all(tensor[0].item() == 7 for tensor in shared)
    assert all(tensor[0].item() == 0 for tensor in copies)
    shared[0][1] = 5
    assert source[1] == 5
    buffer = bytearray(8)
    rushlight.frombuffer(buffer, dtype=rushlight.uint8)[0] = 255
    assert buffer[0] == 255


def test_memory_of_pytorch_is_shared_through_dlpack() -> None:
    theirs = torch.arange(3.0)
    ours = rushlight.from_dlpack(theirs)
    theirs[0] = 9
    assert ours.tolist() == [9.0, 1.0, 2.0]
    back = torch.from_dlpack(ours)
    ours[1] = 8
    assert back.tolist() == [9.0, 8.0, 2.0]


def test_a_tensor_is_copied_without_history() -> None:
    x = rushlight.ones(2, requires_grad=True)
    copy = rushlight.tensor(x * 2)
    assert copy.is_leaf
    assert not copy.requires_grad
    assert rushlight.as_tensor(x) is x
    assert rushlight.tensor(x, requires_grad=True) is not x


def test_a_sequence_nested_in_itself_is_refused() -> None:
    loop: list = []
    loop.append(loop)
    with pytest.raises(ValueError, match="128 dimensions"):
        rushlight.tensor(loop)


def test_messages_say_what_is_wrong() -> None:
    for data, error, text in (
        ([[1, 2], [3]], ValueError, "expected sequence of length 2 at dim 1"),
        ([1, "a"], TypeError, "invalid data type 'str'"),
        ({1: 2}, RuntimeError, "Could not infer dtype of dict"),
    ):
        with pytest.raises(error, match=text):
            rushlight.tensor(data)
    with pytest.raises(RuntimeError, match="300"):
        rushlight.tensor([1, 300], dtype=rushlight.uint8)
