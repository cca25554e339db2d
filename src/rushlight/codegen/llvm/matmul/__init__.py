"""Matrix products: register-blocked kernels for the target's vectors, and the loops around them."""

from . import driver, pack  # noqa: F401  their routines are found by name
from .emit import Scratch, emit_product
from .routines import begin_routines, routine_imports

__all__ = ["Scratch", "begin_routines", "emit_product", "routine_imports"]
