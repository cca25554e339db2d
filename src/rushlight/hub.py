"""Models of other people's repositories: those in a directory of this machine. Nothing is fetched over the
network."""

from __future__ import annotations

import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn
from urllib.parse import urlparse  # noqa: F401  programs import it from here

from .core.missing import missing_class

try:
    tqdm: Any = importlib.import_module("tqdm").tqdm
except ImportError:  # the progress of downloads, of which there are none here
    tqdm = missing_class("hub", "tqdm", "the package tqdm is not installed")

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")
_SOURCES = ("github", "local")
_FILE = "hubconf.py"
_directory: str | None = None


def _get_torch_home() -> str:
    cache = os.getenv("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.getenv("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """Where models are kept.

    >>> isinstance(rl.hub.get_dir(), str)
    True
    """
    return _directory or os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike[str]) -> None:
    """Say where models are kept.

    >>> before = rl.hub.get_dir()
    >>> rl.hub.set_dir("models")
    >>> rl.hub.get_dir()
    'models'
    >>> rl.hub.set_dir(before)
    """
    global _directory
    _directory = os.path.expanduser(d)


def load(
    repo_or_dir: str | os.PathLike[str],
    model: str,
    *args: Any,
    source: str = "github",
    trust_repo: Any = None,
    force_reload: bool = False,
    verbose: bool = True,
    skip_validation: bool = False,
    **kwargs: Any,
) -> Any:
    """What the function `model` of the directory's hubconf.py returns. `source` must be "local".

    >>> import pathlib, tempfile
    >>> directory = tempfile.TemporaryDirectory()
    >>> program = "def three(): 'The number three.'; return 3"
    >>> _ = pathlib.Path(directory.name, "hubconf.py").write_text(program)
    >>> rl.hub.load(directory.name, "three", source="local")
    3
    >>> directory.cleanup()
    """
    _check_source(source)
    with _repository(repo_or_dir) as module:
        return _entry(module, model)(*args, **kwargs)


def list(
    github: str | os.PathLike[str],
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = None,
    verbose: bool = True,
) -> Any:
    """The names of the functions of a directory's hubconf.py.

    >>> import pathlib, tempfile
    >>> directory = tempfile.TemporaryDirectory()
    >>> program = "def three(): 'The number three.'; return 3"
    >>> _ = pathlib.Path(directory.name, "hubconf.py").write_text(program)
    >>> rl.hub.list(directory.name)
    ['three']
    >>> directory.cleanup()
    """
    _check_source("local" if os.path.isdir(github) else "github")
    with _repository(github) as module:
        return [name for name in dir(module) if callable(getattr(module, name)) and not name.startswith("_")]


def help(
    github: str | os.PathLike[str],
    model: str,
    force_reload: bool = False,
    skip_validation: bool = False,
    trust_repo: Any = None,
) -> str | None:
    """The documentation of a function of a directory's hubconf.py.

    >>> import pathlib, tempfile
    >>> directory = tempfile.TemporaryDirectory()
    >>> program = "def three(): 'The number three.'; return 3"
    >>> _ = pathlib.Path(directory.name, "hubconf.py").write_text(program)
    >>> rl.hub.help(directory.name, "three")
    'The number three.'
    >>> directory.cleanup()
    """
    _check_source("local" if os.path.isdir(github) else "github")
    with _repository(github) as module:
        return _entry(module, model).__doc__


def _check_source(source: str) -> None:
    if source.lower() not in _SOURCES:
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source.lower() != "local":
        raise NotImplementedError(
            "torch.hub: repositories of GitHub are not fetched; clone the repository and pass its directory with "
            'source="local"'
        )


@contextmanager
def _repository(directory: str | os.PathLike[str]) -> Any:
    """The module hubconf.py of a directory, from which it may import meanwhile."""
    root = str(directory)
    path = Path(root) / _FILE
    if not path.is_file():
        raise FileNotFoundError(f"torch.hub: there is no {_FILE} in {root}")
    sys.path.insert(0, root)
    try:
        spec = importlib.util.spec_from_file_location(_FILE, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        _check_dependencies(module)
        yield module
    finally:
        sys.path.remove(root)


def _check_dependencies(module: ModuleType) -> None:
    needed = getattr(module, "dependencies", None) or ()
    absent = [name for name in needed if not _is_there(name)]
    if absent:
        raise RuntimeError(f"Missing dependencies: {', '.join(absent)}")


def _is_there(name: str) -> bool:
    return name == "torch" or importlib.util.find_spec(name) is not None


def _entry(module: ModuleType, model: str) -> Callable[..., Any]:
    if not isinstance(model, str):
        raise ValueError("Invalid input: model should be a string of function name")
    found = getattr(module, model, None)
    if found is None or not callable(found):
        raise RuntimeError(f"Cannot find callable {model} in hubconf")
    function: Callable[..., Any] = found
    return function


def _refuse(name: str, url: str) -> NoReturn:
    raise NotImplementedError(
        f"torch.hub.{name}: nothing is fetched over the network. Fetch {url} yourself, and read the "
        "file with torch.load"
    )


def load_state_dict_from_url(url: str, *args: Any, **kwargs: Any) -> Any:
    """Not available: read a file with `load`.

    >>> rl.hub.load_state_dict_from_url("https://example.org/model.pt")
    Traceback (most recent call last):
    NotImplementedError: torch.hub.load_state_dict_from_url: nothing is fetched over the network. ...
    """
    _refuse("load_state_dict_from_url", url)


def download_url_to_file(url: str, *args: Any, **kwargs: Any) -> Any:
    """Not available: nothing is fetched over the network.

    >>> rl.hub.download_url_to_file("https://example.org/model.pt", "model.pt")
    Traceback (most recent call last):
    NotImplementedError: torch.hub.download_url_to_file: nothing is fetched over the network. ...
    """
    _refuse("download_url_to_file", url)
