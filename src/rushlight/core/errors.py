"""Raising the exception PyTorch raises, with a message that says what was asked and what is allowed.

Every operator is validated in its shape rule, before any work is done, so an error leaves nothing half-
written.
"""

from __future__ import annotations

import sys
import warnings
from typing import NoReturn


class RegistrationError(Exception):
    """An operator, kernel or formula was declared wrongly; raised while the package is imported."""


class InternalError(Exception):
    """A kernel broke its contract with its shape rule.

    Always a bug in Rushlight, never in the caller's program.
    """


class UserError(Exception):
    """What a user asked for does not fit the program."""


class LinAlgError(RuntimeError):
    """A matrix does not allow what was asked: it is singular, or not positive-definite.

    >>> issubclass(rl.linalg.LinAlgError, RuntimeError)
    True
    """


class AcceleratorError(RuntimeError):
    """An accelerator failed.

    >>> issubclass(rl.AcceleratorError, RuntimeError)
    True
    """


class OutOfMemoryError(RuntimeError):
    """A device has no memory left.

    >>> issubclass(rl.OutOfMemoryError, RuntimeError)
    True
    """


def check(condition: object, message: str, error: type[Exception] = RuntimeError) -> None:
    """Raise `error(message)` unless `condition` holds; of sizes that are data, in a run."""
    if type(condition) is bool:
        if not condition:
            raise error(message)
        return
    expect = getattr(type(condition), "expect", None)  # of SizeTruth, core/symbols.py
    if expect is not None:
        expect(condition, message, error)
    elif not condition:
        raise error(message)


class _Once:
    """Warnings that were given; `always` has them given each time."""

    always = False

    def __init__(self) -> None:
        self.given: set[str] = set()


WARNINGS = _Once()


def warn_once(message: str, stacklevel: int) -> None:
    """Warn of something that is as true the second time, the first time only."""
    if WARNINGS.always or message not in WARNINGS.given:
        WARNINGS.given.add(message)
        warnings.warn(message, UserWarning, stacklevel=stacklevel + 1)


def warn_user(message: str) -> None:
    """Warn at the line of the program that called the package, however many calls lie in between."""
    level = 2
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("rushlight."):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, UserWarning, stacklevel=level)


def fail(message: str, error: type[Exception] = RuntimeError) -> NoReturn:
    raise error(message)
