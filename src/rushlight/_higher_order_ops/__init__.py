"""Control flow as operators that take functions: docs/control_flow.md."""

from .associative_scan import associative_scan
from .cond import cond
from .flex_attention import flex_attention
from .invoke_subgraph import invoke_subgraph
from .map import map
from .scan import scan
from .while_loop import while_loop

__all__ = ["associative_scan", "cond", "flex_attention", "invoke_subgraph", "map", "scan", "while_loop"]
