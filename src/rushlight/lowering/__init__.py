"""Lowering: graph operators become definitions of buffers, as loops over recorded scalar bodies or as calls.

Importing the package attaches the lowering rules, one module per family.
"""

from . import (  # noqa: F401
    activation,
    collective,
    control_flow,
    conv,
    creation,
    embedding,
    fft,
    indexing,
    linalg,
    loss,
    matmul,
    random,
    recurrent,
    reduction,
    reduction_counts,
    reduction_medians,
    scan,
    shape,
    sorting,
    special,
    view,
)
