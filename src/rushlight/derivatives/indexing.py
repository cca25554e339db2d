"""Gather, scatter, index and mask operators: reverse and forward formulas."""
