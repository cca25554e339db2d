"""Compiling a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .._api.compile import compile
from ..fx.graph_module import GraphModule

__all__ = ["compile_fx", "compile_fx_inner"]


def compile_fx(model_: GraphModule, example_inputs_: Sequence[Any]) -> Callable[..., Any]:
    """The graph, compiled, when it is first called: like `example_inputs_`, or otherwise."""
    compiled: Callable[..., Any] = compile(model_.forward)
    return compiled


def compile_fx_inner(gm: GraphModule, example_inputs: Sequence[Any]) -> Callable[[Sequence[Any]], Any]:
    """As `compile_fx`, and the result takes a list of the inputs."""
    compiled = compile_fx(gm, example_inputs)
    return lambda inputs: compiled(*inputs)
