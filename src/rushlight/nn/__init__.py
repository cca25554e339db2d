"""Neural networks: modules, their functions, initial values and utilities.

The modules are loaded when the first of them is asked for, to keep `import rushlight` quick.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import functional as functional
from ._factory import factory_kwargs as factory_kwargs

if TYPE_CHECKING:
    from . import attention as attention
    from . import common_types as common_types
    from . import grad as grad
    from . import init as init
    from . import modules as modules
    from . import parallel as parallel
    from . import parameter as parameter
    from . import utils as utils
    from .modules import *  # noqa: F403
    from .parameter import Buffer as Buffer
    from .parameter import Parameter as Parameter
    from .parameter import UninitializedBuffer as UninitializedBuffer
    from .parameter import UninitializedParameter as UninitializedParameter

_SUBMODULES = ("attention", "common_types", "grad", "init", "modules", "parallel", "parameter", "utils")
_PARAMETERS = ("Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter")


def __getattr__(name: str) -> Any:
    if name in _SUBMODULES:
        return importlib.import_module(f".{name}", __name__)
    if name == "__all__":
        return [*_modules().__all__, *_SUBMODULES, *_PARAMETERS, "factory_kwargs", "functional"]
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    source = importlib.import_module(".parameter", __name__) if name in _PARAMETERS else _modules()
    try:
        value = getattr(source, name)
    except AttributeError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    globals()[name] = value
    return value


def _modules() -> Any:
    return importlib.import_module(".modules", __name__)


def __dir__() -> list[str]:
    return sorted({*globals(), *_modules().__all__, *_SUBMODULES, *_PARAMETERS})
