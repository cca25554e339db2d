"""Parts of the loader, under the names of PyTorch's modules."""

from .. import worker
from . import collate

__all__ = ["collate", "worker"]
