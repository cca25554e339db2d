"""The namespace quantized_decomposed against PyTorch's: values, dtypes, refusals, and what it compiles to."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    import torch.ao.quantization.fx._decomposed

import rushlight as rl
from rushlight.compiler.function import CompiledFunction

OPS, THEIRS = rl.ops.quantized_decomposed, torch.ops.quantized_decomposed
RANGES = {
    "uint8": (0, 255),
    "int8": (-128, 127),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**30), 2**30),
    "float8_e4m3fn": (-448, 448),
    "float8_e5m2": (-57344, 57344),
}
EDGES = [0.0, -0.0, 0.25, 0.75, -0.25, 1.25, 12.7, -12.8, 12.75, 1e9, -1e9, 3e38, np.inf, -np.inf, 0.05, 25.6]


def both(values, dtype):
    values = np.asarray(values)
    return (
        rl.from_numpy(values.copy()).to(getattr(rl, dtype)),
        torch.from_numpy(values.copy()).to(getattr(torch, dtype)),
    )


def agree(mine, theirs):
    assert str(mine.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
    assert mine.stride() == theirs.stride()
    left, right = (t.detach().to(m.float64).numpy() for t, m in ((mine, rl), (theirs, torch)))
    np.testing.assert_array_equal(left, right)


def call(name, arguments):
    """Each argument is a pair (mine, theirs), or one value for both; dtypes go by name."""
    mine, theirs = [], []
    for argument in arguments:
        if isinstance(argument, str):
            argument = getattr(rl, argument), getattr(torch, argument)
        pair = argument if isinstance(argument, tuple) else (argument, argument)
        mine.append(pair[0])
        theirs.append(pair[1])
    packet, _, overload = name.partition(".")
    ours = getattr(getattr(OPS, packet), overload or "default")
    other = getattr(getattr(THEIRS, packet), overload or "default")
    return ours, mine, other, theirs


def check(name, *arguments, compiles=False, **options):
    ours, mine, other, theirs = call(name, arguments)
    my_options = {k: getattr(rl, v) for k, v in options.items()}
    expected = other(*theirs, **{k: getattr(torch, v) for k, v in options.items()})
    agree(ours(*mine, **my_options), expected)
    if not compiles:
        return
    tensors = [i for i, value in enumerate(mine) if isinstance(value, rl.Tensor)]

    def function(*given):
        values = list(mine)
        for i, value in zip(tensors, given, strict=True):
            values[i] = value
        return ours(*values, **my_options)

    compiled = CompiledFunction(function, fullgraph=True)
    agree(compiled(*[mine[i] for i in tensors]), expected)
    (entry,) = next(iter(compiled.specializations.values()))
    # there is no native code for float8 values
    assert entry.artifact.executable.native is not any("float8" in repr(value) for value in mine)


@pytest.mark.parametrize("kind", RANGES)
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_quantize_per_tensor(kind, dtype):
    low, high = RANGES[kind]
    x = both([EDGES, EDGES[::-1]], dtype)
    for scale, zero_point in ((0.1, 0), (0.5, low), (0.5, high), (1 / 3, 7)):
        check("quantize_per_tensor", x, scale, zero_point, low, high, kind, compiles=scale == 0.1)
        tensors = both([scale], "float32"), both(zero_point, "int64")
        check(
            "quantize_per_tensor.tensor",
            x,
            *tensors,
            low,
            high,
            kind,
            compiles=dtype == "float32" and scale == 1 / 3,
        )
        check(
            "quantize_per_tensor.tensor",
            x,
            both(scale, "float64"),
            both([[zero_point]], "int32"),
            low,
            high,
            kind,
        )
        check("quantize_per_tensor.tensor2", x, *tensors, both([low], "int64"), both([high], "int64"), kind)


@pytest.mark.parametrize("kind", RANGES)
@pytest.mark.parametrize("out", [None, "float32", "float16", "bfloat16", "float64"])
def test_dequantize_per_tensor(kind, out):
    low, high = RANGES[kind]
    random = np.random.default_rng(0)
    values = np.array([low, high, 0, 1, *random.integers(low, high, 20)], np.float64).reshape(4, 6).T
    x = both(values, kind)
    options = {} if out is None else {"out_dtype": out}
    for scale, zero_point in ((0.1, 0), (0.5, low), (1 / 3, high), (1e-3, 7)):
        check(
            "dequantize_per_tensor", x, scale, zero_point, low, high, kind, compiles=scale == 0.1, **options
        )
        tensors = both([scale], "float32"), both(zero_point, "int64")
        check(
            "dequantize_per_tensor.tensor",
            x,
            *tensors,
            low,
            high,
            kind,
            compiles=out == "float32" and scale == 1 / 3,
            **options,
        )
        check(
            "dequantize_per_tensor.tensor2",
            x,
            *tensors,
            both([low], "int64"),
            both([high], "int64"),
            kind,
            **options,
        )


@pytest.mark.parametrize("kind", ["uint8", "int8", "int16", "int32"])
@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_per_channel(kind, axis):
    low, high = RANGES[kind]
    random = np.random.default_rng(axis + 5)
    shape = (3, 4, 16)
    channels = shape[axis]
    x = both(np.broadcast_to(EDGES, shape) + 0.05 * random.integers(-9, 9, shape), "float32")
    for steps, points in (("float32", "int64"), ("float64", "int32"), ("float32", "float32")):
        scales = both(random.uniform(0.05, 0.5, channels), steps)
        zeros = both(random.integers(max(low, -20), min(high, 20), channels), points)
        check("quantize_per_channel", x, scales, zeros, axis, low, high, kind, compiles=points == "int64")
        check("quantize_per_channel", x, both([0.2], steps), both([3], points), axis, low, high, kind)
        ints = both(random.integers(low, high, shape), kind)
        check(
            "dequantize_per_channel", ints, scales, zeros, axis, low, high, kind, compiles=points == "int32"
        )
        check("dequantize_per_channel", ints, scales, None, axis, low, high, kind, out_dtype="float16")


def test_shapes_and_layouts():
    for shape in ((), (0, 3), (1,)):
        x = both(np.full(shape, 0.37), "float32")
        check("quantize_per_tensor", x, 0.1, 2, 0, 255, "uint8")
        check("quantize_per_tensor.tensor", x, both(0.1, "float64"), both(2, "int64"), 0, 255, "uint8")
        ints = both(np.full(shape, 7), "uint8")
        check(
            "dequantize_per_tensor.tensor",
            ints,
            both(0.1, "float64"),
            both(2, "int64"),
            0,
            255,
            "uint8",
            out_dtype="float16",
        )
    mine, theirs = both(np.arange(24.0).reshape(2, 3, 4), "float32")
    for view in (lambda t: t.permute(2, 0, 1), lambda t: t[:, ::2], lambda t: t[:, :, :1].expand(2, 3, 5)):
        check("quantize_per_tensor", (view(mine), view(theirs)), 0.3, 1, 0, 255, "uint8")


REFUSED = [
    ("quantize_per_tensor", both([1.0], "float64"), 0.1, 0, 0, 255, "uint8"),
    ("quantize_per_tensor", both([1], "int32"), 0.1, 0, 0, 255, "uint8"),
    ("quantize_per_tensor", both([1.0], "float8_e5m2"), 0.1, 0, 0, 255, "uint8"),
    ("quantize_per_tensor", both([1.0], "float32"), 0.1, 0, 0, 255, "int64"),
    ("quantize_per_tensor", both([1.0], "float32"), 0.1, 0, 0, 255, "float32"),
    ("quantize_per_tensor", both([1.0], "float32"), 0.1, 0, -1, 255, "uint8"),
    ("quantize_per_tensor", both([1.0], "float32"), 0.1, 0, 0, 128, "int8"),
    ("quantize_per_tensor", both([1.0], "float32"), 0.0, 0, 0, 127, "int8"),
    (
        "quantize_per_tensor.tensor",
        both([1.0], "float32"),
        both([0.0], "float32"),
        both([0], "int64"),
        0,
        255,
        "uint8",
    ),
    (
        "quantize_per_tensor.tensor",
        both([1.0], "float32"),
        both([0.1, 0.2], "float32"),
        both([0], "int64"),
        0,
        255,
        "uint8",
    ),
    (
        "quantize_per_tensor.tensor",
        both([1.0], "float32"),
        both([0.1], "float32"),
        both([0, 1], "int64"),
        0,
        255,
        "uint8",
    ),
    (
        "quantize_per_tensor.tensor2",
        both([1.0], "float32"),
        both([0.1], "float32"),
        both([0], "int64"),
        both([-1], "int64"),
        both([255], "int64"),
        "uint8",
    ),
    ("dequantize_per_tensor", both([1], "int8"), 0.1, 0, 0, 255, "uint8"),
    ("dequantize_per_tensor", both([1], "int64"), 0.1, 0, 0, 255, "int64"),
    (
        "dequantize_per_tensor.tensor",
        both([1], "int8"),
        both([0.1] * 2, "float32"),
        both([0], "int64"),
        -128,
        127,
        "int8",
    ),
    (
        "quantize_per_channel",
        both([1.0], "float64"),
        both([0.1], "float32"),
        both([0], "int64"),
        0,
        0,
        255,
        "uint8",
    ),
    (
        "quantize_per_channel",
        both([1.0], "float32"),
        both([0.1], "float32"),
        both([0], "int64"),
        1,
        0,
        255,
        "uint8",
    ),
    (
        "quantize_per_channel",
        both([1.0] * 3, "float32"),
        both([0.1] * 2, "float32"),
        both([0] * 2, "int64"),
        0,
        0,
        255,
        "uint8",
    ),
    (
        "dequantize_per_channel",
        both([1], "uint8"),
        both([0.1], "float32"),
        both([0], "int64"),
        0,
        -128,
        127,
        "int8",
    ),
    (
        "dequantize_per_channel",
        both([1], "uint8"),
        both([0.1], "float32"),
        both([0], "int64"),
        0,
        -128,
        127,
        "uint8",
    ),
]


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case[0])
def test_what_is_refused(case):
    ours, mine, other, theirs = call(case[0], case[1:])
    with pytest.raises(Exception) as expected:
        other(*theirs)
    with pytest.raises(expected.type):
        ours(*mine)


def test_numbers_are_inputs_of_a_program():
    compiled = CompiledFunction(
        lambda x, scale: OPS.dequantize_per_tensor(
            OPS.quantize_per_tensor(x, scale, 3, -128, 127, rl.int8), scale, 3, -128, 127, rl.int8
        ),
        fullgraph=True,
    )
    x = rl.linspace(-2, 2, 41)
    for scale in (0.1, 0.25, 0.3):
        ints = OPS.quantize_per_tensor(x, scale, 3, -128, 127, rl.int8)
        agree(
            compiled(x, scale),
            torch.from_numpy(OPS.dequantize_per_tensor(ints, scale, 3, -128, 127, rl.int8).numpy()),
        )
    assert sum(map(len, compiled.specializations.values())) == 1


def test_gradients_pass_through_what_is_not_rounded():
    mine, theirs = both([0.1, 0.2, 0.4], "float32")
    results = []
    for lib, scales in ((rl, mine.requires_grad_()), (torch, theirs.requires_grad_())):
        ints = lib.tensor([[4, -3, 2], [1, 1, -7]], dtype=lib.int8)
        zeros = lib.tensor([1, 0, -2])
        lib.ops.quantized_decomposed.dequantize_per_channel(
            ints, scales, zeros, 1, -128, 127, lib.int8
        ).square().sum().backward()
        results.append(scales.grad)
    np.testing.assert_allclose(results[0].numpy(), results[1].numpy(), rtol=1e-6)


def test_the_namespace():
    assert set(dir(OPS)) >= {"quantize_per_tensor", "dequantize_per_channel"} and "add" not in dir(OPS)
    assert OPS.quantize_per_tensor.overloads() == ["default", "tensor", "tensor2"]
    assert (
        repr(OPS.quantize_per_tensor.tensor)
        == "<OpOverload(op='quantized_decomposed.quantize_per_tensor', overload='tensor')>"
    )
    with pytest.raises(AttributeError, match="quantized_decomposed::add"):
        OPS.add
    with pytest.raises(AttributeError, match="no overload 'other'"):
        OPS.quantize_per_tensor.other
    assert str(OPS.quantize_per_tensor.tensor.op.schema) == str(THEIRS.quantize_per_tensor.tensor._schema)
