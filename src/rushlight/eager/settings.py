"""Which kernels operators run outside of compiled functions: NumPy's, native ones, or whichever is ready."""

from __future__ import annotations

import os
from types import TracebackType

from ..core.dispatch import forget_runners
from ..core.steadiness import is_held

MODES_OF_EAGER = ("auto", "native", "reference")
VARIABLE = "RUSHLIGHT_EAGER"


def _checked(mode: str, where: str) -> str:
    if mode not in MODES_OF_EAGER:
        raise ValueError(f"{where} must be one of {', '.join(MODES_OF_EAGER)}, but it is {mode!r}")
    return mode


_mode = _checked(os.environ.get(VARIABLE) or "auto", f"the environment variable {VARIABLE}")


def get() -> str:
    """The mode in force: the one that was asked for, but "reference" for "auto" while no kernel is to arrive.

    >>> rl.eager.get() in ("auto", "native", "reference")
    True
    """
    return "reference" if is_held() and _mode == "auto" else _mode


def _set(mode: str) -> None:
    global _mode
    _mode = mode
    forget_runners()


class use:
    """Set the mode of the process: `use("native")`, or `with use("native"):` for what is inside.

    >>> with rl.eager.use("reference"):
    ...     rl.ones(2) + 1
    tensor([2., 2.])
    """

    def __init__(self, mode: str) -> None:
        self._before = _mode
        _set(_checked(mode, "the mode of eager kernels"))

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        _set(self._before)
