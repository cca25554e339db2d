"""Matrix products: register-blocked kernels for the target's vectors, and the loops around them."""

from .driver import emit_product

__all__ = ["emit_product"]
