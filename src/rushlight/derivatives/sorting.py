"""Sorting, searching and unique values: reverse and forward formulas."""
