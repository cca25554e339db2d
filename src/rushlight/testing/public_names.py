"""The public functions and classes, as the reference lists them and tests walk them."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import Any

from rushlight.core.resolve import Packet

# Modules whose names are public, in the order of the reference, each with what it is.
MODULES = {
    "rushlight": "Tensors and operators",
    "rushlight.linalg": "Linear algebra",
    "rushlight.fft": "Fourier transforms",
    "rushlight.special": "Special functions",
    "rushlight.signal.windows": "Windows",
    "rushlight.sparse": "Sparse tensors",
    "rushlight.nested": "Nested tensors",
    "rushlight.masked": "Masked tensors",
    "rushlight.nn": "Modules",
    "rushlight.nn.functional": "Functions of modules",
    "rushlight.nn.init": "Initialization",
    "rushlight.nn.attention": "Attention",
    "rushlight.nn.attention.bias": "Biases of attention",
    "rushlight.nn.attention.flex_attention": "Attention with score functions",
    "rushlight.nn.parallel": "Parallel modules",
    "rushlight.nn.utils": "Utilities of modules",
    "rushlight.nn.utils.parametrizations": "Parametrizations",
    "rushlight.nn.utils.parametrize": "Parametrized tensors",
    "rushlight.nn.utils.prune": "Pruning",
    "rushlight.nn.utils.rnn": "Sequences of different lengths",
    "rushlight.optim": "Optimizers",
    "rushlight.optim.lr_scheduler": "Schedules of learning rates",
    "rushlight.optim.swa_utils": "Averaged models",
    "rushlight.autograd": "Automatic differentiation",
    "rushlight.autograd.forward_ad": "Forward mode",
    "rushlight.autograd.functional": "Derivatives of functions",
    "rushlight.autograd.graph": "The graph of autograd",
    "rushlight.func": "Function transforms",
    "rushlight.compiler": "The compiler",
    "rushlight.export": "Exported programs",
    "rushlight.fx": "Graphs of programs",
    "rushlight.library": "Operators of your own",
    "rushlight.distributions": "Probability distributions",
    "rushlight.amp": "Mixed precision",
    "rushlight.utils.data": "Datasets and loaders",
    "rushlight.utils.checkpoint": "Recomputation",
    "rushlight.utils.benchmark": "Timers",
    "rushlight.random": "Random numbers",
    "rushlight.quasirandom": "Quasi-random numbers",
    "rushlight.serialization": "Files",
    "rushlight.hub": "Hub",
    "rushlight.jit": "Names of torch.jit",
    "rushlight.futures": "Futures",
    "rushlight.overrides": "Tensor-like classes",
    "rushlight.profiler": "Profiler",
    "rushlight.planning": "Planning of parallel training",
    "rushlight.eager": "Eager kernels",
    "rushlight.testing": "Comparisons",
}


def names_of(module: str) -> dict[str, Callable[..., Any]]:
    """The public functions and classes of a module that are made here, by name."""
    found = importlib.import_module(module)
    names = getattr(found, "__all__", None)
    if names is None:
        names = [name for name, value in vars(found).items() if getattr(value, "__module__", None) == module]
    values = {name: getattr(found, name) for name in names if not name.startswith("_")}
    return {
        name: value
        for name, value in values.items()
        if callable(value) and not inspect.ismodule(value) and is_ours(value)
    }


def is_ours(value: Any) -> bool:
    """Whether it is defined in this package, rather than handed on from Python's library."""
    return isinstance(value, Packet) or str(getattr(value, "__module__", "")).startswith("rushlight")


def public_names() -> dict[str, Callable[..., Any]]:
    """Every public function and class, once, by the first module that lists it."""
    found: dict[str, Callable[..., Any]] = {}
    seen: set[int] = set()
    for module in MODULES:
        for name, value in names_of(module).items():
            if id(value) not in seen:
                seen.add(id(value))
                found[f"{module}.{name}"] = value
    return found


def docstring(value: Any) -> str:
    """Its own docstring, not one that a class has from its base or from what made it."""
    if inspect.isclass(value):
        return inspect.cleandoc(value.__dict__.get("__doc__") or "")
    return inspect.cleandoc(value.__doc__ or "")
