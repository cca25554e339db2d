"""`symbolic_trace`: a function or module, recorded as a graph by running it on objects without shape.

While it runs, calls of modules, attributes that are parameters, functions that `wrap` names, those of
the module `math` and functions of the package that are no operators (`_functions.py`) look for proxies first; all
of that is undone when it ends.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import operator
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import CodeType, FunctionType, ModuleType
from typing import Any

from .. import _api, functional
from ..core.errors import check
from ..core.generator import Generator
from ..core.tensor import Tensor
from ..nn import functional as nn_functional
from ..nn.modules.container import Sequential
from ..nn.modules.module import Module
from ..nn.parameter import Parameter
from ._functions import AS_METHODS, RECORDED, arranged, package
from .graph import Graph
from .graph_module import GraphModule
from .proxy import (
    GraphAppendingTracer,
    ParameterProxy,
    Proxy,
    ScopeContextManager,
    TracerBase,
    find_proxies,
    record_call,
)

__all__ = ["Tracer", "is_fx_symbolic_tracing", "is_fx_tracing", "symbolic_trace", "wrap"]

# (globals of a module, name) of functions whose calls are recorded
_wrapped: dict[tuple[int, str], dict[str, Any]] = {}
_tracing = threading.local()
_ONE_AT_A_TIME = threading.RLock()


def is_fx_tracing() -> bool:
    """Whether a program is being recorded."""
    return getattr(_tracing, "depth", 0) > 0


is_fx_symbolic_tracing = is_fx_tracing


def wrap(fn_or_name: str | Callable[..., Any]) -> Any:
    """Record calls of a function of this module as they are, instead of what happens in it: as a decorator, or
    with the name. To be called where the module is defined.

    >>> rl.fx.wrap(len)
    <built-in function len>
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame = inspect.currentframe()
    caller = None if frame is None else frame.f_back
    if caller is None or caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(caller.f_globals), name] = caller.f_globals
    return fn_or_name


