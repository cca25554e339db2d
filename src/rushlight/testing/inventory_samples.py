"""Arguments for the derivative inventory, as short texts.

In a text, x(2, 3) is a leaf of that shape with values within (-0.9, 0.9), p positive, u within (0, 1), a
above 1, c complex; n(2, 3) holds whole numbers and k(2, 3) values, both without gradient; i([0, 2]) is an
index and m(2, 3) a mask. Operators without a text get their arguments from the schema: x(2, 3), or what
DOMAINS says, for a tensor, 1.3 for a number, dimension 1.
"""

from __future__ import annotations

from .inventory_samples_backend import BACKEND_SAMPLES
from .inventory_samples_conv import CONV_SAMPLES
from .inventory_samples_linalg import LINALG_SAMPLES
from .inventory_samples_nn import NN_SAMPLES
from .inventory_samples_sparse import SPARSE_SAMPLES

# Which values the tensor arguments have, one letter each, where x does not do.
# fmt: off
DOMAINS = {
    **dict.fromkeys(("acosh", "acosh_"), "a"),
    **dict.fromkeys(("erfinv", "logit", "special_ndtri", "bernoulli", "poisson", "special_entr"), "u"),
    **dict.fromkeys((
        "log", "log10", "log2", "log1p", "sqrt", "rsqrt", "digamma", "lgamma", "pow.Tensor_Scalar",
        "special_bessel_y0", "special_bessel_y1", "special_modified_bessel_k0", "special_modified_bessel_k1",
        "special_scaled_modified_bessel_k0", "special_scaled_modified_bessel_k1", "xlogy.Scalar_Self",
        "special_xlog1py.self_scalar", "_standard_gamma", "_standard_gamma_grad"), "p"),
    **dict.fromkeys(("pow.Tensor_Tensor", "igamma", "igammac", "addcdiv", "div.Tensor", "fmod.Tensor",
                     "hypot", "remainder.Tensor"), "p"),
    **dict.fromkeys(("xlogy.Tensor", "special_xlog1py"), "xp"),
    **dict.fromkeys(("special_zeta", "special_zeta.self_scalar", "special_zeta.other_scalar"), "a"),
    "polar": "px", "normal.Tensor_Tensor": "xp", "normal.float_Tensor": "p",
    **{f"special_{name}": "xn" for name in (
        "chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v",
        "chebyshev_polynomial_w", "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
        "legendre_polynomial_p")},
    **{f"special_shifted_chebyshev_polynomial_{kind}": "un" for kind in "tuvw"},
    **{f"special_shifted_chebyshev_polynomial_{kind}.n_scalar": "u" for kind in "tuvw"},
    "_conj_physical": "c", "conj_physical_": "c", "view_as_real": "c",
}

# Pointwise and linear operators that are also checked for complex inputs (all tensor arguments complex).
COMPLEX = frozenset((
    "abs", "acos", "acosh", "add.Tensor", "add.Scalar", "addcdiv", "addcmul", "addmm", "angle",
    "asin", "asinh", "atan", "atanh", "baddbmm", "bmm", "_conj", "_neg_view", "cos", "cosh",
    "cumprod", "cumsum", "div.Tensor", "div.Scalar", "dot", "exp", "exp2", "expm1", "lerp.Scalar",
    "lerp.Tensor", "linalg_cross", "linalg_vector_norm", "log", "log10", "log1p", "log2",
    "logaddexp", "mean", "mm", "mul.Tensor", "mul.Scalar", "mv", "neg", "pow.Tensor_Scalar",
    "pow.Scalar", "prod", "prod.dim_int", "reciprocal", "rsqrt", "sgn", "sigmoid", "sin", "sinc",
    "sinh", "sqrt", "std.correction", "sub.Tensor", "sum", "tan", "tanh", "trace", "tril", "vdot",
    "var.correction", "where.self",
))
# fmt: on

ROWS = "x(4, 3), 0, i([0, 2, 1])"
SHORT = {"1d": "(1, 2)", "2d": "(1, 2, 1, 0)", "3d": "(1, 1, 1, 0, 1, 1)"}
WHOLE = {"1d": "2, 4", "2d": "2, 3, 4", "3d": "2, 3, 3, 3"}
PADDED = {"1d": "2, 7", "2d": "2, 4, 7", "3d": "2, 5, 4, 5"}

