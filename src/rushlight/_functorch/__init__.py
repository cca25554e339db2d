"""Transforms of functions, under the names their modules have in PyTorch."""

from . import apis, autograd_function, eager_transforms, make_functional, pyfunctorch, utils

__all__ = ["apis", "autograd_function", "eager_transforms", "make_functional", "pyfunctorch", "utils"]
