"""torch.nn.functional: images of another size, and sampling at the places of a grid."""

from __future__ import annotations

import numbers
import warnings
from typing import Any

from ..core.dispatch import run_name
from ..core.errors import check
from ..core.tensor import Tensor

__all__ = [
    "GRID_SAMPLE_INTERPOLATION_MODES",
    "GRID_SAMPLE_PADDING_MODES",
    "affine_grid",
    "grid_sample",
    "interpolate",
    "upsample",
    "upsample_bilinear",
    "upsample_nearest",
]

_WITHOUT_CORNERS = ("nearest", "area", "nearest-exact")
_SMOOTH = {
    ("linear", 3): "upsample_linear1d",
    ("bilinear", 4): "upsample_bilinear2d",
    ("trilinear", 5): "upsample_trilinear3d",
    ("bicubic", 4): "upsample_bicubic2d",
}
_ANTIALIASED = ("bilinear", "bicubic", "lanczos")


def interpolate(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
    recompute_scale_factor: bool | None = None,
    antialias: bool = False,
) -> Tensor:
    """An image of another size, given or by a factor.

    >>> F.interpolate(rl.tensor([[[1.0, 2.0]]]), scale_factor=2, mode="linear")
    tensor([[[1.0000, 1.2500, 1.7500, 2.0000]]])
    """
    if mode in _WITHOUT_CORNERS:
        check(
            align_corners is None,
            "align_corners option can only be set with the interpolating modes: linear | bilinear | bicubic "
            "| "
            "trilinear",
            ValueError,
        )
    sizes, factors = _sizes(input, size, scale_factor)
    check(
        not recompute_scale_factor or size is None,
        "recompute_scale_factor is not meaningful with an explicit size.",
        ValueError,
    )
    if factors is not None and (recompute_scale_factor or mode == "area"):
        sizes = tuple(int(n * factor) for n, factor in zip(input.shape[2:], factors, strict=True))
        factors = None
    check(
        not antialias or (mode in _ANTIALIASED and input.ndim == 4),
        "Anti-alias option is restricted to bilinear, bicubic, and lanczos modes and requires a 4-D tensor "
        "as "
        "input",
        ValueError,
    )
    return _resampled(input, sizes, factors, mode, bool(align_corners), antialias)


def _sizes(
    input: Tensor, size: Any, scale_factor: Any
) -> tuple[tuple[int, ...] | None, tuple[float, ...] | None]:
    """The output size or the factors, one for each spatial dimension; the other is None."""
    check(
        size is None or scale_factor is None, "only one of size or scale_factor should be defined", ValueError
    )
    check(
        size is not None or scale_factor is not None,
        "either size or scale_factor should be defined",
        ValueError,
    )
    rank, given = input.ndim - 2, size if size is not None else scale_factor
    what = "output size" if size is not None else "scale_factor"
    each = isinstance(given, tuple | list)
    given = given if each else (given,) * rank
    check(
        not each or len(given) == rank,
        f"Input and {what} must have the same number of spatial dimensions, but got input with spatial "
        f"dimensions of {list(input.shape[2:])} and {what} of {given}. Please provide input tensor in (N, C, "
        "d1, d2, ...,dK) format and one number for each of d1, d2, ...,dK.",
        ValueError,
    )
    if size is None:
        check(
            all(isinstance(factor, numbers.Real | Tensor) for factor in given),
            f"interpolate: scale_factor must be numbers, not {[type(factor) for factor in given]}",
            TypeError,
        )
        return None, tuple(float(factor) for factor in given)
    check(
        all(_is_size(n) for n in given),
        "expected size to be one of int or Tuple[int] or Tuple[int, int] or Tuple[int, int, int], but got "
        f"size with types {[type(n) for n in given]}",
        TypeError,
    )
    return tuple(given), None


def _is_size(n: Any) -> bool:
    if isinstance(n, Tensor):
        return n.ndim == 0 and not (n.is_floating_point() or n.is_complex())
    return hasattr(n, "__index__") and not isinstance(n, bool)


def _resampled(
    input: Tensor,
    sizes: tuple[int, ...] | None,
    factors: tuple[float, ...] | None,
    mode: str,
    align_corners: bool,
    antialias: bool,
) -> Tensor:
    rank = input.ndim - 2
    if mode == "lanczos" and rank == 2:
        check(not align_corners, "Lanczos mode does not support align_corners=True", ValueError)
        check(antialias, "Lanczos mode requires antialias=True", ValueError)
    if antialias:
        return run_name(f"_upsample_{mode}2d_aa.vec", input, sizes, align_corners, factors)
    if 1 <= rank <= 3:
        if mode == "nearest":
            return run_name(f"upsample_nearest{rank}d.vec", input, sizes, factors)
        if mode == "nearest-exact":
            return run_name(f"_upsample_nearest_exact{rank}d.vec", input, sizes, factors)
        if mode == "area":
            return run_name(f"adaptive_avg_pool{rank}d", input, sizes)
        if (mode, input.ndim) in _SMOOTH:
            return run_name(f"{_SMOOTH[mode, input.ndim]}.vec", input, sizes, align_corners, factors)
    wanted = next((ndim for name, ndim in _SMOOTH if name == mode), None)
    check(
        wanted is None or not 1 <= rank <= 3,
        f"Got {input.ndim}D input, but {mode} mode needs {wanted}D input",
        NotImplementedError,
    )
    raise NotImplementedError(
        f"Input Error: Only 3D, 4D and 5D input Tensors supported (got {input.ndim}D) for the modes: "
        f"nearest | "
        f"linear | bilinear | bicubic | trilinear | lanczos | area | nearest-exact (got {mode})"
    )


