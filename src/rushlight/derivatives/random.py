"""Random numbers: reverse and forward formulas."""
