"""Embeddings: reverse and forward formulas."""
