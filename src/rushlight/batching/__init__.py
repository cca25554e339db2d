"""How vmap runs operators, one module of rules per family.

Importing the package fills the registry.
"""

from .. import decompositions as _decompositions  # noqa: F401  the floor below first
from . import (  # noqa: F401
    activation,
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
    scan,
    shape,
    sorting,
    special,
    view,
)
