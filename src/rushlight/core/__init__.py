"""The ground floor: dtypes, shapes, schemas, the registry, the Tensor and dispatch. Imports nothing above it."""
