"""Which operators autocast has a policy for on the CPU. The lists are PyTorch's.

Convolutions and products compute in the lower precision; what loses too much in it (losses, quantiles,
decompositions of matrices, transforms) in float32; joining tensors in the widest dtype among them. Operators
that are not listed run in the dtype of their arguments.
"""

from __future__ import annotations

from ..core.autocast import Policy, policy

policy(
    Policy.LOWER,
    "_addmm_activation", "_convolution.deprecated", "_native_multi_head_attention", "addbmm",
    "addmm", "baddbmm", "bmm", "conv1d", "conv1d.padding", "conv2d", "conv2d.padding",
    "conv3d", "conv3d.padding", "conv_tbc", "conv_transpose1d",
    "conv_transpose2d.input", "conv_transpose3d.input", "linalg_vecdot", "linear", "matmul",
    "mkldnn_rnn_layer", "mm", "prelu", "scaled_dot_product_attention",
)

policy(Policy.PROMOTE, "cat", "index_copy", "stack")

policy(Policy.WHOLE, "linalg_lu_solve")  # made of products here

policy(
    Policy.FLOAT32,
    # pooling, padding, resampling
    "_grid_sampler_2d_cpu_fallback", "adaptive_avg_pool3d", "adaptive_max_pool3d", "avg_pool3d",
    "fractional_max_pool2d", "fractional_max_pool3d", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d",
    "max_pool3d", "max_unpool2d", "max_unpool3d", "reflection_pad1d", "reflection_pad2d", "replication_pad1d",
    "replication_pad2d", "replication_pad3d",
    # losses
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy_loss",
    "ctc_loss.IntList", "ctc_loss.Tensor", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss",
    "margin_ranking_loss", "mse_loss", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_margin_loss_forward", "nll_loss", "nll_loss2d", "poisson_nll_loss", "smooth_l1_loss",
    "soft_margin_loss", "triplet_margin_loss",
    # linear algebra
    "_lu_with_info", "cdist", "cholesky", "cholesky_inverse", "cholesky_solve", "geqrf", "inverse",
    "linalg_cholesky", "linalg_cholesky_ex", "linalg_cond", "linalg_cond.p_str", "linalg_eig", "linalg_eigh",
    "linalg_eigvals", "linalg_eigvalsh", "linalg_householder_product", "linalg_inv", "linalg_inv_ex",
    "linalg_lstsq", "linalg_matrix_rank", "linalg_matrix_rank.atol_rtol_float",
    "linalg_matrix_rank.atol_rtol_tensor", "linalg_matrix_rank.tol_tensor", "linalg_qr", "linalg_solve",
    "linalg_svd", "linalg_svdvals", "linalg_tensorinv", "linalg_tensorsolve", "lu_solve", "orgqr", "ormqr",
    "pinverse", "qr", "svd", "trace", "triangular_solve",
    # transforms and the rest
    "fake_quantize_per_tensor_affine", "fft_fft", "fft_fft2", "fft_fftn", "fft_hfft", "fft_ifft", "fft_ifft2",
    "fft_ifftn", "fft_ihfft", "fft_irfft", "fft_irfft2", "fft_irfftn", "fft_rfft", "fft_rfft2", "fft_rfftn",
    "nanquantile", "nanquantile.scalar", "polar", "prod", "prod.dim_int", "quantile", "quantile.scalar",
    "stft", "stft.center", "view_as_complex",
)
