"""What each operator is: schema, kind, promotion and shape rule, one module per family.

Importing the package fills the registry. Its attributes are also the namespaces of operators, as in
`torch.ops`: `ops.aten.add.Tensor`, `ops.mylib.myop`.
"""

import os
from typing import Any, NoReturn

from ..core.aten import NOT_LOADED, OpNamespace, namespace
from . import (  # noqa: F401
    activation,
    activation_elementwise,
    collective,
    conv,
    creation,
    creation_windows,
    embedding,
    fft,
    indexing,
    indexing_dim,
    linalg,
    loss,
    loss_ctc,
    matmul,
    pointwise,
    pointwise_arithmetic,
    pointwise_backward,
    pointwise_complex,
    pointwise_functions,
    pointwise_logic,
    pooling,
    quantization,
    random,
    random_distributions,
    recurrent,
    reduction,
    reduction_counts,
    reduction_extremes,
    scan,
    shape,
    shape_pad,
    sorting,
    sparse,
    special,
    special_derivatives,
    special_polynomials,
    view,
    view_scatter,
)


def load_library(path: str | os.PathLike[str]) -> NoReturn:
    """Raises OSError: operators in C++ for PyTorch cannot be loaded. Packages that go on without them do so.

    >>> rl.ops.load_library("package/_C.so")
    Traceback (most recent call last):
    OSError: package/_C.so: operators in C++ cannot be loaded; torch.library defines operators in Python
    """
    NOT_LOADED.add(os.path.basename(os.path.dirname(path)))
    raise OSError(f"{path}: operators in C++ cannot be loaded; torch.library defines operators in Python")


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'rushlight.ops' has no attribute '{name}'")
    found: OpNamespace = namespace(name)
    globals()[name] = found
    return found