SAMPLES: dict[str, list[str]] = {
    # nested
    "_nested_tensor_from_tensor_list": ["[x(2, 3), x(0, 3), x(4, 3)]", "[x(2, 3), x(2, 1)]"],
    "_nested_tensor_from_mask": ["x(2, 3, 2), i([[1, 1, 0], [1, 0, 0]]) > 0"],
    "_nested_from_padded": [
        "x(2, 3, 2), i([[2, 2], [3, 2]])",
        "x(2, 2, 3, 2), i([[2, 4], [3, 4]]), True",
        "x(2, 3, 4), i([[2, 4], [2, 1]])",
    ],
    "_nested_view_from_buffer": [
        "x(10), i([[2, 2], [3, 2]]), i([[2, 1], [2, 1]]), i([0, 4])",
        "x(12), i([[2, 2], [3, 2]]), i([[2, 1], [2, 1]]), i([0, 6])",
    ],
    "to_padded_tensor": ["nested(x(5, 2), 2, 5), 0.5", "nested(x(5, 2), 1, 5), 0.5, (2, 6, 3)"],
    # matmul
    "addbmm": ["x(2, 4), x(3, 2, 3), x(3, 3, 4), beta=0.5, alpha=1.5"],
    "addmm": ["x(2, 4), x(2, 3), x(3, 4), beta=0.5, alpha=1.5"],
    "addmv": ["x(2), x(2, 3), x(3), beta=0.5, alpha=1.5"],
    "addr": ["x(2, 3), x(2), x(3), beta=0.5, alpha=1.5"],
    "baddbmm": ["x(2, 2, 4), x(2, 2, 3), x(2, 3, 4), beta=0.5, alpha=1.5"],
    "bmm": ["x(2, 2, 3), x(2, 3, 4)"],
    "mm": ["x(2, 3), x(3, 4)"],
    "mv": ["x(2, 3), x(3)"],
    "dot": ["x(3), x(3)"],
    "vdot": ["x(3), x(3)"],
    "matmul": ["x(2, 3), x(3, 2)", "x(2, 2, 3), x(3)", "x(3), x(2, 3, 2)"],
    "linear": ["x(2, 3), x(4, 3), x(4)"],
    "linalg_cross": ["x(2, 3), x(2, 3)"],
    "_trilinear": ["x(2, 3), x(4, 3, 2), x(2, 2), [1, 3], [0], [1, 2], [2, 3]"],
    "_euclidean_dist": ["x(3, 2), x(2, 2)"],
    "_cdist_forward": ["x(3, 2), x(2, 2), 2.0, None", "x(3, 2), x(2, 2), 1.5, None"],
    "_cdist_backward": ["x(3, 2), x(3, 2), x(2, 2), 1.5, p(3, 2)"],
    "_pdist_forward": ["x(4, 2)", "x(4, 2), 1.5"],
    "_pdist_backward": ["x(6), x(4, 2), 1.5, p(6)"],
    # pointwise
    "clamp": ["x(2, 3), -0.4, 0.3"],
    "clamp.Tensor": ["x(2, 3), x(3), p(3)"],
    "div.Tensor_mode": [f"x(2, 3), p(2, 3), rounding_mode={mode}" for mode in ("None", "'floor'", "'trunc'")],
    "div.Scalar_mode": [f"x(2, 3), 0.3, rounding_mode={mode}" for mode in ("None", "'floor'", "'trunc'")],
    "where.self": ["m(2, 3), x(2, 3), x(3)"],
    "polygamma": ["1, p(2, 3)"],
    "polygamma_": ["2, p(2, 3)"],
    "mvlgamma": ["a(2, 3), 2"],
    "round.decimals": ["x(2, 3), decimals=1"],
    "add.Tensor": ["x(2, 3), x(3), alpha=2"],
    "view_as_complex": ["x(3, 2)"],
    "logaddexp": ["x(2, 3), x(2, 3)"],
    # reductions, scans, sorting
    "norm.Scalar": ["x(2, 3)", "x(2, 3), 3"],
    "norm.ScalarOpt_dim": ["x(2, 3), 2.5, [1]"],
    "norm.ScalarOpt_dtype": ["x(2, 3), 3, dtype=float64"],
    "norm.ScalarOpt_dim_dtype": ["x(2, 3), 3, [1], True, dtype=float64"],
    "linalg_vector_norm": ["x(2, 3), 3, [1]", "x(2, 3)", "x(2, 3), 1", "x(2, 3), float('inf')"],
    "renorm": ["x(2, 3), 2, 0, 0.7"],
    "dist": ["x(2, 3), x(2, 3), 3"],
    "kthvalue": ["x(2, 3), 2"],
    "topk": ["x(2, 3), 2"],
    "mode": ["x(2, 3)"],
    "median": ["x(5)"],
    "nanmedian": ["x(5)"],
    "trace": ["x(3, 3)"],
    "segment_reduce": [
        f"x(5), {mode!r}, lengths=i([2, 3])" for mode in ("sum", "mean", "max", "min", "prod")
    ],
    "one_hot": ["i([0, 2]), 3"],
    **{name: ["m(2, 3)"] for name in ("_is_all_true", "_is_any_true")},
    "sort.stable": ["x(2, 3), stable=True"],
    "multinomial": ["u(2, 3), 2"],
    # views and shapes
    "as_strided": ["x(2, 3), (2, 2), (1, 2), 1"],
    "as_strided_": ["x(2, 3), (2, 2), (1, 2), 1"],
    "as_strided_scatter": ["x(2, 3), x(2, 2), (2, 2), (1, 2), 1"],
    "_reshape_alias": ["x(2, 3), (3, 2), (2, 1)"],
    "expand": ["x(2, 1), (2, 3)"],
    "view": ["x(2, 3), (3, 2)"],
    "view.dtype": ["x(2, 3), int64"],
    "_unsafe_view": ["x(2, 3), (3, 2)"],
    "_reshape_copy": ["x(2, 3), (3, 2)"],
    "permute": ["x(2, 3), (1, 0)"],
    "transpose.int": ["x(2, 3), 0, 1"],
    "transpose_": ["x(2, 3), 0, 1"],
    "select.int": ["x(2, 3), 1, 2"],
    "select_backward": ["x(2), (2, 3), 1, 2"],
    "select_scatter": ["x(2, 3), x(2), 1, 2"],
    "slice.Tensor": ["x(2, 3), 1, 1, 3"],
    "slice_backward": ["x(2, 2), (2, 3), 1, 1, 3, 1"],
    "slice_scatter": ["x(2, 3), x(2, 2), 1, 1, 3"],
    "diagonal_backward": ["x(2), (2, 3), 0, 0, 1"],
    "diagonal_scatter": ["x(2, 3), x(2)"],
    "unfold": ["x(5), 0, 3, 2"],
    "unfold_backward": ["x(2, 3), (5,), 0, 3, 2"],
    "split.Tensor": ["x(2, 3), 2, 1"],
    "unsafe_split.Tensor": ["x(2, 3), 2, 1"],
    "split_with_sizes": ["x(2, 3), (1, 2), 1"],
    "unsafe_split_with_sizes": ["x(2, 3), (1, 2), 1"],
    **{f"squeeze{mark}": ["x(2, 1, 3)"] for mark in ("", "_")},
    **{f"squeeze{mark}.dim": ["x(2, 1, 3), 1"] for mark in ("", "_")},
    **{f"squeeze{mark}.dims": ["x(2, 1, 3), (1,)"] for mark in ("", "_")},
    "repeat": ["x(2, 3), (2, 1, 2)"],
    "roll": ["x(2, 3), (1, 2), (0, 1)"],
    "flip": ["x(2, 3), (0, 1)"],
    "rot90": ["x(2, 3), 1"],
    "pixel_shuffle": ["x(4, 2, 1), 2"],
    "pixel_unshuffle": ["x(1, 4, 2), 2"],
    "constant_pad_nd": ["x(2, 3), (1, 2, -1, 1), 0.5"],
    **{
        f"{kind}_pad{n}": [f"x({WHOLE[n]}), {SHORT[n]}"]
        for kind in ("reflection", "replication")
        for n in SHORT
    },
    **{
        f"{kind}_pad{n}_backward": [f"x({PADDED[n]}), x({WHOLE[n]}), {SHORT[n]}"]
        for kind in ("reflection", "replication")
        for n in SHORT
    },
    # indexing
    "gather": ["x(2, 3), 1, i([[0, 2], [1, 1]])"],
    "take": ["x(2, 3), i([0, 5, 0])"],
    "put": ["x(2, 3), i([0, 5]), x(2)", "x(2, 3), i([0, 5, 0]), x(3), True"],
    **{
        f"{name}.Tensor": ["x(4, 3), [i([0, 2, 0])]", "x(4, 3), [None, i([1, 1])]"]
        for name in ("index", "_unsafe_index")
    },
    **{
        name: ["x(4, 3), [i([0, 2])], x(2, 3)", "x(4, 3), [i([0, 2, 0])], x(3, 3), True"]
        for name in ("index_put", "_unsafe_index_put", "_index_put_impl_")
    },
    "index_add": [f"{ROWS}, x(3, 3), alpha=2"],
    "index_copy": [f"{ROWS}, x(3, 3)"],
    "index_fill.int_Scalar": [f"{ROWS}, 0.5"],
    "index_fill.int_Tensor": [f"{ROWS}, x()"],
    "index_select": ["x(4, 3), 0, i([0, 2, 0])"],
    "index_reduce": [
        f"p(4, 3), 0, i([0, 2, 0]), p(3, 3), {mode!r}" for mode in ("prod", "mean", "amax", "amin")
    ],
    "scatter.src": ["x(2, 3), 1, i([[0, 2], [1, 0]]), x(2, 2)"],
    "scatter.value": ["x(2, 3), 1, i([[0, 2], [1, 0]]), 0.5"],
    "scatter_add": ["x(2, 3), 1, i([[0, 0], [1, 0]]), x(2, 2)"],
    "scatter_reduce.two": [
        f"p(2, 3), 1, i([[0, 0], [1, 0]]), p(2, 2), {mode!r}, include_self={own}"
        for mode in ("sum", "prod", "mean", "amax", "amin")
        for own in (True, False)
    ],
    "masked_fill.Scalar": ["x(2, 3), m(2, 3), 0.5"],
    "masked_fill.Tensor": ["x(2, 3), m(2, 3), x()"],
    "masked_scatter": ["x(2, 3), m(2, 3), x(6)"],
    "masked_select": ["x(2, 3), m(2, 3)"],
    # creation and random
    "fill.Tensor": ["x(2, 3), x()"],
    "fill_.Tensor": ["x(2, 3), x()"],
    "native_dropout": ["x(2, 3), 0.4, True", "x(2, 3), 0.4, False"],
    "native_dropout_backward": ["x(2, 3), m(2, 3), 1.5"],
    "_fused_dropout": ["x(2, 3), 0.6"],
    "bernoulli_.Tensor": ["x(2, 3), u(2, 3)"],
    "geometric_": ["x(2, 3), 0.4"],
    "random_.from": ["x(2, 3), 1, 9"],
    "random_.to": ["x(2, 3), 9"],
    # embedding and softmax
    "embedding": ["x(4, 3), i([0, 2, 0])", "x(4, 3), i([0, 2, 0]), 1"],
    "embedding_dense_backward": ["x(3, 3), i([0, 2, 0]), 4, -1, False", "x(3, 3), i([0, 2, 0]), 4, 2, True"],
    "embedding_renorm_": ["x(4, 3), i([0, 2]), 0.5, 2.0"],
    "_embedding_bag": [
        "x(4, 3), i([0, 2, 0]), i([0, 1]), False, 0, False, x(3)",
        "x(4, 3), i([0, 2, 0]), i([0, 1]), False, 1",
        "x(4, 3), i([0, 2, 3]), i([0, 1]), False, 2",
    ],
    "_embedding_bag_dense_backward": [
        "x(2, 3), i([0, 2, 0]), i([0, 1, 1]), i([1, 2]), i([0, 1]), 4, False, 0, x(3)"
    ],
    **{name: ["x(2, 3), 1, False"] for name in ("_softmax", "_log_softmax")},
    **{f"{name}_backward_data": ["x(2, 3), x(2, 3), 1, float64"] for name in ("_softmax", "_log_softmax")},
    "glu": ["x(2, 4)"],
    "glu_backward": ["x(2, 2), x(2, 4), 1"],
    "_masked_softmax": ["x(2, 3), m(2, 3), 1", "x(2, 3), m(2, 3)"],
    "threshold_backward": ["x(2, 3), x(2, 3), 0.1"],
}
SAMPLES |= BACKEND_SAMPLES | CONV_SAMPLES | LINALG_SAMPLES | NN_SAMPLES | SPARSE_SAMPLES
