"""Reverse- and forward-mode formulas, one module per family.

Importing the package fills the registry.
"""

from . import (  # noqa: F401
    activation,
    creation,
    embedding,
    indexing,
    matmul,
    pointwise,
    random,
    reduction,
    scan,
    shape,
    sorting,
    special,
    view,
)
