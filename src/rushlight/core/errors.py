"""Raising the exception PyTorch raises, with a message that says what was asked and what is allowed.

Every operator is validated in its shape rule, before any work is done, so an error leaves nothing half-
written.
"""

from __future__ import annotations

from typing import NoReturn


class RegistrationError(Exception):
    """An operator, kernel or formula was declared wrongly; raised while the package is imported."""


class InternalError(Exception):
    """A kernel broke its contract with its shape rule.

    Always a bug in Rushlight, never in the caller's program.
    """


class LinAlgError(RuntimeError):
    """A matrix does not allow what was asked: it is singular, or not positive-definite."""


class AcceleratorError(RuntimeError):
    """An accelerator failed."""


class OutOfMemoryError(RuntimeError):
    """A device has no memory left."""


def check(condition: object, message: str, error: type[Exception] = RuntimeError) -> None:
    """Raise `error(message)` unless `condition` holds."""
    if not condition:
        raise error(message)


def fail(message: str, error: type[Exception] = RuntimeError) -> NoReturn:
    raise error(message)
