"""What the in-place and out= forms of operators are called in ATen, and the arguments that results go to.

The form of `name` is `name.out`, that of `name.overload` is `name.overload_out`, of a backward operator with
one result `name.grad_input`; a result is written to `out`, several to `out0`, `out1`, ... The table names the
operators for which ATen says otherwise, as "overload" or "overload argument argument": "operators".
"""

from __future__ import annotations

from .registry import OpDef

_TABLE = {
    "out out save_mean save_invstd reserve": "_batch_norm_with_update",
    "result result LU pivots": "_linalg_det",
    "eigenvalues eigenvalues eigenvectors": "_linalg_eigh",
    "sign sign logabsdet LU pivots": "_linalg_slogdet",
    "result result LU pivots info": "_linalg_solve_ex",
    "U U S Vh": "_linalg_svd linalg_svd",
    "out out save_mean save_invstd": "_native_batch_norm_legit native_batch_norm",
    "no_stats_out out save_mean save_invstd": "_native_batch_norm_legit.no_stats",
    "output output": "_slow_conv2d_forward slow_conv3d_forward",
    "out grad_input": "_softmax_backward_data huber_loss_backward",
    "out out indices": (
        "adaptive_max_pool2d adaptive_max_pool3d max_pool2d_with_indices max_pool3d_with_indices"
    ),
    "out": (
        "mkldnn_adaptive_avg_pool2d_backward rrelu_with_noise_backward _sparse_sum_backward "
        "mkldnn_max_pool3d_backward mkldnn_max_pool2d_backward max_pool2d_backward "
        "cudnn_affine_grid_generator_backward _pdist_backward _ctc_loss_backward "
        "_segment_reduce_backward unfold_backward hardswish_backward _cdist_backward "
        "_embedding_bag_dense_backward select_backward slice_backward diagonal_backward "
        "embedding_dense_backward _adaptive_avg_pool2d_backward _adaptive_avg_pool3d_backward "
        "native_dropout_backward _embedding_bag_per_sample_weights_backward "
        "add.Tensor all.dim any.dim copysign.Tensor div.Tensor divide.Tensor empty.memory_format "
        "frobenius_norm.dim ldexp.Tensor max.other mean.dim min.other mul.Tensor multiply.Tensor "
        "norm.ScalarOpt_dim range.step std.dim sub.Tensor subtract.Tensor true_divide.Tensor "
        "var.dim"
    ),
    "all_out": "all any",
    "out min max": "aminmax",
    "start_out": "arange.start_step",
    "float_out": "bernoulli.p",
    "out values indices": "cummax cummin",
    "out_mode": "div.Tensor_mode divide.Tensor_mode",
    "output output indices": "fractional_max_pool2d fractional_max_pool3d",
    "Tensor_out mantissa exponent": "frexp.Tensor",
    "a a tau": "geqrf",
    "bin_ct_out hist bin_edges": "histogram.bin_ct",
    "bins_tensor_out hist bin_edges": "histogram.bins_tensor",
    "values values indices": "kthvalue mode sort topk",
    "L L info": "linalg_cholesky_ex",
    "out eigenvalues eigenvectors": "linalg_eig",
    "eigvals eigvals eigvecs": "linalg_eigh",
    "inverse inverse info": "linalg_inv_ex",
    "out LD pivots": "linalg_ldl_factor",
    "out LD pivots info": "linalg_ldl_factor_ex",
    "out solution residuals rank singular_values": "linalg_lstsq",
    "out P L U": "linalg_lu lu_unpack",
    "out LU pivots": "linalg_lu_factor",
    "out LU pivots info": "linalg_lu_factor_ex",
    "out_tol_tensor": "linalg_matrix_rank.tol_tensor",
    "out_rcond_tensor": "linalg_pinv.rcond_tensor",
    "out Q R": "linalg_qr",
    "out sign logabsdet": "linalg_slogdet slogdet",
    "out result info": "linalg_solve_ex",
    "output output buffer": "log_sigmoid_forward",
    "unary_out": "max min",
    "dim_max max max_values": "max.dim",
    "dtype_out": "mean norm.ScalarOpt_dim_dtype",
    "dim_values values indices": "median.dim nanmedian.dim",
    "dim_min min min_indices": "min.dim",
    "output output is_target": "multilabel_margin_loss_forward",
    "output output total_weight": "nll_loss2d_forward nll_loss_forward",
    "int_out": "prod.dim_int",
    "Q Q R": "qr",
    "out_": "range",
    "values_stable values indices": "sort.stable",
    "IntList_out": "sum.dim_IntList",
    "U U S V": "svd",
    "X X M": "triangular_solve",
    "OutScalar_Other": "xlogy.Scalar_Other",
    "OutScalar_Self": "xlogy.Scalar_Self",
    "OutTensor": "xlogy.Tensor",
}
_SPECIAL = {name: text.split() for text, names in _TABLE.items() for name in names.split()}


# In-place forms whose overload has another name than that of the functional operator.
_INPLACE = {
    "bernoulli.p": "float",
    "float_power.Tensor_Scalar": "Scalar",
    "float_power.Tensor_Tensor": "Tensor",
    "floor_divide": "Tensor",
    "ldexp.Tensor": "",
    "pow.Tensor_Scalar": "Scalar",
    "pow.Tensor_Tensor": "Tensor",
    "transpose.int": "",
}


def inplace_form(op: OpDef) -> tuple[str, str]:
    """The name and the overload name of the in-place form of `op`."""
    name = "normal" if op.name == "normal_functional" else op.schema.name
    inplace = f"__i{name[2:]}" if name.startswith("__") and name.endswith("__") else f"{name}_"
    return inplace, _INPLACE.get(op.name, op.schema.overload)


def out_form(op: OpDef) -> tuple[str, tuple[str, ...]]:
    """The overload name of the out= form of `op`, and the names of its out arguments."""
    returns, overload = len(op.schema.returns), op.schema.overload
    special = _SPECIAL.get(op.name)
    if special is None and returns == 1 and not overload and op.schema.name.endswith("_backward"):
        return "grad_input", ("grad_input",)
    name = special[0] if special is not None else f"{overload}_out" if overload else "out"
    if special is not None and len(special) > 1:
        return name, tuple(special[1:])
    return name, ("out",) if returns == 1 else tuple([f"out{i}" for i in range(returns)])
