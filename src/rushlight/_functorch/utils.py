"""How custom functions are applied inside of transforms."""

from contextlib import AbstractContextManager, nullcontext

__all__ = ["enable_single_level_autograd_function"]


def enable_single_level_autograd_function() -> AbstractContextManager[None]:
    """A context in which `_SingleLevelFunction`s may be applied; they always may, since reverse mode has one
    history for all levels, to which every custom function belongs."""
    return nullcontext()
