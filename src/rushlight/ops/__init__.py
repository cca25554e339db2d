"""What each operator is: schema, kind, promotion and shape rule, one module per family.

Importing the package fills the registry.
"""

from . import (  # noqa: F401
    activation,
    activation_elementwise,
    creation,
    creation_windows,
    embedding,
    fft,
    indexing,
    linalg,
    indexing_dim,
    loss,
    loss_ctc,
    matmul,
    pointwise,
    pointwise_arithmetic,
    pointwise_backward,
    pointwise_complex,
    pointwise_functions,
    pointwise_logic,
    random,
    reduction,
    reduction_counts,
    reduction_extremes,
    scan,
    shape,
    shape_pad,
    sorting,
    special,
    special_derivatives,
    special_polynomials,
    view,
    view_scatter,
)
