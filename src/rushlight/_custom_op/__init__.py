"""The former way to define operators, by the names it had."""

from . import impl

__all__ = ["impl"]
