"""Matrix products: register-blocked kernels for the target's vectors, and the loops around them."""

from . import driver, pack  # noqa: F401  their routines are found by name
from .emit import Scratch, emit_product

__all__ = ["Scratch", "emit_product"]
