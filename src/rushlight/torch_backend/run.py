"""A compiled graph of PyTorch's: what AOTAutograd calls with a list of arguments.

Nothing is compiled before the first call, which knows the sizes. A part that cannot be compiled runs as PyTorch's
operators, with a warning.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

from ..capture.errors import CaptureError
from ..core.errors import InternalError
from ..runtime.threads import pool
from .program import NativePart
from .sizes import bind, number, symbols_of
from .options import Options
from .steps import PartStep, is_number, split

# what a compiler that meets what it does not know raises
_FAILURES = (CaptureError, InternalError, NotImplementedError, TypeError, ValueError, RuntimeError, LookupError)

Environment = dict[Node, Any]


class CompiledPart:
    """A native part as a step of a graph; `fallback`: whether PyTorch runs what we cannot compile."""

    def __init__(self, module: GraphModule, step: PartStep, options: Options, *, checks: bool) -> None:
        self.step, self._fallback = step, options.fallback
        self.native = NativePart(module, step, checks=checks, use_cache=options.use_cache)
        self._failed = False

    def find(self, bindings: dict[Any, Any]) -> Callable[[list[torch.Tensor]], list[torch.Tensor]] | None:
        """What runs the part for these sizes; None if PyTorch does."""
        if self._failed:
            return None
        try:
            return self.native.at(bindings)
        except _FAILURES as error:
            if not self._fallback:
                raise
            self._failed = True
            warnings.warn(
                f"rushlight: {len(self.step.nodes)} operators run in PyTorch, for they could not be compiled: "
                f"{type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )
            return None

    def run(self, known: Environment, bindings: dict[Any, Any]) -> None:
        found = self.find(bindings)
        step = self.step
        if found is None:
            for node in step.nodes:
                known[node] = call(node, known, bindings)
            for target, source in step.writes:
                known[target].copy_(known[source])
        else:
            results = found([known[node] for node in step.inputs])
            known.update(zip(step.outputs, results, strict=True))


def call(node: Node, known: Environment, bindings: dict[Any, Any]) -> Any:
    """Run a node in PyTorch."""

    def argument(given: Node) -> Any:
        if given in known:
            return known[given]
        return number(given.meta["val"], bindings)

    args, kwargs = (map_arg(given, argument) for given in (node.args, node.kwargs))
    found = node.target(*args, **kwargs)  # type: ignore[operator]
    if symbols_of(node.meta.get("val")):
        bind(node.meta["val"], found, bindings)
    return found


def compiled_function(module: GraphModule, options: Options, *, backward: bool) -> Callable[..., Any]:
    """What AOTAutograd calls."""
    graph = CompiledGraph(module, options, backward=backward)

    def run(args: list[Any]) -> list[Any]:
        return graph(args)

    run._boxed_call = True  # type: ignore[attr-defined]  # it takes a list, which it empties
    return run


class CompiledGraph:
    """The steps of a graph, with what they know of each other."""

    def __init__(self, module: GraphModule, options: Options, *, backward: bool) -> None:
        nodes = list(module.graph.nodes)
        self._placeholders = [node for node in nodes if node.op == "placeholder"]
        # arguments that tell what symbols are
        self._telling = [(i, n.meta.get("val")) for i, n in enumerate(self._placeholders)]
        self._telling = [(i, value) for i, value in self._telling if symbols_of(value)]
        self._constants = {n: _attribute(module, n.target) for n in nodes if n.op == "get_attr"}
        self.steps = [
            CompiledPart(module, step, options, checks=not backward) if isinstance(step, PartStep) else step
            for step in split(module.graph)
        ]
        self._results = list(next(node for node in nodes if node.op == "output").args[0])
        self._direct = self._find_direct()
        self._last: tuple[Any, Any] | None = None  # the numbers of a call, and what ran it

    @property
    def programs(self) -> int:
        """How many programs there are."""
        return sum(len(s.native.programs) for s in self.steps if isinstance(s, CompiledPart))

    def _find_direct(self) -> tuple[list[int], list[tuple[int, Any]]] | None:
        """Of a graph that is one native part: the arguments that are its inputs, and for each result, the number of
        the part's output, or -1 and what it is (an argument, by a node, or a number)."""
        if len(self.steps) != 1 or not isinstance(self.steps[0], CompiledPart):
            return None
        step = self.steps[0].step
        if any(node.op != "placeholder" for node in step.inputs):
            return None
        place = {node: i for i, node in enumerate(self._placeholders)}
        made = {node: i for i, node in enumerate(step.outputs)}
        results = []
        for result in self._results:
            if isinstance(result, Node) and result not in made and result.op not in ("placeholder",):
                if not is_number(result):
                    return None
            results.append((made.get(result, -1), place.get(result, result)))
        return [place[node] for node in step.inputs], results

    def __call__(self, args: list[Any]) -> list[Any]:
        if pool().size != torch.get_num_threads():
            pool().resize(torch.get_num_threads())
        bindings: dict[Any, Any] = {}
        for i, value in self._telling:
            bind(value, args[i], bindings)
        if self._direct is not None:
            results = self._run_direct(args, bindings)
            if results is not None:
                return results
        known: Environment = {**self._constants, **dict(zip(self._placeholders, args, strict=True))}
        args.clear()
        for step in self.steps:
            if isinstance(step, CompiledPart):
                step.run(known, bindings)
                dead = step.step.dead
            else:
                known[step.node] = call(step.node, known, bindings)
                dead = step.dead
            for node in dead:
                known.pop(node, None)
        return [self._result(result, known, bindings) for result in self._results]

    def _run_direct(self, args: list[Any], bindings: dict[Any, Any]) -> list[Any] | None:
        assert self._direct is not None
        part = self.steps[0]
        assert isinstance(part, CompiledPart)
        taken, results = self._direct
        found = part.find(bindings)
        if found is None:
            return None
        made = found([args[i] for i in taken])
        returned = []
        for i, other in results:
            if i >= 0:
                returned.append(made[i])
            elif type(other) is int:
                returned.append(args[other])
            else:
                returned.append(self._result(other, {}, bindings))
        args.clear()
        return returned

    def _result(self, result: Any, known: Environment, bindings: dict[Any, Any]) -> Any:
        if not isinstance(result, Node):
            return result
        if result in known:
            return known[result]
        return number(result.meta["val"], bindings)


def _attribute(module: GraphModule, name: Any) -> Any:
    found: Any = module
    for part in str(name).split("."):
        found = getattr(found, part)
    return found
