"""Lowering: graph operators become definitions of buffers, as loops over recorded scalar bodies or as calls.

Importing the package attaches the lowering rules, one module per family.
"""

from . import (  # noqa: F401
    conv,
    creation,
    embedding,
    indexing,
    loss,
    matmul,
    random,
    reduction,
    scan,
    shape,
    sorting,
)
