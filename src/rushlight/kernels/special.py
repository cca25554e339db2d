"""Special functions: eager kernels on NumPy arrays."""
