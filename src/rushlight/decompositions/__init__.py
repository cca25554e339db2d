"""Operators in terms of simpler ones, one module per family.

Importing the package fills the registry.
"""

from .. import kernels as _kernels  # noqa: F401  the floor below first
from . import (  # noqa: F401
    activation,
    attention,
    backend_names,
    backend_names_conv,
    conv,
    creation,
    embedding,
    fft,
    fft_signal,
    foreach,
    indexing,
    linalg,
    linalg_norms,
    loss,
    loss_classes,
    matmul,
    matmul_einsum,
    normalization,
    normalization_batch,
    pointwise,
    pooling,
    pooling_means,
    random,
    recurrent,
    recurrent_fused,
    reduction,
    reduction_statistics,
    resample,
    resample_grid,
    scan,
    shape,
    shape_pad,
    sorting,
    special,
    view,
    view_backward,
)
