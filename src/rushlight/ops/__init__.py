"""What each operator is: schema, kind, promotion and shape rule, one module per family.

Importing the package fills the registry.
"""

from . import (  # noqa: F401
    activation,
    creation,
    creation_windows,
    embedding,
    indexing,
    indexing_dim,
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
