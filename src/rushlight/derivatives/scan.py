"""Running reductions along a dimension: reverse and forward formulas."""
