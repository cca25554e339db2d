"""The records of an archive that `save` wrote, one by one, for programs that read them on their own."""

from __future__ import annotations

from typing import Any

from ..core.construct import frombuffer
from ..core.tensor import Tensor
from .archives import ArchiveReader

__all__ = ["PyTorchFileReader"]


class PyTorchFileReader(ArchiveReader):
    """Reads records of an archive of PyTorch's by name.

    >>> import io
    >>> file = io.BytesIO()
    >>> rl.save(rl.nn.Linear(3, 1).eval(), file)
    >>> reader = rl.PyTorchFileReader(file)
    >>> reader.has_record("data.pkl"), reader.get_record_size("data/0")
    (True, 12)
    >>> reader.get_storage_from_record("data/0", 3, rl.float32).shape
    rushlight.Size([3])
    """

    def get_record_size(self, name: str) -> int:
        return self.size(name)

    def get_storage_from_record(self, name: str, numel: int, dtype: Any) -> Tensor:
        """A tensor of the first `numel` elements of a record."""
        return frombuffer(bytearray(self.get_record(name)), dtype=dtype, count=numel)
