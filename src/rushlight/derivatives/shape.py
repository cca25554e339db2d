"""Joining, splitting, flipping, repeating, padding: reverse and forward formulas."""
