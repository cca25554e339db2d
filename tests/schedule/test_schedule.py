"""What is fused, what runs together, and that neither changes results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight
from rushlight.loops.expr import walk
from rushlight.loops.kernels import Product
from rushlight.loops.nest import MemoryKind
from rushlight.loops.plans import LoopPlan
from rushlight.loops.program import Program
from rushlight.runtime.threads import pool
from rushlight.schedule.memory import buffers_of, bytes_of


def compiled(function: Callable[..., Any], *arrays: np.ndarray) -> tuple[Any, Any]:
    """(the result, the artifact) of a compiled call."""
    run = rushlight.compile(function, fullgraph=True)
    result = run(*[rushlight.tensor(a) for a in arrays])
    ((entry,),) = run.specializations.values()
    return result, entry.artifact


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def nests(schedule: Program) -> list[LoopPlan]:
    return [step for step in schedule.steps if isinstance(step, LoopPlan)]


# Fusion.


def layer_norm_gelu(x: Any, weight: Any, bias: Any) -> Any:
    centred = x - x.mean(-1, keepdim=True)
    scaled = centred * rushlight.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5) * weight + bias
    return scaled * 0.5 * (1 + rushlight.erf(scaled * 0.7071))


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x: rushlight.softmax(x, 1), [(40, 30)]),
        (lambda x: rushlight.log_softmax(x, -1), [(40, 30)]),
        (layer_norm_gelu, [(40, 30), (30,), (30,)]),
        (lambda x, y: rushlight.tanh(x * y + 0.1) * rushlight.sigmoid(y), [(40, 30), (40, 30)]),
    ],
)
def test_one_kernel_and_no_workspace(function: Callable[..., Any], shapes: list[tuple[int, ...]]) -> None:
    _, artifact = compiled(function, *[normal(*shape) for shape in shapes])
    assert len(artifact.schedule.steps) == 1
    assert artifact.planned.workspace.size == 0


def test_a_row_that_is_cheap_to_compute_is_not_stored() -> None:
    _, artifact = compiled(layer_norm_gelu, normal(40, 30), normal(30), normal(30))
    (plan,) = nests(artifact.schedule)
    assert not any(access.buffer.memory is MemoryKind.ROW for access in plan.nest.writes())


def test_the_update_of_a_weight_runs_on_the_tiles_of_its_gradient() -> None:
    def update(x: Any, grad: Any, weight: Any, scale: Any) -> Any:
        gradient = (x.t() @ grad).t()
        return weight - gradient / (1 - scale)

    x, grad, weight, scale = normal(16, 24), normal(16, 40), normal(40, 24), np.float32(0.5).reshape(())
    result, artifact = compiled(update, x, grad, weight, scale)
    np.testing.assert_allclose(result.numpy(), weight - (x.T @ grad).T / 0.5, rtol=1e-5, atol=1e-5)
    products = [step for step in artifact.schedule.steps if isinstance(step, Product)]
    assert len(products) == 1
    assert products[0].epilogue is not None


# Stages.


def many_updates(*tensors: Any) -> Any:
    return [rushlight.sqrt(t * t + 1) for t in tensors]


def test_independent_kernels_run_in_one_stage_and_share_their_code() -> None:
    sizes = (1000, 4096, 77, 300, 12, 5)
    arrays = [normal(n, seed=n) for n in sizes]
    result, artifact = compiled(many_updates, *arrays)
    for ours, array in zip(result, arrays, strict=True):
        np.testing.assert_allclose(ours.numpy(), np.sqrt(array * array + 1), rtol=1e-6)
    assert len(artifact.schedule.stages) == 1
    assert len(artifact.schedule.steps) == len(sizes)
    functions = [
        line
        for line in artifact.module.text.splitlines()
        if line.startswith("define") and '@"kernel' in line and ".task" not in line
    ]
    assert 1 <= len(functions) < len(sizes)


def test_a_stage_does_not_write_what_it_reads() -> None:
    def steps(x: Any) -> Any:
        y = x.sum(0)
        z = rushlight.cumsum(x, 0) * y
        return z.sum(1), y.sum(), rushlight.softmax(z, 0)

    _, artifact = compiled(steps, normal(30, 40))
    schedule = artifact.schedule
    for stage in schedule.stages:
        written: list[Any] = []
        read: list[Any] = []
        for step in stage.steps:
            reads, writes = step.inputs, step.outputs
            assert not set(writes) & set(written)
            assert not set(writes) & set(read)
            assert not set(reads) & set(written)
            written += writes
            read += [b for b in reads if b not in writes]


def test_a_write_to_a_part_follows_the_parts_below_it() -> None:
    def steps(row: Any, x: Any) -> Any:
        double = rushlight.cat([x * 2, x * 2], 1)
        double[27] = row
        padded = rushlight.constant_pad_nd(rushlight.cat([x, x], 0), (1, 1), 3.0)
        padded[:, 0] = 5.0
        return double, padded

    arrays = normal(10), normal(33, 5)
    found, _ = compiled(steps, *arrays)
    expected = steps(*[rushlight.tensor(a) for a in arrays])
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def test_buffers_of_one_time_do_not_overlap() -> None:
    def steps(x: Any, y: Any) -> Any:
        for _ in range(4):
            x, y = (x @ y).softmax(0), (y @ x).cumsum(0).softmax(1)
        return x + y

    _, artifact = compiled(steps, normal(20, 20), normal(20, 20))
    schedule = artifact.schedule
    times: dict[Any, tuple[int, int]] = {}
    for at, stage in enumerate(schedule.stages):
        for step in stage.steps:
            for buffer in buffers_of(step):
                if buffer.memory is MemoryKind.TEMPORARY:
                    times[buffer] = (times.get(buffer, (at, at))[0], at)
    spans = [(artifact.planned.workspace.offsets[b], bytes_of(b), *times[b]) for b in times]
    assert len(spans) > 2
    assert all(offset % 64 == 0 for offset, *_ in spans)
    for i, (offset, size, first, last) in enumerate(spans):
        for other, length, begin, end in spans[:i]:
            assert last < begin or end < first or offset + size <= other or other + length <= offset


# Reductions in parts.


@pytest.mark.parametrize("size", [65536, 70001, 300_000])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("sum", np.float32),
        ("sum", np.int64),
        ("amax", np.float32),
        ("amin", np.int32),
        ("argmax", np.float32),
        ("argmin", np.int64),
        ("all", np.bool_),
        ("any", np.bool_),
    ],
)
def test_large_reductions(size: int, name: str, dtype: type) -> None:
    values = (normal(size) * 50).astype(dtype)
    result, artifact = compiled(lambda x: getattr(x, name)(), values)
    assert len(artifact.schedule.steps) > 1
    exact = values.astype(np.float64) if dtype is np.float32 and name == "sum" else values
    expected = getattr(np, name)(exact)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-2 if name == "sum" else 0)


def test_large_reductions_of_nan() -> None:
    values = normal(100_000)
    values[[70_000, 40_000]] = np.nan
    assert compiled(lambda x: x.argmax(), values)[0].item() == 40_000
    assert np.isnan(compiled(lambda x: x.max(), values)[0].item())
    assert np.isnan(compiled(lambda x: x.min(), values)[0].item())


@pytest.mark.parametrize("shape", [(2000, 300), (3, 1000, 200), (1500, 7, 60)])
def test_bands_of_rows(shape: tuple[int, ...]) -> None:
    values = normal(*shape)
    for dim in range(len(shape)):
        for name in ("sum", "amax"):
            result, _ = compiled(lambda x, name=name, dim=dim: getattr(x, name)(dim), values)
            expected = getattr(np, name)(values.astype(np.float64), dim)
            np.testing.assert_allclose(result.numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.sum(),
        lambda x: x.sum(0),
        lambda x: x.mean(1),
        lambda x: rushlight.softmax(x, 0),
        lambda x: (x @ x.t()).sum(),
        lambda x: x.t().contiguous() * 2,
    ],
)
def test_results_do_not_depend_on_the_number_of_threads(function: Callable[..., Any]) -> None:
    values = normal(700, 1100)
    before = pool().size
    results = []
    try:
        for threads in (1, 2, 5):
            pool().resize(threads)
            results.append(compiled(function, values)[0].numpy())
    finally:
        pool().resize(before)
    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


# Loops.


def test_rows_of_several_dimensions_run_without_division() -> None:
    result, artifact = compiled(lambda x: x.sum(1), values := normal(6, 50, 40))
    np.testing.assert_allclose(result.numpy(), values.sum(1), rtol=1e-5, atol=1e-5)
    (plan,) = nests(artifact.schedule)
    assert plan.vector_outer
    assert "//" not in str(plan.nest) and "%" not in str(plan.nest)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int8, np.bool_])
@pytest.mark.parametrize("shape", [(300, 500), (129, 131), (8, 130), (130, 9), (5, 130, 260)])
def test_transposes(shape: tuple[int, ...], dtype: type) -> None:
    values = (normal(*shape) * 9).astype(dtype)
    result, _ = compiled(lambda x: x.transpose(-1, -2).contiguous(), values)
    np.testing.assert_array_equal(result.numpy(), values.swapaxes(-1, -2))
    result, _ = compiled(lambda x: x.permute(*reversed(range(x.ndim))) == 1, values)
    np.testing.assert_array_equal(result.numpy(), values.T == 1)


def test_a_transposed_operand_of_a_map() -> None:
    values = normal(200, 200)
    result, artifact = compiled(lambda x: x + x.t() * 2, values)
    np.testing.assert_allclose(result.numpy(), values + values.T * 2, rtol=1e-6)
    assert nests(artifact.schedule)[0].block


# Parts, bands and rows.


def test_parts_of_one_buffer_are_written_together() -> None:
    def program(a: Any, b: Any, c: Any) -> Any:
        return rushlight.cat([a + 1, b * 2, c.t()], 0).permute(1, 0).contiguous().exp()

    arrays = [normal(40, 40, seed=s) for s in range(3)]
    result, artifact = compiled(program, *arrays)
    stages = [
        [step.nest.name for step in stage.steps if isinstance(step, LoopPlan) and step.part]
        for stage in artifact.schedule.stages
    ]
    assert sorted(map(len, stages))[-1] == 3
    a, b, c = arrays
    np.testing.assert_allclose(result.numpy(), np.exp(np.concatenate([a + 1, b * 2, c.T]).T), rtol=1e-6)


def test_a_part_over_a_whole_comes_after_it() -> None:
    def program(x: Any, y: Any) -> Any:
        return rushlight.slice_scatter(x * 2, y + 1, 0, 3, 9)

    x, y = normal(20, 30), normal(6, 30, seed=1)
    result, _ = compiled(program, x, y)
    expected = x * 2
    expected[3:9] = y + 1
    np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize(
    ("shape", "dims"), [((8, 128, 128), (0, 1)), ((1024, 128), (0,)), ((3, 4, 100, 96), (0, 1, 2))]
)
def test_tall_sums_are_folded_in_bands(shape: tuple[int, ...], dims: tuple[int, ...]) -> None:
    x = normal(*shape)
    result, artifact = compiled(lambda x: x.sum(dims), x)
    assert len(artifact.schedule.steps) > 1
    np.testing.assert_allclose(result.numpy(), x.astype(np.float64).sum(dims), rtol=1e-5, atol=1e-4)


def repeated(x: Any) -> Any:
    """[n, h, w, c], each row and column of the planes twice."""
    n, h, w, c = x.shape
    return x.reshape(n, h, 1, w, 1, c).expand(n, h, 2, w, 2, c).reshape(n, 2 * h, 2 * w, c)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: (x - x.mean((0, 1, 2))).sum((0, 1, 2)),
        lambda x: x.var((0, 1, 2)),
        lambda x: repeated(x).sum((0, 1, 2)),
        lambda x: repeated(x) - repeated(x).amax((0, 1, 2)),
    ],
)
def test_sums_over_all_but_the_last_dimension(function: Callable[..., Any]) -> None:
    """Folded in bands, though others read the terms again, and though not all is read in equal steps."""
    x = normal(8, 24, 20, 40)
    before, results = pool().size, []
    try:
        for threads in (1, 3):
            pool().resize(threads)
            result, artifact = compiled(function, x)
            results.append(result.numpy())
    finally:
        pool().resize(before)
    assert any(
        buffer.name.endswith("_parts")
        for plan in nests(artifact.schedule)
        for buffer in (access.buffer for access in plan.nest.writes())
    )
    np.testing.assert_array_equal(*results)
    expected = function(rushlight.tensor(x.astype(np.float64))).numpy()
    np.testing.assert_allclose(results[0], expected, rtol=1e-4, atol=2e-2 if expected.ndim == 1 else 1e-5)


def test_the_largest_of_a_stored_row_is_known() -> None:
    """In softmax that looks whether all of a row is masked, the masked row is stored for the next phase."""

    def program(x: Any, mask: Any) -> Any:
        masked = x + mask
        empty = (masked == -float("inf")).all(-1, keepdim=True)
        return masked.softmax(-1).masked_fill(empty, 0.0)

    x, mask = normal(6, 64, 64), np.where(np.tri(64, k=-1, dtype=bool), 0, -np.inf).astype(np.float32)
    result, artifact = compiled(program, x, mask)
    operations = {
        node.op
        for plan in nests(artifact.schedule)
        for phase in plan.nest.phases
        for value in phase.values()
        for node in walk(value)
    }
    assert "exp_nonpositive" in operations
    assert "exp" not in operations
    with np.errstate(invalid="ignore"):
        weights = np.exp(x + mask) / np.exp(x + mask).sum(-1, keepdims=True)
    np.testing.assert_allclose(result.numpy(), np.nan_to_num(weights), rtol=1e-5, atol=1e-7)
