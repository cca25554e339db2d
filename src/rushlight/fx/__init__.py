"""Programs as data: graphs of calls that can be looked at, changed and run. The names are those of `torch.fx`.

`symbolic_trace(function)` records the calls that a function or module makes, whatever its arguments are;
`experimental.proxy_tensor.make_fx(function)(*args)` records a call with these arguments: the operators that
it runs, those of derivatives and transforms included. An `Interpreter` runs a graph node by node, a
`Transformer` writes another.
"""

from ._symbolic_trace import Tracer, symbolic_trace, wrap
from .graph import Graph, PythonCode
from .graph_module import GraphModule
from .interpreter import Interpreter, Transformer
from .node import Node, has_side_effect, map_aggregate, map_arg
from .proxy import Proxy
from .subgraph_rewriter import replace_pattern

__all__ = [
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "PythonCode",
    "Tracer",
    "Transformer",
    "has_side_effect",
    "map_aggregate",
    "map_arg",
    "replace_pattern",
    "symbolic_trace",
    "wrap",
]
