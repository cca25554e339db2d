"""All batching rules, one module per family: importing this attaches them to the operators.

`Vmap` does, when a program first opens one.
"""

from .. import decompositions as _decompositions  # noqa: F401  the floor below first
from . import (  # noqa: F401
    activation,
    collective,
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
