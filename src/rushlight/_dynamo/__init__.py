"""What programs say to PyTorch's capture (`torch._dynamo`), said to this one.

PyTorch keeps this module private, and programs name it nevertheless: those names are here that have a meaning.
"""

from .._api.compiler import (
    allow_in_graph,
    assume_constant_result,
    disable,
    is_compiling,
    list_backends,
    reset,
    substitute_in_graph,
)
from ..core.marks import mark_dynamic, mark_static, mark_unbacked, maybe_mark_dynamic
from ..nn.modules._compiled import OptimizedModule
from . import config, exc
from . import utils as utils
from .eval_frame import (
    GuardFail,
    forbid_in_graph,
    graph_break,
    is_dynamo_supported,
    is_inductor_supported,
    mark_static_address,
    optimize,
    optimize_assert,
    reset_code_caches,
)

disallow_in_graph = forbid_in_graph

__all__ = [
    "GuardFail",
    "OptimizedModule",
    "allow_in_graph",
    "assume_constant_result",
    "config",
    "disable",
    "disallow_in_graph",
    "exc",
    "forbid_in_graph",
    "graph_break",
    "is_compiling",
    "is_dynamo_supported",
    "is_inductor_supported",
    "list_backends",
    "mark_dynamic",
    "mark_static",
    "mark_static_address",
    "mark_unbacked",
    "maybe_mark_dynamic",
    "optimize",
    "optimize_assert",
    "reset",
    "reset_code_caches",
    "substitute_in_graph",
]
