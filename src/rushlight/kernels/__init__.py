"""How structural operators run eagerly, one module per family; the NumPy handler runs pointwise bodies.

Importing the package fills the registry.
"""

from .. import ops as _ops  # noqa: F401  the floor below first
from . import (  # noqa: F401
    activation,
    conv,
    creation,
    creation_windows,
    embedding,
    fft,
    handler,
    indexing,
    indexing_dim,
    linalg,
    loss,
    loss_ctc,
    matmul,
    pointwise,
    quantization,
    quantization_tensors,
    random,
    random_gradients,
    random_rejection,
    recurrent,
    reduction,
    reduction_counts,
    reduction_extremes,
    scan,
    shape,
    shape_pad,
    sorting,
    sparse,
    sparse_conversion,
    sparse_creation,
    sparse_matmul,
    sparse_pointwise,
    sparse_reduction,
    sparse_shape,
    special,
    view,
)
