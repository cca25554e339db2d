"""Convolutions as products with windows: values and gradients against torch."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from rushlight.codegen.llvm.module import emit_module
from rushlight.core.dtypes import from_numpy
from rushlight.core.shapes import Spec, contiguous_strides
from rushlight.loops.kernels import Product
from rushlight.loops.nest import Buffer, MemoryKind
from rushlight.loops.program import Program
from rushlight.lowering.conv import convolution, convolution_backward
from rushlight.lowering.lowered import Lowered, Lowerer
from rushlight.plan.passes import plan_program
from rushlight.runtime.engine import engine
from rushlight.runtime.executable import aligned_bytes
from rushlight.runtime.linking import addresses_of
from rushlight.runtime.threads import pool
from rushlight.schedule.memory import bytes_of
from rushlight.schedule.passes import schedule

torch = pytest.importorskip("torch")
functional = torch.nn.functional

GUARD = 4096  # bytes before and after each array


def spec_of(shape: Sequence[int], dtype: Any) -> Spec:
    return Spec(tuple(shape), from_numpy(np.dtype(dtype)), contiguous_strides(shape), 0)


def native(
    rule: Callable[..., Any], arrays: Sequence[np.ndarray], specs: Sequence[Spec]
) -> tuple[Callable[[], list[np.ndarray]], list[Any]]:
    """A function that runs rule(low, *tensors) on `arrays`, and the steps of its schedule.

    Everything lies between zones of NaN, which must stay as they are.
    """
    low = Lowerer()
    inputs = [low.fresh_buffer(from_numpy(a.dtype), (a.size,), MemoryKind.INPUT) for a in arrays]
    results = rule(low, *[low.stored(b, a.shape) for b, a in zip(inputs, arrays, strict=True)])
    outputs = [low.fresh_buffer(spec.dtype, spec.shape, MemoryKind.OUTPUT) for spec in specs]
    for buffer, result in zip(outputs, results, strict=True):
        Lowered(low, result.shape, result.dtype, result.load).realize(buffer)
    scheduled = schedule(Program(low.recorder, tuple(low.definitions), {}, tuple(outputs)))
    plan = plan_program(scheduled, engine().target)
    plan.verify()
    module = emit_module(plan)
    imports = addresses_of(module.imports)
    library = engine().build(module.text, ["entry0"], imports)
    assert module.segments == ["entry0"]
    sizes: list[tuple[Buffer, int]] = [(b, bytes_of(b)) for b in (*inputs, *outputs)]
    memory = {b: aligned_bytes(size + 2 * GUARD) for b, size in sizes}
    workspace = aligned_bytes(plan.workspace.size + 2 * GUARD)
    block = (ctypes.c_int64 * (1 + len(module.slots)))()
    error = ctypes.c_int64(0)
    block[0], block[1] = pool().address, ctypes.addressof(error)
    for buffer, offset in plan.workspace.offsets.items():
        block[module.slots[buffer]] = address(workspace) + GUARD + offset
    for b, whole in memory.items():
        whole[:] = 255
        if b in module.slots:
            block[module.slots[b]] = address(whole) + GUARD
    for b, array in zip(inputs, arrays, strict=True):
        memory[b][GUARD : GUARD + array.nbytes] = array.reshape(-1).view(np.uint8)
    entry = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(library.addresses["entry0"])

    def run() -> list[np.ndarray]:
        workspace[:] = 255
        entry(ctypes.addressof(block))
        for guarded in (*memory.values(), workspace):
            assert (guarded[:GUARD] == 255).all()
            assert (guarded[-GUARD:] == 255).all()
        return [
            memory[b][GUARD : GUARD + bytes_of(b)].view(s.dtype.numpy).reshape(s.shape)
            for b, s in zip(outputs, specs, strict=True)
        ]

    run.kept = library, run, lambda: entry(ctypes.addressof(block))  # type: ignore[attr-defined]
    return run, plan.steps


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def close(ours: np.ndarray, theirs: Any, terms: int) -> None:
    exact = theirs.detach().numpy()
    assert ours.shape == exact.shape
    scale = max(1.0, float(np.abs(exact).max(initial=0)))
    np.testing.assert_allclose(ours, exact, rtol=0, atol=scale * terms * np.finfo(ours.dtype).eps)


def check(
    x_shape: Sequence[int],
    w_shape: Sequence[int],
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
    transposed: bool = False,
    output_padding: Any = 0,
    dtype: Any = np.float32,
) -> list[Any]:
    """Forward and all gradients against torch in float64."""
    rng = np.random.default_rng(0)
    space = len(x_shape) - 2
    stride, padding, dilation, output_padding = (
        (v,) * space if isinstance(v, int) else tuple(v) for v in (stride, padding, dilation, output_padding)
    )
    channels = w_shape[1] * groups if transposed else w_shape[0]
    x, w, b = (rng.standard_normal(shape).astype(dtype) for shape in (x_shape, w_shape, (channels,)))
    tx, tw, tb = (torch.from_numpy(a.astype(np.float64)).requires_grad_() for a in (x, w, b))
    theirs = torch.convolution(tx, tw, tb, stride, padding, dilation, transposed, output_padding, groups)
    spec = spec_of(theirs.shape, dtype)

    def forward(low: Lowerer, *tensors: Lowered) -> list[Lowered]:
        return [convolution(*tensors, stride, padding, dilation, transposed, groups, low, spec)]

    run, steps = native(forward, [x, w, b], [spec])
    close(run()[0], theirs, 8 * w.size)
    grad = rng.standard_normal(theirs.shape).astype(dtype)
    theirs.backward(torch.from_numpy(grad.astype(np.float64)))
    specs = [spec_of(a.shape, dtype) for a in (x, w, b)]

    def backward(low: Lowerer, *tensors: Lowered) -> Any:
        mask = (True, True, True)
        return convolution_backward(*tensors, stride, padding, dilation, transposed, groups, mask, low, specs)

    run, _ = native(backward, [grad, x, w], specs)
    for ours, leaf in zip(run(), (tx, tw, tb), strict=True):
        close(ours, leaf.grad, 8 * (grad.size + w.size))
    return steps


@pytest.mark.parametrize(
    ("x", "weight", "options"),
    [
        ((2, 3, 8, 9), (5, 3, 3, 3), {}),
        ((1, 1, 1, 1), (1, 1, 1, 1), {}),
        ((3, 4, 11, 6), (7, 4, 1, 1), {"stride": 2}),
        ((2, 5, 7, 13), (17, 5, 3, 2), {"padding": 1}),
        ((2, 3, 20), (4, 3, 5), {"stride": 2, "padding": 1}),
        ((1, 2, 5, 6, 7), (3, 2, 2, 3, 3), {"padding": 1}),
        ((4, 16, 12, 12), (32, 16, 3, 3), {"padding": 1}),
    ],
)
def test_shapes(x: Any, weight: Any, options: dict[str, Any]) -> None:
    check(x, weight, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"dilation": (1, 3), "padding": (2, 4)},
        {"stride": 3, "dilation": 2, "padding": 3},
        {"stride": (3, 1), "padding": (0, 4)},
    ],
)
@pytest.mark.parametrize("transposed", [False, True])
def test_strides_and_dilations(options: dict[str, Any], transposed: bool) -> None:
    check((2, 6, 13, 11), (6, 6, 3, 3), transposed=transposed, **options)


@pytest.mark.parametrize("groups", [2, 6])
@pytest.mark.parametrize("transposed", [False, True])
def test_groups(groups: int, transposed: bool) -> None:
    weight = (6, 12 // groups, 3, 3) if transposed else (12, 6 // groups, 3, 3)
    check((2, 6, 9, 8), weight, groups=groups, transposed=transposed, stride=2, padding=1)


def test_larger_groups() -> None:
    check((2, 32, 9, 8), (48, 16, 3, 3), groups=2, padding=1)


def test_output_padding() -> None:
    check((2, 3, 5, 6), (3, 4, 3, 3), stride=2, output_padding=(1, 0), transposed=True, padding=1)


def test_double_and_a_long_sum() -> None:
    check((2, 3, 9, 8), (5, 3, 3, 3), padding=1, dtype=np.float64)
    check((3, 4, 40, 41), (8, 4, 3, 3), padding=1)


def test_odd_sizes() -> None:
    for seed, transposed in itertools.product(range(2), (False, True)):
        rng = np.random.default_rng(seed)
        n, c, o, h, w = (int(v) for v in rng.integers(1, 20, 5))
        kernel = [int(v) for v in rng.integers(1, 4, 2)]
        shape = (c, o, *kernel) if transposed else (o, c, *kernel)
        check(
            (n, c, h + 4, w + 4),
            shape,
            stride=int(rng.integers(1, 3)),
            padding=int(rng.integers(0, 2)),
            transposed=transposed,
        )


def test_one_product() -> None:
    steps = check((2, 16, 10, 10), (32, 16, 3, 3), padding=1)
    assert len([s for s in steps if isinstance(s, Product)]) == 1
