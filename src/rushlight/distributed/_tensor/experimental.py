"""The names of `distributed.tensor.experimental`, where they were before."""

from ..tensor.experimental import implicit_replication

__all__ = ["implicit_replication"]
