"""Matrix and tensor products, distances: reverse and forward formulas."""
