"""Matrix products: register-blocked kernels for the target's vectors, and the loops around them."""