class Tracer(TracerBase):
    """Records a program. Derive from it to say which modules are recorded as calls (`is_leaf_module`), or what
    becomes of calls, attributes and arguments.

    >>> rl.fx.Tracer().trace(lambda x: x + 1).find_nodes(op="placeholder")
    [x]
    """

    def __init__(
        self,
        autowrap_modules: tuple[ModuleType, ...] = (math,),
        autowrap_functions: tuple[Callable[..., Any], ...] = (),
        param_shapes_constant: bool = False,
    ) -> None:
        super().__init__()
        self._autowrap = {
            id(value): value
            for module in autowrap_modules
            for name, value in vars(module).items()
            if not name.startswith("_") and callable(value)
        } | {id(function): function for function in autowrap_functions}
        self._autowrap_modules = autowrap_modules
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Module, str] | None = None
        self.root: Any = None
        self.tensor_attrs: dict[
            int, tuple[Any, str]
        ] = {}  # by identity: tensors that are attributes of the root
        self._own_names: dict[int, str] = {}  # of the root's parameters and buffers, by identity
        self.module_stack = {}
        self.num_calls: dict[str, int] = {}

    # What may be defined otherwise.

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        """Whether a call of a module is one node: those of `nn` are, except for Sequential."""
        return type(m).__module__.startswith(("rushlight.nn.", "torch.nn")) and not isinstance(m, Sequential)

    def path_of_module(self, mod: Module) -> str:
        """The name under which the root has a module."""
        if self.submodule_paths is not None and mod in self.submodule_paths:
            return self.submodule_paths[mod]
        for name, inner in self.root.named_modules():
            if inner is mod:
                return str(name)
        raise NameError("module is not installed as a submodule")

    def call_module(
        self, m: Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """A call of a module: a node if it is a leaf, else what happens in it."""
        path = self.path_of_module(m)
        number = self.num_calls.get(path, 0)
        self.num_calls[path] = number + 1
        key = path if number == 0 else f"{path}@{number}"
        with ScopeContextManager(self, key, (path, type(m))):
            if self.is_leaf_module(m, path):
                return self.create_proxy("call_module", path, args, kwargs)
            return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """An attribute of a module was read: parameters are nodes."""
        wanted = (Parameter, Tensor) if self.proxy_buffer_attributes else (Parameter,)
        if not isinstance(attr_val, wanted):
            return attr_val
        if id(attr_val) not in self._own_names:
            return attr_val
        name = self._own_names[id(attr_val)]
        if name not in parameter_proxy_cache:
            parameter_proxy_cache[name] = self._attribute_proxy(name, attr_val)
        return parameter_proxy_cache[name]

    def _attribute_proxy(self, name: str, value: Any) -> Proxy:
        if self.param_shapes_constant and isinstance(value, Parameter):
            return self.create_proxy(
                "get_attr",
                name,
                (),
                {},
                proxy_factory_fn=lambda node: ParameterProxy(self, node, name, value),
            )
        return self.create_proxy("get_attr", name, (), {})

    def create_arg(self, a: Any) -> Any:
        if isinstance(a, Tensor | Generator):
            return self.create_node("get_attr", self._attribute_name(a), (), {})
        if isinstance(a, Module):
            raise NotImplementedError(
                f"a module of the class {type(a).__name__} is an argument of a recorded call; only what a module "
                "computes can be recorded"
            )
        return super().create_arg(a)

    def _attribute_name(self, value: Any) -> str:
        """Where the root has a tensor, which gets it if it has not."""
        if isinstance(value, Parameter):
            if id(value) not in self._own_names:
                raise NameError("parameter is not a member of this module")
            return self._own_names[id(value)]
        if id(value) not in self.tensor_attrs:
            stem = "_tensor_constant" if isinstance(value, Tensor) else "_opaque_obj"
            number = 0
            while hasattr(self.root, f"{stem}{number}"):
                number += 1
            name = f"{stem}{number}"
            self.tensor_attrs[id(value)] = (value, name)
            setattr(self.root, name, value)
        return self.tensor_attrs[id(value)][1]

    # Recording.

    def trace(self, root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module, or of a function. `concrete_args` are arguments that have these values."""
        with _ONE_AT_A_TIME:
            is_module = isinstance(root, Module)
            self.root = root if isinstance(root, Module) else Module()
            name = self.traced_func_name if is_module else ""
            function = getattr(type(root), name) if is_module else root
            self.submodule_paths = {m: path for path, m in self.root.named_modules()} if is_module else None
            self.tensor_attrs = dict(_tensors_of(self.root, ""))
            own = [*self.root.named_buffers(), *self.root.named_parameters()]
            self._own_names = {id(value): name for name, value in own}
            self.graph = Graph()
            self.graph._tracer_cls = type(self)
            self.module_stack, self.num_calls = {}, {}
            function, args = self.create_args_for_root(function, is_module, concrete_args)
            _tracing.depth = getattr(_tracing, "depth", 0) + 1
            try:
                with self._patched(function):
                    result = function(*args)
            finally:
                _tracing.depth -= 1
                self.submodule_paths = None
            kind = getattr(function, "__annotations__", {}).get("return")
            self.create_node("output", "output", (self.create_arg(result),), {}, type_expr=kind)
            return self.graph

    def create_args_for_root(
        self, root_fn: Callable[..., Any], is_module: bool, concrete_args: Any = None
    ) -> tuple[Callable[..., Any], list[Any]]:
        """The function to run, and its arguments: a proxy for each parameter."""
        function = inspect.unwrap(root_fn)
        code: CodeType = function.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames[:count])
        args: list[Any] = []
        if is_module:
            check(bool(names), "``self`` argument cannot be *args expanding!", RuntimeError)
            args.append(self.root)
            del names[0]
        if isinstance(concrete_args, tuple):
            check(
                len(concrete_args) == len(names),
                f"Tracing expected {len(names)} arguments but got {len(concrete_args)} concrete arguments",
                RuntimeError,
            )
            concrete_args = dict(zip(names, concrete_args, strict=True))
        parameters = inspect.signature(function).parameters
        args += [self._argument(parameters[name], concrete_args or {}) for name in names]
        rest = [p for p in parameters.values() if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        if rest or code.co_kwonlyargcount:
            for parameter in rest:
                sign = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
                proxy = self.create_proxy(
                    "placeholder", f"{sign}{parameter.name}", (), {}, name=f"_{parameter.name}"
                )
                args.append(proxy)
            function = _without_kinds(function, count + len(rest))
        return function, args

    def _argument(self, parameter: inspect.Parameter, concrete: Mapping[str, Any]) -> Any:
        """What the function is run with for one of its parameters."""
        name = parameter.name
        kind = None if parameter.annotation is parameter.empty else parameter.annotation
        default = () if parameter.default is parameter.empty else (parameter.default,)
        if name not in concrete:
            return self.create_proxy("placeholder", name, default, {}, type_expr=kind)
        value = concrete[name]
        if isinstance(value, tuple | list | dict):
            raise NotImplementedError(
                f"symbolic_trace: concrete_args has a {type(value).__name__} for {name}; only values that are no "
                "containers are available. Give the function its parts as arguments of their own"
            )
        given = self.create_proxy("placeholder", f"{name}_1", default, {}, type_expr=kind)
        if isinstance(value, bool | int | float | str | type(None)) and value is not None:
            record_call(
                self,
                _api.checks._assert,
                (
                    operator.eq(given, value),
                    f"{name} has been specialized to have value {value} but got another value",
                ),
                {},
            )
        return value

    @contextmanager
    def _patched(self, function: Callable[..., Any]) -> Iterator[None]:
        """A context in which calls that are to be recorded look for proxies."""
        patches = Patches()
        try:
            self._patch_modules(patches)
            asking = {i: asking_function(name, value) for i, (name, value) in RECORDED.items()}
            wrapped = {i: recorded_function(value) for i, value in self._autowrap.items()}
            spaces = [
                vars(nn_functional),
                vars(functional),
                vars(package()),
                *_globals_of(function, self.root),
            ]
            for space in {id(space): space for space in spaces}.values():
                for name, value in list(space.items()):
                    if id(value) in asking:
                        patches.put(space, name, asking[id(value)])
                    elif id(value) in wrapped and value is not builtins.__dict__.get(name):
                        patches.put(space, name, wrapped[id(value)])
            for module in self._autowrap_modules:
                for name, value in list(vars(module).items()):
                    if not name.startswith("_") and id(value) in wrapped:
                        patches.put(vars(module), name, wrapped[id(value)])
            for (_, name), space in list(_wrapped.items()):
                original = space.get(name, getattr(builtins, name, None))
                if original is not None:
                    patches.put(space, name, recorded_function(original))
            patches.put_attribute(Tensor, "__getitem__", _asking_item(Tensor.__getitem__))
            yield
        finally:
            patches.undo()

    def _patch_modules(self, patches: Patches) -> None:
        cache: dict[str, Any] = {}
        read, run = Module.__getattr__, Module.__call__

        @functools.wraps(read)
        def reading(module: Module, attr: str) -> Any:
            return self.getattr(attr, read(module, attr), cache)

        @functools.wraps(run)
        def calling(module: Module, *args: Any, **kwargs: Any) -> Any:
            return self.call_module(module, lambda *a, **k: run(module, *a, **k), args, kwargs)

        patches.put_attribute(Module, "__getattr__", reading)
        patches.put_attribute(Module, "__call__", calling)


class Patches:
    """Names that mean something else until `undo`."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], Any]] = []

    def put(self, space: dict[str, Any], name: str, value: Any) -> None:
        if name in space:
            self._undo.append(functools.partial(space.__setitem__, name, space[name]))
        else:
            self._undo.append(functools.partial(space.pop, name, None))
        space[name] = value

    def put_attribute(self, kind: type, name: str, value: Any) -> None:
        self._undo.append(functools.partial(setattr, kind, name, vars(kind)[name]))
        setattr(kind, name, value)

    def undo(self) -> None:
        while self._undo:
            self._undo.pop()()


def asking_function(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the package that is recorded if it is called with proxies."""

    @functools.wraps(function)
    def asking(*args: Any, **kwargs: Any) -> Any:
        found = find_proxies((args, kwargs))
        if not found:
            return function(*args, **kwargs)
        if name in AS_METHODS:
            return getattr(found[0], name)()
        target, given, named = arranged(name, function, args, kwargs)
        return record_call(found[0].tracer, target, given, named)

    return asking


@functools.cache
def _look_for_proxies() -> None:
    """Have functions of the package look for proxies that no tracer has made: those of a graph that a program
    writes by hand, at any time."""
    asking = {i: asking_function(name, value) for i, (name, value) in RECORDED.items()}
    for space in (vars(nn_functional), vars(functional), vars(package())):
        for name, value in list(space.items()):
            if id(value) in asking:
                space[name] = asking[id(value)]


GraphAppendingTracer.prepare = staticmethod(_look_for_proxies)


def recorded_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that `wrap` names: its calls with proxies are nodes."""

    @functools.wraps(function)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        found = find_proxies((args, kwargs))
        if not found:
            return function(*args, **kwargs)
        made = found[0].tracer.create_proxy("call_function", function, args, kwargs)
        made.node.meta["is_wrapped"] = True
        return made

    return recorded


def _asking_item(read: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(read)
    def asking(self: Tensor, index: Any) -> Any:
        found = find_proxies((index,))
        if not found:
            return read(self, index)
        return found[0].tracer.create_proxy("call_method", "__getitem__", (self, index), {})

    return asking


def _globals_of(function: Any, root: Module) -> list[dict[str, Any]]:
    """The globals of the function and of the modules' classes, outside of the package."""
    functions = [function, *(type(module).forward for module in root.modules())]
    return [
        found.__globals__
        for found in map(inspect.unwrap, functions)
        if isinstance(found, FunctionType)
        and str(found.__globals__.get("__name__", "")).partition(".")[0] != "rushlight"
    ]


def _tensors_of(module: Module, prefix: str) -> Iterator[tuple[int, tuple[Any, str]]]:
    """The tensors that are attributes of a module and of those in it, by identity."""
    for name, value in [*vars(module).items(), *module._buffers.items()]:
        if isinstance(value, Tensor) and not isinstance(value, Parameter):
            yield id(value), (value, prefix + name)
    for name, inner in module._modules.items():
        if inner is not None:
            yield from _tensors_of(inner, f"{prefix}{name}.")


def _without_kinds(function: Any, count: int) -> Callable[..., Any]:
    """The function with `*args`, `**kwargs` and what goes by name alone as plain parameters."""
    code = function.__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    plain = code.replace(co_argcount=count, co_kwonlyargcount=0, co_flags=flags)
    made = FunctionType(
        plain, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    made.__annotations__ = function.__annotations__
    return made


def symbolic_trace(
    root: Module | Callable[..., Any], concrete_args: dict[str, Any] | None = None
) -> GraphModule:
    """A function or module as a module with a graph: the calls that it makes, whatever its arguments are.

    >>> rl.fx.symbolic_trace(lambda x: x.relu())(rl.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, Module) else getattr(root, "__name__", type(root).__name__)
    return GraphModule(tracer.root, graph, name)
