"""`import torch` finds Rushlight. PyTorch's test helpers (torch.testing._internal and what it compares
with) run from the installed torch's files on top of it; whatever else of torch Rushlight lacks is a
stub.

A stub exists so that a file can be imported: while files are collected it may be named, subclassed or used
as a decorator. Once tests run, calling it raises `Missing`, and a missing attribute of a real module is an
AttributeError as for any user. So a stub never makes a test pass.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import linecache
import os
import sys
import sysconfig
from importlib.machinery import ModuleSpec
from types import FrameType, FunctionType, ModuleType
from typing import Any

from . import older_helpers

# Run from the installed torch's files.
HELPERS = (
    "torch.testing._internal",
    "torch.testing._comparison",
    "torch.testing._utils",
    "torch.testing._creation",
    "torch._vendor",
)
ASKED_OF_ANYTHING = {"parametrize_fn", "pytestmark"}  # what the helpers and pytest look for on any object
_running = False  # while a test runs

stubs: dict[str, Any] = {}  # by full name; stand-ins are put here too
for_helpers: dict[str, Any] = {}  # what only the test helpers may see of torch
special_modules: dict[str, Any] = {}  # full name -> function that makes the module


def set_running(flag: bool) -> None:
    global _running
    _running = flag


def running() -> bool:
    return _running


class Missing(NotImplementedError):
    """A test used what Rushlight does not have."""


def _lacks(name: str) -> Missing:
    return Missing(f"rushlight lacks {name}")


class StubType(type):
    """The type of a class that is not there."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if _running:
            raise _lacks(cls._stub_name)
        if "_stub_name" not in vars(cls):  # a test's subclass
            return type.__call__(cls, *args, **kwargs)
        return stub(cls._stub_name + "()")

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__") or name in ASKED_OF_ANYTHING or "_stub_name" not in vars(cls):
            raise AttributeError(name)
        return stub(f"{cls._stub_name}.{name}")


class Stub:
    """Any other object that is not there."""

    def __init__(self, name: str) -> None:
        self._stub_name = name

    def _used(self) -> None:
        if _running:
            raise _lacks(self._stub_name)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self._used()
        if len(args) == 1 and not kwargs and isinstance(args[0], FunctionType):
            return _failing(args[0], self._stub_name)  # a decorator: the test it decorates fails
        if len(args) == 1 and not kwargs and isinstance(args[0], type):
            return args[0]
        return stub(self._stub_name + "()")

    def __getattr__(self, name: str) -> Any:
        if name == "__all__" and not _running:
            return []
        if (name.startswith("__") and name.endswith("__")) or name in ASKED_OF_ANYTHING:
            raise AttributeError(name)
        return stub(f"{self._stub_name}.{name}")

    def _answer(value: Any) -> Any:  # type: ignore[misc]
        def method(self: Stub, *args: Any) -> Any:
            self._used()
            return value

        return method

    __enter__ = _answer(None)
    __bool__ = __lt__ = __le__ = __gt__ = __ge__ = _answer(False)
    __len__ = __int__ = __index__ = _answer(0)

    def __exit__(self, *exc: object) -> None:
        pass

    def __iter__(self) -> Any:
        self._used()
        return iter(())

    def __getitem__(self, key: Any) -> Any:
        self._used()
        return stub(self._stub_name + "[...]")

    def __add__(self, other: Any) -> Stub:
        self._used()
        return self

    __sub__ = __radd__ = __rsub__ = __mul__ = __rmul__ = __add__

    def __or__(self, other: Any) -> type:  # in annotations
        return object

    __ror__ = __or__

    def __repr__(self) -> str:
        return f"<stub {self._stub_name}>"

    def __hash__(self) -> int:
        return hash(self._stub_name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stub) and other._stub_name == self._stub_name

    def __mro_entries__(self, bases: Any) -> tuple[type, ...]:
        return (_stub_class(self._stub_name),)

    def __instancecheck__(self, instance: Any) -> bool:
        return False

    def __subclasscheck__(self, subclass: Any) -> bool:
        return False


def _failing(function: FunctionType, name: str) -> Any:
    @functools.wraps(function)
    def fails(*args: Any, **kwargs: Any) -> None:
        raise _lacks(name)

    return fails


def _stub_class(name: str) -> type:
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        if _running:
            raise _lacks(name)

    def attribute(self: Any, asked: str) -> Any:
        if _running or asked.startswith(("__", "pytest")) or asked in ASKED_OF_ANYTHING:
            raise AttributeError(f"rushlight lacks {name}; no attribute {asked}")
        return stub(f"{name}.{asked}")

    body = {
        "_stub_name": name,
        "__module__": "stubs",
        "__init__": init,
        "__getattr__": attribute,
        "__init_subclass__": classmethod(lambda cls, **kwargs: None),
    }
    return StubType(name.rpartition(".")[2].strip("()[]") or "Stub", (), body)


def stub(name: str) -> Any:
    """What stands for `name`: a class if the name looks like one's."""
    if name not in stubs:
        last = name.rpartition(".")[2].lstrip("_")
        looks_like_class = last[:1].isupper() and not last.isupper() and last.isidentifier()
        stubs[name] = _stub_class(name) if looks_like_class else Stub(name)
    return stubs[name]


class StubModule(ModuleType):
    """A module that is not there."""

    def __getattr__(self, name: str) -> Any:
        if name == "__all__" and not _running:
            return []
        if name.startswith("__"):
            raise AttributeError(name)
        full = f"{self.__name__}.{name}"
        if full in sys.modules:
            return sys.modules[full]
        if _asked_by_us(sys._getframe(1)):
            raise AttributeError(name)
        return stub(full)


