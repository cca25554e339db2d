"""TorchScript's decorators, for programs that carry them: what they decorate runs as the Python it is.

Scripting and tracing make another program of a function that computes the same; here that is `compile`, which
is asked for explicitly. So `script` and `trace` give back what they were given, `is_scripting` is False, and
there are no files of scripted modules.
"""

import types
from collections.abc import Callable
from typing import Any, Final, TypeVar, Union, get_args, get_origin

from ..core.missing import missing_class, missing_function
from ..nn.modules.module import Module
from . import annotations as annotations

__all__ = [
    "Final",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "annotate",
    "export",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "optimize_for_inference",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "trace",
    "trace_module",
    "unused",
]

Item = TypeVar("Item")
_FILES = "there are no scripted programs; torch.export.save and load keep a program in a file"
ScriptFunction = missing_class(
    "jit", "ScriptFunction", "functions are not scripted; script() gives them back"
)
save, load = (missing_function("jit", name, _FILES) for name in ("save", "load"))


class ScriptModule(Module):
    """The base of modules that are written for scripting: a module. No other module is one.

    >>> issubclass(rl.jit.ScriptModule, nn.Module)
    True
    """


class RecursiveScriptModule(ScriptModule):
    """What scripting makes in PyTorch; here it makes none.

    >>> isinstance(rl.jit.script(nn.Linear(1, 1)), rl.jit.RecursiveScriptModule)
    False
    """


_isinstance = isinstance


def script(
    obj: Item, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None, example_inputs: Any = None
) -> Item:
    """`obj`, a function, class or module, as it is; parameters of a module must have their shapes.

    >>> rl.jit.script(lambda x: x + 1)(rl.ones(2))
    tensor([2., 2.])
    """
    _check_initialized(obj)
    return obj


def _check_initialized(obj: Any) -> None:
    for module in obj.modules() if hasattr(obj, "modules") and not _isinstance(obj, type) else ():
        if getattr(module, "has_uninitialized_params", bool)():
            raise RuntimeError(
                f"jit: {type(module).__name__} has uninitialized parameters or buffers; run a "
                "forward pass first, which gives them their shapes"
            )


def trace(func: Item, example_inputs: Any = None, *args: Any, **options: Any) -> Item:
    """`func` as it is, after one run on the example inputs, which fails where it would fail later.

    >>> rl.jit.trace(lambda x: x + 1, (rl.ones(2),))(rl.zeros(2))
    tensor([1., 1.])
    """
    if example_inputs is not None:
        func(*(example_inputs if _isinstance(example_inputs, tuple) else (example_inputs,)))  # type: ignore[operator]
    return func


def trace_module(mod: Item, inputs: dict[str, Any], **options: Any) -> Item:
    """The module as it is, after one run on the example inputs.

    >>> rl.jit.trace_module(nn.Linear(2, 3), {"forward": (rl.ones(1, 2),)})
    Linear(in_features=2, out_features=3, bias=True)
    """
    for name, example in inputs.items():
        getattr(mod, name)(*(example if _isinstance(example, tuple) else (example,)))
    return mod


def freeze(mod: Any, preserved_attrs: Any = None, optimize_numerics: bool = True) -> Any:
    """`mod` as it is; it must be in evaluation mode, as in PyTorch.

    >>> rl.jit.freeze(nn.Linear(2, 3).eval())
    Linear(in_features=2, out_features=3, bias=True)
    """
    if getattr(mod, "training", False):
        raise RuntimeError("jit.freeze: the module is in training mode; call eval() first")
    return mod


def optimize_for_inference(mod: Any, other_methods: Any = None) -> Any:
    """The module as it is, in evaluation mode.

    >>> rl.jit.optimize_for_inference(nn.Linear(2, 3).eval())
    Linear(in_features=2, out_features=3, bias=True)
    """
    return freeze(mod)


def script_if_tracing(fn: Item) -> Item:
    """The function as it is.

    >>> rl.jit.script_if_tracing(abs)(-1)
    1
    """
    return fn


_script_if_tracing = script_if_tracing  # under which name torchvision asks for it


def script_method(fn: Item) -> Item:
    """The function as it is.

    >>> rl.jit.script_method(abs)(-1)
    1
    """
    return fn


def export(fn: Item) -> Item:
    """The function as it is.

    >>> rl.jit.export(abs)(-1)
    1
    """
    return fn


def unused(fn: Item) -> Item:
    """The function as it is.

    >>> rl.jit.unused(abs)(-1)
    1
    """
    return fn


def interface(obj: Item) -> Item:
    """The class as it is.

    >>> rl.jit.interface(int)
    <class 'int'>
    """
    return obj


def ignore(drop: Any = False, **options: Any) -> Callable[[Item], Item] | Any:
    """As a decorator, with or without arguments.

    >>> rl.jit.ignore(abs)(-1)
    1
    """
    return drop if callable(drop) else lambda fn: fn


def annotate(the_type: Any, the_value: Item) -> Item:
    """The value as it is; the type is for PyTorch's compiler.

    >>> rl.jit.annotate(int, 3)
    3
    """
    return the_value


def isinstance(obj: Any, target_type: Any) -> bool:
    """Whether an object has a type; of a list, a tuple or a dict all elements are looked at.

    >>> rl.jit.isinstance([1, 2], list[int]), rl.jit.isinstance([1, "a"], list[int])
    (True, False)
    """
    if _isinstance(target_type, tuple):
        return any(isinstance(obj, one) for one in target_type)
    origin, inner = get_origin(target_type), get_args(target_type)
    if origin in (Union, types.UnionType):
        return any(isinstance(obj, one) for one in inner)
    if origin in (list, tuple, dict) and not inner:
        name = origin.__name__.title()
        raise RuntimeError(
            f"Attempted to use {name} without a contained type. Write {name}[int], for example"
        )
    if origin is list:
        return _isinstance(obj, list) and all(isinstance(item, inner[0]) for item in obj)
    if origin is tuple:
        fits = _isinstance(obj, tuple) and len(obj) == len(inner)
        return fits and all(isinstance(item, kind) for item, kind in zip(obj, inner, strict=True))
    if origin is dict:
        return _isinstance(obj, dict) and all(
            isinstance(key, inner[0]) and isinstance(value, inner[1]) for key, value in obj.items()
        )
    return _isinstance(obj, target_type)


def _overload(func: Item) -> Item:
    """`func` as it is: its overloads are for scripting."""
    return func


_overload_method = _overload


def is_scripting() -> bool:
    """False: nothing is scripted here.

    >>> rl.jit.is_scripting()
    False
    """
    return False


def is_tracing() -> bool:
    """Whether `trace` runs the function.

    >>> rl.jit.is_tracing()
    False
    """
    return False
