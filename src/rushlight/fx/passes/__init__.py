"""Passes over graphs of `fx`."""
