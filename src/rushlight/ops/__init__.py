"""What each operator is: schema, kind, promotion and shape rule, one module per family.

Importing the package fills the registry. Its attributes are also the namespaces of operators, as in
`torch.ops`: `ops.aten.add.Tensor`, `ops.mylib.myop`.
"""

from typing import Any

from ..core.aten import OpNamespace, namespace
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


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'rushlight.ops' has no attribute '{name}'")
    found: OpNamespace = namespace(name)
    globals()[name] = found
    return found
