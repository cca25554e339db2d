"""The ground floor.

Dtypes, shapes, schemas, the registry, the Tensor and dispatch. Imports nothing above it.
"""
