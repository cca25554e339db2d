"""Programs written for PyTorch, unchanged: `import torch` finds this package.

redirect    what makes it so, here and in worker processes
missing     what an error says about a name that is not here
start       runs a script or a module as the main program
automatic   compiles modules and steps of optimizers that are called again and again,
            each of them as a piece_function
effects     what is not compiled without being asked for
report      what was compiled, and what was not and why
"""

from . import automatic
from .redirect import as_torch

__all__ = ["as_torch", "compile_automatically"]


def compile_automatically() -> None:
    """As `as_torch`, and what is called again and again is compiled from now on."""
    as_torch()
    automatic.enable()
