"""Activation functions: reverse and forward formulas."""
