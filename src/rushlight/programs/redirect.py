"""`import torch` finds Rushlight: the modules of this package stand in `sys.modules` under PyTorch's names, too.

They are the same objects, so that classes are one class and what a program sets on `torch` is set here. The
finder is asked for `torch` and its submodules before any other, so that an installed PyTorch is not found; a
submodule that is not here is not found at all. While the redirect is there, dtypes and their like are shown as
`torch.float32`, and `torch.__version__` and `importlib.metadata.version("torch")` say which PyTorch is followed,
since libraries ask, and `torch.__name__` is `torch`.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.metadata import Distribution, DistributionFinder
from multiprocessing import spawn
from os import PathLike
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

from .. import version
from ..core.modes import MODES
from ..core.shown_name import SHOWN
from ..torch_version import TorchVersion
from . import missing

FOLLOWS = "2.13.0"  # the PyTorch whose names and behaviour these are
OWN_VERSION = version.__version__
VERSION = TorchVersion(f"{FOLLOWS}+rushlight.{OWN_VERSION}")

_PACKAGE: Any = sys.modules["rushlight"]
_ANY = DistributionFinder.Context()

# Floors of this package that are no modules of PyTorch's.
OWN = frozenset(
    {
        "__main__", "_api", "_serialization", "atlas", "batching", "capture", "cli", "codegen", "comm", "core",
        "decompositions", "derivatives", "eager", "graph", "kernels", "logs", "loops", "lowering", "pages",
        "plan", "planning", "programs", "runtime", "schedule", "torch_backend",
    }
)  # fmt: skip


# The package that comes with PyTorch, and where it is here.
FUNCTORCH = {
    "functorch": "rushlight._functorch.published",
    "functorch.experimental": "rushlight._functorch.experimental",
}


class TorchFinder(MetaPathFinder, Loader):
    """Finds `torch`, its submodules and `functorch` in this package, and metadata of a distribution `torch`."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name == "torch" or name in FUNCTORCH:
            return ModuleSpec(name, self, is_package=name in ("torch", "functorch"))
        if name.startswith("functorch."):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        if not name.startswith("torch."):
            return None
        if name.split(".")[1] in OWN:  # which others would find in our directory
            if not _imported_by_us():  # `from .. import codegen` asks for it by the name of the package
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)
            return ModuleSpec(name, self, is_package=True)
        found = importlib.util.find_spec(_own_name(name))
        return found and ModuleSpec(name, self, is_package=found.submodule_search_locations is not None)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        sys.modules[name] = importlib.import_module(_own_name(name))
        # Modules that are loaded have their place in their packages, where a function may stand by their name.
        for own, loaded in list(sys.modules.items()):
            if own.startswith("rushlight.") and own.split(".")[1] not in OWN:
                sys.modules.setdefault(_torch_name(own), loaded)

    def find_distributions(self, context: DistributionFinder.Context = _ANY) -> Iterator[Distribution]:
        if context.name in (None, "torch"):
            yield TorchDistribution()


class TorchDistribution(Distribution):
    """What `importlib.metadata` says of the distribution `torch`."""

    def read_text(self, filename: str) -> str | None:
        texts = {
            "METADATA": f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\nSummary: Rushlight\n",
            "top_level.txt": "torch\n",
        }
        return texts.get(filename)

    def locate_file(self, path: str | PathLike[str]) -> Any:
        return Path(_PACKAGE.__file__).parent / path


def _imported_by_us() -> bool:
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and "importlib" in frame.f_code.co_filename:
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__package__")).partition(".")[0] == "rushlight"


def _own_name(name: str) -> str:
    return FUNCTORCH.get(name) or "rushlight" + name.removeprefix("torch")


def _torch_name(name: str) -> str:
    return "torch" + name.removeprefix("rushlight")


_FINDER = TorchFinder()
_prepare_worker = spawn.get_preparation_data


def as_torch() -> None:
    """Have every `import torch`, and of its submodules, find Rushlight from now on, in this process and in those
    that `multiprocessing` starts.

    Call it before anything imports PyTorch; `rushlight run program.py` does so for a program as it is.

    >>> import rushlight
    >>> rushlight.as_torch()
    >>> import torch.nn.functional as F
    >>> F is rushlight.nn.functional
    True
    """
    if _FINDER in sys.meta_path:
        return
    other = sys.modules.get("torch")
    if other is not None:
        raise RuntimeError(
            f"rushlight.as_torch(): PyTorch is imported already, from {getattr(other, '__file__', '?')}, and "
            "what has imported it would keep it. Call as_torch() before the first import of torch, or of a "
            "library that imports it; or start the program with `rushlight run`."
        )
    sys.meta_path.insert(0, _FINDER)
    spawn.get_preparation_data = _with_redirect
    missing.explain_in_tracebacks()
    _show_as("torch", VERSION)
    _PACKAGE.torch = _PACKAGE  # programs say torch.torch
    importlib.import_module("torch")


def undo() -> None:
    """Remove the redirect; modules that have imported `torch` keep what they have."""
    if _FINDER not in sys.meta_path:
        return
    sys.meta_path.remove(_FINDER)
    spawn.get_preparation_data = _prepare_worker
    missing.leave_tracebacks()
    _show_as("rushlight", OWN_VERSION)
    del _PACKAGE.torch
    for name in [name for name in sys.modules if name.partition(".")[0] in ("torch", "functorch")]:
        del sys.modules[name]


def _show_as(name: str, shown: str) -> None:
    SHOWN.package = _PACKAGE.__name__ = name
    _PACKAGE.__version__ = version.__version__ = shown


# What a worker process does before it reads the program again: its sys.path is not that of the program yet.
_IN_WORKER = """
import sys
sys.path.insert(0, {directory!r})
try:
    from rushlight.programs import {name}
    {name}()
finally:
    sys.path.remove({directory!r})
"""


class _Redirected:
    """Read by a worker process, it makes the redirect there, and has pieces compiled if they are here."""

    def __reduce__(self) -> tuple[Any, ...]:
        directory = str(Path(_PACKAGE.__file__).parents[1])
        name = "as_torch" if MODES.pieces is None else "compile_automatically"
        return exec, (_IN_WORKER.format(directory=directory, name=name),)


def _with_redirect(name: str) -> dict[str, Any]:
    """What a process that is spawned is told before anything else."""
    return {**_prepare_worker(name), "rushlight": _Redirected()}
