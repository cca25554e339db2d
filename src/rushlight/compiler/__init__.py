"""The compiler: from a Python call to native code. The names here are those of `torch.compiler`.

The modules, in the order in which a call meets them:

    function         a compiled function: which specialization serves a call
    call_key         what a call is looked up by
    graph_breaks     programs without a graph: modules and optimizer steps that are compiled on their own
    pipeline         every pass from the captured graph to linked code
    bodies           branches and loops: their bodies, each a program of its own
    build            a compiled call becomes a specialization
    guards           what must hold for it to serve a call: one list; in words, in Python, as a native table
    specialization   one compiled form: its guards, its programs, the path that a call takes
    run              how a call runs
    program_cache    compiled programs on disk
    native_call      a whole training step as one native call
    explain          every stage as text
"""

from .._api.compile import compile
from .._api.compiler import (
    allow_in_graph,
    assume_constant_result,
    cudagraph_mark_step_begin,
    disable,
    is_compiling,
    is_dynamo_compiling,
    is_exporting,
    list_backends,
    reset,
    set_stance,
    substitute_in_graph,
    wrap_numpy,
)
from .._higher_order_ops.invoke_subgraph import nested_compile_region

__all__ = [
    "allow_in_graph",
    "assume_constant_result",
    "compile",
    "cudagraph_mark_step_begin",
    "disable",
    "is_compiling",
    "is_dynamo_compiling",
    "is_exporting",
    "list_backends",
    "nested_compile_region",
    "reset",
    "set_stance",
    "substitute_in_graph",
    "wrap_numpy",
]
