"""PyTorch's names for compiling a graph (`torch._inductor`): this compiler under them."""

from . import compile_fx, metrics

__all__ = ["compile_fx", "metrics"]
