"""Tools around tensors: checkpointing, data loading, and more."""
