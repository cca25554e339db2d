"""Programs whose compiled form differed from eager execution: values, strides, aliasing, requires_grad."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

import rushlight as rl

from . import mismatch_programs, mismatch_programs_undefined


@dataclass(frozen=True)
class Program:
    """The text of a function `program` over `L`, the library, and what to call it with."""

    text: str
    specs: list[tuple[tuple[int, ...], str, str, bool]]
    views: list[tuple[int, str]] = field(default_factory=list)
    numbers: list[Any] = field(default_factory=list)
    undefined: dict[int, str] = field(default_factory=dict)
    finite: str = ""


_DATA = mismatch_programs.PROGRAMS | mismatch_programs_undefined.PROGRAMS
PROGRAMS = {number: Program(**_DATA[number]) for number in sorted(_DATA)}

SPECIAL = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, -1e-30])


def values(shape: tuple[int, ...], dtype: str, draw: np.random.Generator, special: bool) -> np.ndarray:
    if dtype == "bool":
        return draw.integers(0, 2, shape).astype(bool)
    if "int" in dtype:
        return draw.integers(0 if dtype.startswith("u") else -4, 5, shape)
    parts = []
    for _ in range(2):
        part = np.round(draw.standard_normal(shape) * 24) / 8
        chosen = draw.random(shape) < (0.4 if special else 0.0)
        parts.append(np.where(chosen, draw.choice(SPECIAL, shape), part))
    with np.errstate(invalid="ignore"):
        return parts[0] + 1j * parts[1] if dtype.startswith("complex") else parts[0]


def laid_out(tensor: rl.Tensor, layout: str) -> rl.Tensor:
    shape, dtype = tuple(tensor.shape), tensor.dtype
    if not shape or layout == "c" or (layout == "cl" and len(shape) != 4):
        return tensor
    if layout == "t":
        room = rl.zeros(shape[::-1], dtype=dtype).permute(*range(len(shape))[::-1])
    elif layout == "slice":
        room = rl.zeros((2 * shape[0], *shape[1:]), dtype=dtype)[::2]
    elif layout == "inner":
        room = rl.zeros((*shape[:-1], 2 * shape[-1]), dtype=dtype)[..., ::2]
    elif layout == "offset":
        room = rl.zeros(tensor.numel() + 3, dtype=dtype)[3:].view(shape)
    else:
        room = rl.zeros(shape, dtype=dtype).contiguous(memory_format=rl.channels_last)
    return room.copy_(tensor)


def arguments(program: Program, seed: int, special: bool) -> list[Any]:
    draw = np.random.default_rng(seed)
    tensors = []
    for shape, dtype, layout, requires_grad in program.specs:
        tensor = rl.tensor(values(shape, dtype, draw, special)).to(getattr(rl, dtype))
        tensors.append(laid_out(tensor, layout).requires_grad_(requires_grad))
    views = [eval(text.format("tensor"), {"tensor": tensors[i]}) for i, text in program.views]
    return [*tensors, *views, *program.numbers]


def looks(tensor: rl.Tensor) -> Any:
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.requires_grad, tensor.is_leaf


def aliases(tensors: tuple[rl.Tensor, ...]) -> list[tuple[int, int]]:
    memory = [t.untyped_storage().data_ptr() if t.numel() else None for t in tensors]
    return [(i, j) for i in range(len(memory)) for j in range(i) if memory[i] == memory[j] is not None]


def data(tensor: rl.Tensor) -> np.ndarray:
    tensor = tensor.detach().resolve_conj().resolve_neg()
    return (tensor.float() if tensor.dtype is rl.bfloat16 else tensor).numpy()


@pytest.mark.filterwarnings("ignore:var.*degrees of freedom")
@pytest.mark.filterwarnings("ignore:Use of index_fill_ on expanded tensors")
@pytest.mark.parametrize("number", PROGRAMS)
def test_a6_a7_a8_program(number: int) -> None:
    program = PROGRAMS[number]
    made: dict[str, Any] = {"L": rl}
    exec(program.text, made)
    eager, compiled = made["program"], rl.compile(made["program"])
    for seed, special in enumerate((False, False, not program.finite)):
        expected = eager(*arguments(program, seed, special))
        found = compiled(*arguments(program, seed, special))
        assert [looks(t) for t in found] == [looks(t) for t in expected]
        assert aliases(found) == aliases(expected)
        for i, (a, b) in enumerate(zip(found, expected, strict=True)):
            if i in program.undefined:
                continue
            exact = not (b.is_floating_point() or b.is_complex())
            with np.errstate(invalid="ignore"):
                same = (
                    np.array_equal(data(a), data(b))
                    if exact
                    else np.allclose(data(a), data(b), 1e-4, 1e-4, equal_nan=True)
                )
            assert same, f"output {i}, data {seed}: {a}, not {b}"


def test_a7_expm1_of_the_smallest_numbers():
    for dtype in (rl.float32, rl.float64):
        x = rl.tensor([2.0**-149, -(2.0**-149), 2.0**-1074, 1e-40, 1e-30, 0.0, -0.0, 2.0**-26], dtype=dtype)

        def function(x):
            y = rl.expm1(x)
            return y, y.logical_not(), rl.signbit(y)

        for a, b in zip(rl.compile(function)(x), function(x), strict=True):
            assert rl.equal(a, b)


def test_a7_complex_quotients_by_zero_and_squares():
    x = rl.tensor(
        [1 + 2j, 0, complex("inf"), 1e-30j, complex(-np.inf, 2), complex(2, np.inf), -1j, 1e30],
        dtype=rl.complex64,
    )
    zero = rl.zeros(8)
    found = rl.compile(lambda x, zero: (x / zero, x / zero.to(x.dtype), x**2))(x, zero)
    for a, b in zip(found, (x / zero, x / zero.to(x.dtype), x**2), strict=True):
        assert np.array_equal(a.numpy().view(np.float32), b.numpy().view(np.float32), equal_nan=True)


def test_a7_products_of_infinity_and_zero():
    x = rl.ones(5, 7)
    x[0, 3], x[4, 1] = float("inf"), 0.0
    assert rl.compile(rl.prod)(x).isnan()
    assert rl.equal(rl.compile(lambda x: x.prod(0).isnan())(x), x.prod(0).isnan())
