"""Names that the tree's tests import from torch.testing._internal and that the installed torch no longer
has there come from the tree's own file, run as a module beside it. For both libraries."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

PREFIX = "torch.testing._internal."
Locate = Callable[[str, Any], ModuleSpec | None]


class Finder:
    """Finds the modules of torch.testing._internal and gives each the tree's version to fall back on."""

    def __init__(self, tree: str, locate: Locate) -> None:
        self.tree = tree
        self.locate = locate

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not name.startswith(PREFIX) or name.count(".") != 3:
            return None
        spec = self.locate(name, path)
        if spec is None:
            at = self._file(name)
            return importlib.util.spec_from_file_location(name, at) if os.path.exists(at) else None
        _after(spec, lambda module: self._relate(module, name))
        return spec

    def _file(self, name: str) -> str:
        return os.path.join(self.tree, *name.split(".")) + ".py"

    def _relate(self, module: ModuleType, name: str) -> None:
        if "__getattr__" not in vars(module):
            module.__getattr__ = lambda attribute: self._older_name(name, attribute)  # type: ignore[method-assign]
        if name.endswith(".common_modules"):  # the same test names for both libraries
            names = module.MODULE_CLASS_NAMES
            for key in names:
                names[key] = names[key].replace("rushlight.", "")

    def _older_name(self, name: str, attribute: str) -> Any:
        if not attribute.startswith("__"):
            older = self._older(name)
            if older is not None and attribute in vars(older):
                return vars(older)[attribute]
        raise AttributeError(f"module {name!r} has no attribute {attribute!r}")

    def _older(self, name: str) -> ModuleType | None:
        """The tree's version of a helper module, or None."""
        key = "upstream_tree." + name
        if key not in sys.modules:
            at = self._file(name)
            if not os.path.exists(at):
                return None
            spec = importlib.util.spec_from_file_location(key, at)
            assert spec is not None and spec.loader is not None
            sys.modules[key] = module = importlib.util.module_from_spec(spec)
            try:
                spec.loader.exec_module(module)
            except BaseException:
                del sys.modules[key]
                raise
        return sys.modules[key]


def _after(spec: ModuleSpec, then: Callable[[ModuleType], None]) -> None:
    """Have `then` called with the module once it has been executed."""
    loader: Any = spec.loader
    first = loader.exec_module

    def execute(module: ModuleType) -> None:
        first(module)
        then(sys.modules.get(spec.name, module))

    loader.exec_module = execute


def install(tree: str, locate: Locate) -> None:
    sys.meta_path.insert(0, Finder(tree, locate))  # type: ignore[arg-type]


def placeholders(path: str) -> None:
    """Private names that a test file imports and that torch no longer has: a function that raises when it
    is called, so that the file's other tests can be collected."""
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom) or node.col_offset or node.level or not node.module:
            continue
        if node.module.split(".")[0] not in ("torch", "functorch"):
            continue
        module = _module(node.module)
        for alias in node.names:
            if (
                alias.name != "*"
                and not hasattr(module, alias.name)
                and not _is_module(f"{node.module}.{alias.name}")
            ):
                setattr(module, alias.name, _gone(f"{node.module}.{alias.name}"))


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ImportError:
        sys.modules[name] = module = ModuleType(name)
        return module


def _is_module(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def _gone(name: str) -> Callable[..., None]:
    def gone(*args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(f"torch no longer has {name}")

    return gone
