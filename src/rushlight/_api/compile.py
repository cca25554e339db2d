"""`rushlight.compile`, which loads the compiler when it is first used."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.errors import check, fail
from ..core.lazy import LazyModule

_capturable = LazyModule("rushlight.compiler.capturable")
_compiler = LazyModule("rushlight.compiler.function")
_module = LazyModule("rushlight.nn.modules.module")
_compiled_module = LazyModule("rushlight.nn.modules._compiled")


# Backends by name. PyTorch's default is "inductor", so that programs which ask for it get the default here.
NATIVE = ("inductor", "rushlight")
UNCOMPILED = ("eager", "aot_eager")
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
OPTIONS: dict[str, type] = {"use_cache": bool}


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Any:
    """A function with the same results as `model`, compiled to native code, once for every kind of call; of a
    module, a module with the same parameters and attributes.

    `fullgraph=True` raises where the program cannot be captured whole; otherwise such a call runs eagerly,
    with its modules and the steps of its optimizers compiled on their own.

    `dynamic`: None compiles for the sizes of the first call, and when a call comes that differs in some sizes,
    once more for all sizes in those dimensions; True does so from the start, False compiles every size anew.
    `backend`: "inductor" (PyTorch's name for its default) and "rushlight" are this compiler; "eager" and
    "aot_eager" run the function as it is, to look for the cause of a difference; with fullgraph=True every kind
    of call is captured once before it runs, so that what has no graph raises. A callable,
    which would be given the graph as a GraphModule, is refused.
    `mode`: PyTorch's names. There is one way to compile here, which every mode means: calls have little
    overhead without CUDA graphs ("reduce-overhead"), and kernels are chosen by what they cost in a model of
    the machine, not by trial ("max-autotune", "max-autotune-no-cudagraphs").
    `options`: {"use_cache": False} compiles anew what was compiled before, in this process or on disk.

    Without `model` it is a decorator: `@rushlight.compile(fullgraph=True)`.

    >>> f = rl.compile(lambda x: (x * 2).sin().sum())
    >>> f(rl.zeros(3))
    tensor(0.)
    """
    use_cache = _checked(fullgraph, dynamic, backend, mode, options)
    if model is None:
        return lambda function: compile(
            function,
            fullgraph=fullgraph,
            dynamic=dynamic,
            backend=backend,
            mode=mode,
            options=options,
            disable=disable,
        )
    check(
        callable(model),
        f"compile(): expected a function or a module, got {type(model).__name__}",
        RuntimeError,
    )
    if disable or (backend in UNCOMPILED and not fullgraph):
        return model
    if isinstance(model, _module.Module):
        settings = {"fullgraph": fullgraph, "options": options, "backend": backend, "dynamic": dynamic}
        return _compiled_module.OptimizedModule(model, settings)
    if backend in UNCOMPILED:
        return _capturable.CapturableFunction(model)
    return _compiler.CompiledFunction(model, fullgraph, use_cache, dynamic=dynamic)


def _checked(fullgraph: bool, dynamic: Any, backend: Any, mode: Any, options: Any) -> bool:
    """Refuse what is not known; whether to use the cache on disk."""
    check(
        dynamic in (None, True, False),
        f"compile(): dynamic must be True, False or None, got {dynamic!r}",
        AssertionError,
    )
    if backend not in (None, *NATIVE, *UNCOMPILED):
        check(
            not callable(backend),
            "compile(): a callable as backend, which would get the graph as a GraphModule, is not available: "
            "rushlight.explain(function, *args) shows the graph, and rushlight.fx.experimental.proxy_tensor."
            "make_fx(function)(*args) gives one",
            NotImplementedError,
        )
        fail(f"compile(): Invalid backend: {backend!r}; known ones are {', '.join((*NATIVE, *UNCOMPILED))}")
    check(
        mode is None or options is None,
        "compile(): either mode or options can be specified, but both can't be specified at the same time",
    )
    check(
        mode in (None, *MODES), f"compile(): Unrecognized mode={mode}, should be one of: {', '.join(MODES)}"
    )
    for name, value in (options or {}).items():
        check(
            name in OPTIONS,
            f"compile(): Unexpected optimization option {name}, known options are {list(OPTIONS)}",
        )
        check(
            isinstance(value, OPTIONS[name]),
            f"compile(): option {name} must be of type {OPTIONS[name].__name__}, got {value!r}",
        )
    return bool((options or {}).get("use_cache", True))


def explain(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Every stage of compiling `function` for a call with these arguments, as text, with times and bytes
    moved.

    >>> "sin" in str(rl.explain(lambda x: x.sin().sum(), rl.ones(3)))
    True
    """
    return LazyModule("rushlight.compiler.explain").explain(function, *args, **kwargs)


def set_num_threads(number: int) -> None:
    """How many threads compiled functions use.

    >>> rl.set_num_threads(rl.get_num_threads())
    """
    LazyModule("rushlight.runtime.threads").pool().resize(number)


def get_num_threads() -> int:
    """How many threads compiled functions use.

    >>> rl.get_num_threads() >= 1
    True
    """
    return int(LazyModule("rushlight.runtime.threads").pool().size)
