"""Checkpointing of the modules of a model."""
