"""What PyTorch may still change."""

from .._dispatch import implicit_replication

__all__ = ["implicit_replication"]
