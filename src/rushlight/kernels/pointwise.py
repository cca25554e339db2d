"""Elementwise operators: eager kernels on NumPy arrays."""
