"""Special functions: reverse and forward formulas."""
