"""Reverse- and forward-mode formulas, one module per family.

Importing the package fills the registry.
"""

from .. import decompositions as _decompositions  # noqa: F401  the floor below first
from . import (  # noqa: F401
    activation,
    activation_elementwise,
    attention,
    collective,
    conv,
    creation,
    embedding,
    fft,
    indexing,
    indexing_dim,
    linalg,
    linalg_spectral,
    loss,
    matmul,
    matmul_distances,
    normalization,
    pointwise,
    pointwise_arithmetic,
    pointwise_complex,
    pointwise_functions,
    pointwise_logic,
    pooling,
    quantization,
    random,
    recurrent,
    reduction,
    reduction_counts,
    reduction_extremes,
    resample,
    scan,
    shape,
    sorting,
    sparse,
    special,
    special_polynomials,
    view,
)
