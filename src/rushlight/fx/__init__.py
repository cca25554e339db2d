"""Programs as data: graphs of calls that can be looked at, changed and run. The names are those of `torch.fx`.

`experimental.proxy_tensor.make_fx(function)(*args)` records a call as a `GraphModule`: the operators that it
runs, those of derivatives and transforms included. An `Interpreter` runs a graph node by node. What
is not there is `symbolic_trace` and what belongs to it (`Tracer`, `Proxy`, `Transformer`, `wrap`), which run a
function on objects without shape.
"""

from .graph import Graph, PythonCode
from .graph_module import GraphModule
from .interpreter import Interpreter
from .node import Node, has_side_effect, map_aggregate, map_arg

__all__ = [
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "PythonCode",
    "has_side_effect",
    "map_aggregate",
    "map_arg",
]
