"""Proving Rushlight against PyTorch: the conformance harness over PyTorch's own OpInfo database.

This is the only package that imports torch, and only its modules that need the oracle do; importing
`rushlight.testing` itself does not. `require_oracle` says clearly what to install when it is missing.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

ORACLE_VERSION = "2.13.0"

_FOR_PROGRAMS = {"assert_close": "closeness", "make_tensor": "creation"}


def __getattr__(name: str) -> Any:
    """The functions for programs and their tests, loaded when they are asked for."""
    if name in _FOR_PROGRAMS:
        return getattr(importlib.import_module(f"{__name__}.{_FOR_PROGRAMS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


class OracleMissing(ImportError):
    """PyTorch, or something its test database needs, is not installed.

    >>> issubclass(rl.testing.OracleMissing, ImportError)
    True
    """


def require_oracle() -> None:
    """Raise OracleMissing, with the command that helps, unless the test extra is installed.

    >>> rl.testing.require_oracle()
    """
    missing = [name for name in ("torch", "expecttest") if importlib.util.find_spec(name) is None]
    if missing:
        raise OracleMissing(
            f"the harness compares with PyTorch {ORACLE_VERSION}, and did not find: {', '.join(missing)}; "
            "install the test extra: pip install 'rushlight[test]' (in a checkout: pip install -e '.[test]')"
        )
