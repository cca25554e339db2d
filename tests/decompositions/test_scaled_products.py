"""Products of groups and of scaled narrow types, functional resizing, checks of tensors."""

from __future__ import annotations

import pytest
import torch

import rushlight as rl
from rushlight.core.dispatch import run_name


def both(*shape: int) -> tuple[rl.Tensor, torch.Tensor]:
    values = torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape)))
    return rl.from_numpy(values.numpy()), values


def equal(found: rl.Tensor, expected: torch.Tensor) -> None:
    torch.testing.assert_close(torch.from_numpy(found.numpy()), expected)


@pytest.mark.parametrize("ends", [[2, 5], [0, 5], [3, 3], [2, 4]])
def test_grouped_products(ends: list[int]) -> None:
    offs, spans = rl.tensor(ends), list(zip([0, *ends], ends, strict=False))
    (a, ta), (b, tb), (c, tc), (d, td) = both(5, 3), both(2, 3, 4), both(2, 4, 3), both(3, 5)
    rows = torch.zeros(5, 4, dtype=torch.float64)
    for g, (first, last) in enumerate(spans):
        rows[first:last] = ta[first:last] @ tb[g]
    equal(rl._grouped_mm(a, b, offs), rows)
    columns = torch.zeros(4, 5, dtype=torch.float64)
    for g, (first, last) in enumerate(spans):
        columns[:, first:last] = tc[g] @ td[:, first:last]
    equal(rl._grouped_mm(c, d, offs), columns)
    (e, te), (f, tf) = both(2, 5), both(5, 3)
    equal(rl._grouped_mm(e, f, offs), torch.stack([te[:, i:j] @ tf[i:j] for i, j in spans]))


def test_a_batch_needs_no_offsets() -> None:
    (b, tb), (c, tc) = both(2, 3, 4), both(2, 4, 3)
    equal(rl._grouped_mm(b, c), tb @ tc)
    with pytest.raises(RuntimeError, match="offs"):
        rl._grouped_mm(b, c, rl.tensor([1, 2]))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):
        rl._grouped_mm(b, b)


def test_scaled_products() -> None:
    (a, ta), (b, tb) = both(3, 4), both(4, 5)
    narrow = [t.float().to(torch.float8_e4m3fn).float() for t in (ta, tb)]
    wide = (narrow[0] @ narrow[1]) * 0.5 * 2.0 + 1
    x, y = (t.float().to(rl.float8_e4m3fn) for t in (a, b))
    found = rl._scaled_mm(x, y, rl.tensor(0.5), rl.tensor(2.0), rl.ones(5), out_dtype=rl.float32)
    equal(found, wide)
    rows, columns = torch.rand(3, 1), torch.rand(1, 5)
    found = rl._scaled_mm(
        x, y, rl.from_numpy(rows.numpy()), rl.from_numpy(columns.numpy()), out_dtype=rl.float32
    )
    equal(found, (narrow[0] * rows) @ (narrow[1] * columns))
    with pytest.raises(RuntimeError, match="scale_a"):
        rl._scaled_mm(x, y, rl.ones(2), rl.tensor(1.0))


def test_whole_weights() -> None:
    (x, tx), weights, scales = (
        both(3, 4),
        torch.randint(-9, 9, (5, 4), dtype=torch.int8),
        torch.rand(5).double(),
    )
    found = run_name("_weight_int8pack_mm", x, rl.from_numpy(weights.numpy()), rl.from_numpy(scales.numpy()))
    equal(found, tx @ (weights.double() * scales[:, None]).T)


def test_resizing_without_writing() -> None:
    x = rl.arange(6.0).reshape(2, 3)
    assert run_name("resize", x, (2, 2), None).tolist() == torch.arange(4.0).reshape(2, 2).tolist()
    assert run_name("resize", x, (7,), None).tolist()[:6] == list(range(6))
    assert tuple(run_name("resize_as", x, rl.ones(1, 4), None).shape) == (1, 4) and tuple(x.shape) == (2, 3)


def test_checks_of_tensors() -> None:
    x = rl.ones(2, 3)
    run_name("_assert_tensor_metadata", x, (2, 3), (3, 1), rl.float32, None, None)
    for wrong, match in (((3, 2), "sizes"),):
        with pytest.raises(RuntimeError, match=match):
            run_name("_assert_tensor_metadata", x, wrong, None, None, None, None)
    with pytest.raises(RuntimeError, match="dtype"):
        run_name("_assert_tensor_metadata", x, None, None, rl.float64, None, None)
    run_name("_assert_async", rl.tensor(True))
    with pytest.raises(RuntimeError, match="nonzero"):
        run_name("_assert_async", rl.tensor(0))
    with pytest.raises(RuntimeError, match="no room"):
        run_name("_assert_async.msg", rl.tensor(False), "no room")
