"""Images of another size and sampling at the places of a grid, against PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import rushlight
from rushlight.core.dispatch import run_name

SIZES: list[dict[str, Any]] = [
    {"size": 7},
    {"size": 3},
    {"size": 1},
    {"size": 5},
    {"scale_factor": 2.0},
    {"scale_factor": 0.6},
    {"scale_factor": 1.7},
    {"scale_factor": 1.7, "recompute_scale_factor": True},
]
MODES = [
    (rank, mode, corners)
    for rank, smooth in ((1, ["linear"]), (2, ["bilinear", "bicubic"]), (3, ["trilinear"]))
    for mode, corners in [
        ("nearest", None),
        ("nearest-exact", None),
        ("area", None),
        *[(mode, corners) for mode in smooth for corners in (False, True)],
    ]
]


def torch_of(tensor: Any) -> torch.Tensor:
    return torch.from_numpy(tensor.numpy().copy())


def compare(function: Callable[..., Any], *tensors: torch.Tensor) -> None:
    """Results and gradients of `function` of nn.functional and tensors."""
    ours = [rushlight.tensor(t.numpy(), requires_grad=t.is_floating_point()) for t in tensors]
    theirs = [t.clone().requires_grad_(t.is_floating_point()) for t in tensors]
    got, wanted = function(rushlight.nn.functional, *ours), function(torch.nn.functional, *theirs)
    torch.testing.assert_close(torch_of(got.detach()), wanted.detach())
    if not wanted.requires_grad:
        return
    for result in (got, wanted):
        (result * result).sum().backward()
    for a, e in zip(ours, theirs, strict=True):
        torch.testing.assert_close(torch_of(a.grad), e.grad)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize(("rank", "mode", "corners"), MODES)
def test_interpolate(rank: int, mode: str, corners: bool | None, size: dict[str, Any]) -> None:
    x = torch.randn((2, 2, *(5, 6, 4)[:rank]), dtype=torch.float64)
    compare(lambda F, x: F.interpolate(x, mode=mode, align_corners=corners, **size), x)


@pytest.mark.parametrize(
    "size",
    [{"size": (7, 3)}, {"size": (1, 2)}, {"size": (9, 10)}, {"scale_factor": 0.3}, {"scale_factor": 1.7}],
    ids=str,
)
@pytest.mark.parametrize(
    ("mode", "corners"),
    [("bilinear", False), ("bilinear", True), ("bicubic", False), ("bicubic", True), ("lanczos", False)],
)
def test_antialias(mode: str, corners: bool, size: dict[str, Any]) -> None:
    x = torch.randn(2, 2, 9, 10, dtype=torch.float64)
    compare(lambda F, x: F.interpolate(x, mode=mode, align_corners=corners, antialias=True, **size), x)


@pytest.mark.parametrize(
    ("mode", "antialias"),
    [
        ("nearest", False),
        ("nearest-exact", False),
        ("bilinear", False),
        ("bicubic", False),
        ("bilinear", True),
        ("bicubic", True),
    ],
)
def test_bytes_exactly(mode: str, antialias: bool) -> None:
    """Images of bytes are rounded after each dimension, from 16-bit weights."""
    for channels, size in ((3, (7, 3)), (5, (15, 17))):
        x = torch.randint(0, 256, (2, channels, 9, 10), dtype=torch.uint8)
        compare(lambda F, x, size=size: F.interpolate(x, size, mode=mode, antialias=antialias), x)


def test_infinities_stay_where_they_are() -> None:
    x = torch.ones(1, 1, 1, 12)
    x[..., 0] = float("inf")
    wanted = torch.nn.functional.interpolate(x, (1, 4), mode="bilinear", antialias=True)
    got = rushlight.nn.functional.interpolate(
        rushlight.tensor(x.numpy()), (1, 4), mode="bilinear", antialias=True
    )
    assert torch.equal(torch_of(got), wanted)


@pytest.mark.parametrize(
    "name",
    [
        "upsample_nearest2d",
        "_upsample_nearest_exact2d",
        "upsample_bilinear2d",
        "upsample_bicubic2d",
        "_upsample_bilinear2d_aa",
        "_upsample_bicubic2d_aa",
    ],
)
def test_backward_operators(name: str) -> None:
    grad = torch.randn(2, 3, 7, 3, dtype=torch.float64)
    corners = () if "nearest" in name else (False,)
    args = ((7, 3), (2, 3, 5, 6), *corners, None, None)
    wanted = getattr(torch.ops.aten, f"{name}_backward")(grad, *args)
    torch.testing.assert_close(
        torch_of(run_name(f"{name}_backward", rushlight.tensor(grad.numpy()), *args)), wanted
    )


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "bicubic"])
def test_memory_format_is_kept(mode: str) -> None:
    x = rushlight.randn(2, 3, 5, 6).contiguous(memory_format=rushlight.channels_last)
    y = rushlight.nn.functional.interpolate(x, (7, 3), mode=mode)
    assert y.is_contiguous(memory_format=rushlight.channels_last)
    assert rushlight.nn.functional.interpolate(x.contiguous(), (7, 3), mode=mode).is_contiguous()


@pytest.mark.filterwarnings("ignore:`nn.functional.upsample", "ignore:.*is deprecated")
def test_former_names() -> None:
    x = torch.randn(1, 2, 4, 4, dtype=torch.float64)
    compare(lambda F, x: F.upsample(x, scale_factor=2), x)
    compare(lambda F, x: F.upsample_nearest(x, 3), x)
    compare(lambda F, x: F.upsample_bilinear(x, (3, 7)), x)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize(
    ("rank", "mode"), [(2, "bilinear"), (2, "nearest"), (2, "bicubic"), (3, "bilinear"), (3, "nearest")]
)
def test_grid_sample(rank: int, mode: str, padding: str, corners: bool) -> None:
    torch.manual_seed(3)
    grid = torch.randn(2, *(4,) * rank, rank, dtype=torch.float64) * 1.3
    grid[0, 0, 0], grid[0, 0, 1], grid[1, 1, 1] = 1.0, -1.0, 50.0  # at both ends, and far outside
    x = torch.randn(2, 3, *(5, 6, 4)[:rank], dtype=torch.float64)
    compare(lambda F, x, grid: F.grid_sample(x, grid, mode, padding, corners), x, grid)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_that_is_no_number(mode: str, padding: str) -> None:
    places = torch.tensor([float("nan"), 1e30, -1e30, 0.5])
    grid = places.reshape(1, 1, 4, 1).expand(1, 1, 4, 2).contiguous()
    x = torch.arange(1.0, 10.0).reshape(1, 1, 3, 3)
    wanted = torch.nn.functional.grid_sample(x, grid, mode, padding, align_corners=True)
    ours = [rushlight.tensor(t.numpy()) for t in (x, grid)]
    got = rushlight.nn.functional.grid_sample(*ours, mode, padding, align_corners=True)
    torch.testing.assert_close(torch_of(got), wanted, equal_nan=True)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("size", [(2, 3, 4, 5), (2, 3, 4, 5, 6)])
def test_affine_grid(size: tuple[int, ...], corners: bool) -> None:
    rank = len(size) - 2
    theta = torch.randn(2, rank, rank + 1, dtype=torch.float64)
    compare(lambda F, theta: F.affine_grid(theta, size, corners), theta)
    grad = torch.randn(2, *size[2:], rank, dtype=torch.float64)
    wanted = torch.ops.aten.affine_grid_generator_backward(grad, size, corners)
    got = run_name("affine_grid_generator_backward", rushlight.tensor(grad.numpy()), size, corners)
    torch.testing.assert_close(torch_of(got), wanted)


ERRORS: dict[str, Callable[[Any, Any], Any]] = {
    "size and factor": lambda lib, F: F.interpolate(lib.ones(1, 1, 4), 3, 2.0),
    "neither": lambda lib, F: F.interpolate(lib.ones(1, 1, 4)),
    "corners of nearest": lambda lib, F: F.interpolate(lib.ones(1, 1, 4), 3, align_corners=True),
    "mode and rank": lambda lib, F: F.interpolate(lib.ones(1, 1, 4), 3, mode="bilinear"),
    "unknown mode": lambda lib, F: F.interpolate(lib.ones(1, 1, 4), 3, mode="cubic"),
    "number of sizes": lambda lib, F: F.interpolate(lib.ones(1, 1, 4), (3, 3)),
    "size is a float": lambda lib, F: F.interpolate(lib.ones(1, 1, 4), (3.5,)),
    "empty output": lambda lib, F: F.interpolate(lib.ones(1, 1, 4), 0),
    "no channels": lambda lib, F: F.interpolate(lib.ones(1, 0, 4), 3),
    "integers": lambda lib, F: F.interpolate(lib.ones(1, 1, 4, dtype=lib.int64), 3),
    "bytes in 1-D": lambda lib, F: F.interpolate(lib.ones(1, 1, 4, dtype=lib.uint8), 3, mode="linear"),
    "antialias of nearest": lambda lib, F: F.interpolate(lib.ones(1, 1, 4, 4), 3, antialias=True),
    "grid mode": lambda lib, F: F.grid_sample(
        lib.ones(1, 1, 2, 2), lib.ones(1, 1, 1, 2), "cubic", align_corners=True
    ),
    "grid batch": lambda lib, F: F.grid_sample(
        lib.ones(1, 1, 2, 2), lib.ones(2, 1, 1, 2), align_corners=True
    ),
    "grid size": lambda lib, F: F.grid_sample(lib.ones(1, 1, 2, 2), lib.ones(1, 1, 1, 3), align_corners=True),
    "grid rank": lambda lib, F: F.grid_sample(lib.ones(1, 1, 2), lib.ones(1, 1, 1), align_corners=True),
    "bicubic in 3-D": lambda lib, F: F.grid_sample(
        lib.ones(1, 1, 2, 2, 2), lib.ones(1, 1, 1, 1, 3), "bicubic", align_corners=True
    ),
    "theta": lambda lib, F: F.affine_grid(lib.ones(1, 2, 2), (1, 1, 2, 2), False),
    "affine size": lambda lib, F: F.affine_grid(lib.ones(1, 2, 3), (1, 1, 2), False),
}


@pytest.mark.parametrize("case", ERRORS)
def test_errors(case: str) -> None:
    with pytest.raises(Exception) as expected:
        ERRORS[case](torch, torch.nn.functional)
    with pytest.raises(Exception) as actual:
        ERRORS[case](rushlight, rushlight.nn.functional)
    assert type(actual.value) is type(expected.value)
