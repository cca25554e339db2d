"""Arguments for the derivative inventory of linear algebra, FFT and resampling (see inventory_samples).

`of(t, f)` is f(t) with the gradient leading back to the leaf t: what an operator takes for granted (a
symmetric or a triangular matrix) is said by f. `spd(n)`, `hermitian(n)` and `lower(n)` are such matrices of
size n.
"""

from __future__ import annotations

_GRID = {"2d": ("x(1, 2, 4, 3)", "x(1, 2, 2, 2)"), "3d": ("x(1, 2, 3, 4, 3)", "x(1, 1, 2, 2, 3)")}
_GRID_MODES = {
    "2d": ("0, 0, False", "0, 1, True", "0, 2, False", "1, 0, False", "2, 0, True"),
    "3d": ("0, 0, False", "0, 1, True", "0, 2, False", "1, 0, False"),
}
_SIZES = {
    "1d": ("2, 5", "(7,)", "2, 7"),
    "2d": ("2, 3, 4", "(5, 2)", "2, 5, 2"),
    "3d": ("2, 3, 2, 4", "(2, 5, 3)", "2, 2, 5, 3"),
}
_UPSAMPLES = {
    "linear1d": ("", "1d"),
    "bilinear2d": ("", "2d"),
    "bicubic2d": ("", "2d"),
    "trilinear3d": ("", "3d"),
    "bilinear2d_aa": ("_", "2d"),
    "bicubic2d_aa": ("_", "2d"),
    **{f"nearest{n}": ("", n) for n in _SIZES},
    **{f"nearest_exact{n}": ("_", n) for n in _SIZES},
}


def _upsample(kind: str) -> dict[str, list[str]]:
    """An interpolation and its transpose, aligned both ways where the operator asks."""
    mark, rank = _UPSAMPLES[kind]
    small, sizes, large = _SIZES[rank]
    ways = [""] if "nearest" in kind else [", False", ", True"]
    return {
        f"{mark}upsample_{kind}": [f"x(1, {small}), {sizes}{way}" for way in ways],
        f"{mark}upsample_{kind}_backward": [f"x(1, {large}), {sizes}, (1, {small}){way}" for way in ways],
    }


def _grid_sampler(rank: str) -> list[str]:
    return [f"{', '.join(_GRID[rank])}, {modes}" for modes in _GRID_MODES[rank]]


LINALG_SAMPLES: dict[str, list[str]] = {
    # linalg
    **{name: ["spd(3)", "spd(3, c)"] for name in ("cholesky", "linalg_cholesky_ex")},
    "cholesky_solve": ["x(3, 2), lower(3)", "c(3, 2), lower(3, c)"],
    "cholesky_inverse": ["lower(3)", "lower(3, c)"],
    **{
        name: ["x(3, 3)", "c(2, 2)"]
        for name in (
            "_linalg_det",
            "_linalg_slogdet",
            "linalg_inv_ex",
            "linalg_matrix_exp",
            "linalg_lu",
            "linalg_lu_factor_ex",
        )
    },
    "linalg_lu_solve": [
        "lower(3), i32([2, 3, 3]), x(3, 2)",
        "c(2, 2), i32([2, 2]), c(2, 3), adjoint=True",
        "x(2, 2), i32([2, 2]), x(3, 2), left=False",
    ],
    "lu_unpack": ["x(3, 3), i32([2, 3, 3])", "x(3, 2), i32([2, 2])", "c(2, 3), i32([2, 2])"],
    "linalg_householder_product": ["x(4, 2), p(2)", "c(3, 2), c(2)"],
    "ormqr": ["x(4, 2), p(2), x(4, 3)", "x(4, 2), p(2), x(3, 4), False, True", "c(3, 2), c(2), c(3, 2)"],
    "_linalg_solve_ex": ["x(3, 3), x(3, 2)", "c(2, 2), c(2)", "x(2, 2), x(3, 2), left=False"],
    "_linalg_eigh": ["hermitian(3)", "hermitian(3, c)"],
    "_linalg_svd": ["x(2, 3)", "x(3, 2)", "c(2, 3)"],
    "linalg_eig": ["x(3, 3)", "c(2, 2)"],
    "triangular_solve": [
        "x(3, 2), of(p(3, 3), lambda v: v.triu())",
        "x(3, 2), lower(3), False, True",
        "c(2, 2), of(c(2, 2), lambda v: v.triu())",
    ],
    "linalg_solve_triangular": [
        "lower(3), x(3, 2), upper=False",
        "lower(2, c), c(3, 2), upper=False, left=False",
    ],
    # fft
    "_fft_c2r": ["c(2, 3), (1,), 0, 4", "c(2, 3), (0, 1), 2, 5"],
    "_fft_c2c": ["c(2, 3), (1,), 0, True", "c(2, 3), (0, 1), 1, False"],
    # resample
    "affine_grid_generator": ["x(2, 2, 3), (2, 1, 2, 3), False", "x(1, 3, 4), (1, 2, 2, 1, 3), True"],
    **dict.fromkeys(("grid_sampler_2d", "_grid_sampler_2d_cpu_fallback"), _grid_sampler("2d")),
    "grid_sampler_3d": _grid_sampler("3d"),
    **{name: texts for kind in _UPSAMPLES for name, texts in _upsample(kind).items()},
    # recurrent
    "_thnn_fused_lstm_cell": ["x(2, 12), x(2, 12), x(2, 3), x(12), x(12)"],
    "_pack_padded_sequence": ["x(4, 2, 3), i([4, 2]), False", "x(2, 4, 3), i([4, 2]), True"],
    # foreach
    "_foreach_pow.List": ["[p(2, 3), p(3)], [x(2, 3), x(3)]"],
    **{
        f"_foreach_{name}.ScalarList": ["[p(2, 3), p(3)], [1.3, 0.5]"]
        for name in ("pow", "minimum", "maximum")
    },
}
