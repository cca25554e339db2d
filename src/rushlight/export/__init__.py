"""Modules as graphs that stand for themselves: `export(module, args)`, `save` and `load`.

What is exported is a functional graph of operators (`torch.ops.aten`) with the module's weights and
without its Python code. Sizes of arguments are fixed, unless `dynamic_shapes` says which of them change.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from ..core.errors import UserError
from ..core.pytree import register_record
from ..nn.modules.module import Module
from . import dynamic_shapes as dynamic_shapes
from . import exported_program as exported_program
from . import graph_signature as graph_signature
from ._files import load, save
from ._trace import traced
from .dynamic_shapes import Dim, ShapesCollection, dims
from .exported_program import ExportedProgram
from .graph_signature import ExportGraphSignature

__all__ = [
    "Dim",
    "ExportGraphSignature",
    "ExportedProgram",
    "ShapesCollection",
    "default_decompositions",
    "dims",
    "export",
    "export_for_training",
    "load",
    "register_dataclass",
    "save",
]


def export(
    mod: Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any] | None = None,
    *,
    dynamic_shapes: Any = None,
    strict: bool = False,
    preserve_module_call_signature: tuple[str, ...] = (),
) -> ExportedProgram:
    """The program that a call of `mod` with these arguments runs, for every call with arguments like them.

    `dynamic_shapes` says, for each argument, which sizes change: `{"x": {0: Dim("batch")}}`. Numbers among the
    arguments are constants. A program whose Python code looks at values of tensors cannot be exported.
    `strict` chooses between two ways to record in PyTorch; there is one here, and both mean it.

    >>> program = rl.export.export(nn.Linear(2, 3), (rl.ones(1, 2),))
    >>> program.module()(rl.ones(1, 2)).shape
    rushlight.Size([1, 3])
    """
    if not isinstance(mod, Module):
        raise ValueError(f"Expected `mod` to be an instance of `torch.nn.Module`, got {type(mod)}.")
    if not isinstance(args, tuple):
        raise UserError(f"Expecting `args` to be a tuple of example positional inputs, got {type(args)}")
    if preserve_module_call_signature:
        raise NotImplementedError("export: preserve_module_call_signature is not available; graphs are flat")
    return ExportedProgram(**vars(traced(mod, args, dict(kwargs or {}), dynamic_shapes)))


export_for_training = export


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Have objects of a data class be arguments and results of exported modules: containers of their fields.

    >>> from dataclasses import make_dataclass
    >>> Pair = make_dataclass("Pair", ["left", "right"])
    >>> rl.export.register_dataclass(Pair)
    >>> class Add(nn.Module):
    ...     def forward(self, pair):
    ...         return pair.left + pair.right
    >>> rl.export.export(Add(), (Pair(rl.ones(1), rl.ones(1)),)).module()(Pair(rl.ones(1), rl.ones(1)))
    tensor([2.])
    """
    if not dataclasses.is_dataclass(cls):
        raise AssertionError(f"Only dataclasses can be registered with this function: {cls}")
    names = tuple(field.name for field in dataclasses.fields(cls) if field.init)
    register_record(
        cls,
        lambda value: (names, [getattr(value, name) for name in names]),
        lambda context, parts: cls(**dict(zip(context, parts, strict=True))),
    )


def default_decompositions() -> dict[Any, Callable[..., Any]]:
    """A table for `run_decompositions`: empty, since `export` has decomposed composite operators already.

    >>> len(rl.export.default_decompositions()) > 100
    False
    """
    return {}
