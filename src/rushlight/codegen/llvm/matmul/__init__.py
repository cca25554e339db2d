"""Matrix products: a generator of register-blocked kernels for the target's vectors, and of the loops around them."""

from .driver import emit_product

__all__ = ["emit_product"]
