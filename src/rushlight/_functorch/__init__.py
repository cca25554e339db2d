"""Transforms of functions, under the names their modules have in PyTorch."""