class Lenient(ModuleType):
    """A module of Rushlight. While files are collected, a name it lacks is a stub, unless the line asks
    whether it is there."""

    def __getattr__(self, name: str) -> Any:
        frame = sys._getframe(1)
        full = f"torch{self.__name__[len('rushlight') :]}.{name}"
        if full in for_helpers and "/torch/testing/" in frame.f_code.co_filename:
            return for_helpers[full]
        if _running or name.startswith("__") or _asked_by_us(frame) or _asks_whether(frame):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if full == "torch.torch":
            return self
        return sys.modules[full] if full in sys.modules else stub(full)

    def __setattr__(self, name: str, value: Any) -> None:
        """An import of torch.a.b must not put the module over a function of that name, as
        `torch.autograd.gradcheck` is."""
        if not (isinstance(value, ModuleType) and callable(self.__dict__.get(name))):
            super().__setattr__(name, value)


def _asks_whether(frame: FrameType) -> bool:
    """Whether the line asks if a name is there. The operator table's own look-up is sure that it is."""
    sure = frame.f_code.co_name == "_getattr_qual" and frame.f_locals.get("default") is frame.f_globals.get(
        "_NOTHING"
    )
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno)
    return ("hasattr(" in line or "getattr(" in line) and not sure


@functools.cache
def _package() -> str:
    import rushlight

    return os.path.dirname(os.path.abspath(rushlight.__file__)) + os.sep


def is_ours(filename: str) -> bool:
    """Whether a file belongs to Rushlight."""
    return "rushlight" in sys.modules and filename.startswith(_package())


def _asked_by_us(frame: FrameType | None) -> bool:
    """Whether Rushlight itself, not a test, asks."""
    while frame is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None and is_ours(frame.f_code.co_filename)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds torch's modules: helpers in the installed torch, all else in Rushlight."""

    def __init__(self) -> None:
        paths = (sysconfig.get_paths()[kind] for kind in ("purelib", "platlib"))
        self.site = next(p for p in paths if os.path.isdir(os.path.join(p, "torch")))
        self.modules: dict[str, ModuleType] = {}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.startswith("rushlight."):
            return self._relaxed(name, path)
        if name == "functorch" or name.startswith("functorch."):
            return self._spec(name, _functorch(name))
        if name != "torch" and not name.startswith("torch."):
            return None
        if name.startswith(HELPERS):
            return self.locate(name)
        module = special_modules[name]() if name in special_modules else self._substitute(name)
        return None if module is None else self._spec(name, module)

    def locate(self, name: str, path: Any = None) -> ModuleSpec | None:
        """A module of the installed torch."""
        at = os.path.join(self.site, *name.split("."))
        if os.path.exists(at + ".py"):
            return importlib.util.spec_from_file_location(name, at + ".py")
        init = os.path.join(at, "__init__.py")
        if os.path.exists(init):
            return importlib.util.spec_from_file_location(name, init, submodule_search_locations=[at])
        return None

    def _substitute(self, name: str) -> ModuleType | None:
        """Rushlight's module for torch's, or a stub of one while files are collected."""
        other = "rushlight" + name[len("torch") :]
        try:
            module = importlib.import_module(other)
        except ModuleNotFoundError:
            parent, _, leaf = other.rpartition(".")
            found = None if _running else getattr(sys.modules.get(parent), leaf, None)
            if isinstance(found, ModuleType) and not isinstance(found, StubModule):
                return found
            if _running:
                return None
            stand_in = StubModule(name)
            stand_in.__path__ = []
            return stand_in
        _relax(module)
        return module

    def _relaxed(self, name: str, path: Any) -> ModuleSpec | None:
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            older_helpers._after(spec, _relax)
        return spec

    def _spec(self, name: str, module: ModuleType) -> ModuleSpec:
        self.modules[name] = module
        return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module itself, whose own attributes the import system is about to write over."""
        module = self.modules[spec.name]
        names = ("__spec__", "__name__", "__path__", "__loader__", "__package__")
        spec.loader_state = {n: module.__dict__[n] for n in names if module.__dict__.get(n) is not None}
        sys.modules[spec.name] = module
        return module

    def exec_module(self, module: ModuleType) -> None:
        spec = module.__spec__
        kept = getattr(spec, "loader_state", None)
        if kept and kept.get("__spec__") is not None:
            for name, value in kept.items():
                setattr(module, name, value)


def _functorch(name: str) -> ModuleType:
    """functorch, and its part `experimental`, are torch.func under its older names."""
    module = StubModule(name)
    module.__path__ = []
    if name in ("functorch", "functorch.experimental"):
        import rushlight
        import rushlight.func
        from rushlight.fx.experimental.proxy_tensor import make_fx

        for key, value in vars(rushlight.func).items():
            if not key.startswith("_") and not isinstance(value, ModuleType):
                setattr(module, key, value)
        module.vmap = rushlight.vmap
        module.make_fx = make_fx
    return module


def _relax(module: ModuleType) -> None:
    if type(module) is ModuleType and module.__name__.startswith("rushlight"):
        module.__class__ = Lenient


def install(tree: str) -> None:
    """From here on `import torch` finds Rushlight in this process."""
    import rushlight

    for name, module in list(sys.modules.items()):
        if name == "rushlight" or name.startswith("rushlight."):
            _relax(module)
    finder = Finder()
    sys.meta_path.insert(0, finder)
    older_helpers.install(tree, finder.locate)
    from . import stand_ins

    stand_ins.install(rushlight)
    import torch._C
    import torch._dynamo.config
    import torch._functorch.config
    import torch._inductor.config
    import torch.testing._comparison
    import torch.testing._creation
    import torch.testing._utils  # noqa: F401