def upsample(
    input: Tensor,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool | None = None,
) -> Tensor:
    """The former name of `interpolate`.

    >>> F.upsample(rl.ones(1, 1, 2, 2), scale_factor=2).shape
    rushlight.Size([1, 1, 4, 4])
    """
    _deprecated("upsample", "interpolate")
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Images enlarged by repeating pixels; `interpolate` is what to use.

    >>> F.upsample_nearest(rl.ones(1, 1, 2, 2), scale_factor=2).shape
    rushlight.Size([1, 1, 4, 4])
    """
    _deprecated("upsample_nearest", "interpolate")
    return interpolate(input, size, scale_factor, mode="nearest")


def upsample_bilinear(input: Tensor, size: Any = None, scale_factor: Any = None) -> Tensor:
    """Images enlarged by bilinear interpolation, with corners aligned; `interpolate` is what to use.

    >>> F.upsample_bilinear(rl.ones(1, 1, 2, 2), scale_factor=2).shape
    rushlight.Size([1, 1, 4, 4])
    """
    _deprecated("upsample_bilinear", "interpolate")
    return interpolate(input, size, scale_factor, mode="bilinear", align_corners=True)


def _deprecated(name: str, instead: str) -> None:
    warnings.warn(
        f"`nn.functional.{name}` is deprecated. Use `nn.functional.{instead}` instead.",
        UserWarning,
        stacklevel=3,
    )


# Grids.

GRID_SAMPLE_INTERPOLATION_MODES = {"bilinear": 0, "nearest": 1, "bicubic": 2}
GRID_SAMPLE_PADDING_MODES = {"zeros": 0, "border": 1, "reflection": 2}


def _corners(align_corners: bool | None) -> bool:
    if align_corners is None:
        warnings.warn(
            "Default grid_sample and affine_grid behavior has changed to align_corners=False since 1.3.0. "
            "Please specify align_corners=True if the old behavior is desired. See the documentation of "
            "grid_sample for details.",
            UserWarning,
            stacklevel=3,
        )
    return bool(align_corners)


def grid_sample(
    input: Tensor,
    grid: Tensor,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool | None = None,
) -> Tensor:
    """The image at the places of a grid, which go from -1 to 1 and name the last dimension first.

    >>> F.grid_sample(rl.arange(4.0).reshape(1, 1, 2, 2), rl.zeros(1, 1, 1, 2), align_corners=False)
    tensor([[[[1.5000]]]])
    """
    check(
        mode in GRID_SAMPLE_INTERPOLATION_MODES,
        f"nn.functional.grid_sample(): expected mode to be 'bilinear', 'nearest' or 'bicubic', but got: "
        f"'{mode}'",
        ValueError,
    )
    check(
        padding_mode in GRID_SAMPLE_PADDING_MODES,
        "nn.functional.grid_sample(): expected padding_mode to be 'zeros', 'border', or 'reflection', but "
        "got: "
        f"'{padding_mode}'",
        ValueError,
    )
    kinds = GRID_SAMPLE_INTERPOLATION_MODES[mode], GRID_SAMPLE_PADDING_MODES[padding_mode]
    return run_name("grid_sampler", input, grid, *kinds, _corners(align_corners))


def affine_grid(theta: Tensor, size: Any, align_corners: bool | None = None) -> Tensor:
    """The places where affine maps take those of an image, for `grid_sample`.

    >>> theta = rl.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> F.affine_grid(theta, [1, 1, 2, 1], align_corners=True).shape
    rushlight.Size([1, 2, 1, 2])
    """
    corners = _corners(align_corners)
    check(
        theta.is_floating_point(),
        f"Expected theta to have floating point type, but got {theta.dtype}",
        ValueError,
    )
    check(
        len(size) in (4, 5),
        "affine_grid only supports 4D and 5D sizes, for 2D and 3D affine transforms, respectively. Got size "
        f"{size}.",
        NotImplementedError,
    )
    rank = len(size) - 2
    check(
        theta.ndim == 3 and tuple(theta.shape[1:]) == (rank, rank + 1),
        f"Expected a batch of {rank}D affine matrices of shape Nx{rank}x{rank + 1} for size {size}. Got "
        f"{list(theta.shape)}.",
        ValueError,
    )
    if corners and min(size[2:]) == 1:
        warnings.warn(
            "Since version 1.3.0, affine_grid behavior has changed for unit-size grids when "
            "align_corners=True. This is not an intended use case of affine_grid. See the documentation of "
            "affine_grid for details.",
            UserWarning,
            stacklevel=2,
        )
    else:
        check(min(size) > 0, f"Expected non-zero, positive output size. Got {size}", ValueError)
    return run_name("affine_grid_generator", theta, tuple(size), corners)
