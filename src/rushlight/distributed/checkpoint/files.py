"""Files of a checkpoint: written so that they are on the disk, read in parts."""

from __future__ import annotations

import ctypes
import os
import shutil
import zlib
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ..._serialization.safetensors import Header, read_header, write
from ..._serialization.trees import CODES
from ...core.dtypes import DTYPES
from .manifest import CheckpointException, Chunk, StoredTensor

_AT_FDCWD, _RENAME_EXCHANGE = -100, 2


def checksum(array: np.ndarray) -> int:
    return zlib.crc32(array.reshape(-1).view(np.uint8).data)


def write_arrays(path: Path, arrays: Sequence[tuple[str, str, np.ndarray]]) -> int:
    """Write (key, name of the dtype, array) as a safetensors file; its size, once it is on the disk."""
    rows = []
    for key, dtype, array in arrays:
        shape = array.shape
        if dtype.startswith("complex"):
            dtype, shape = DTYPES[dtype].to_real().name, (*shape, 2)
        if dtype not in CODES:
            raise TypeError(f"a checkpoint cannot hold tensors of the dtype {dtype}")
        rows.append((key, CODES[dtype], shape, array))
    with open(path, "wb") as file:
        write(file, rows, {"format": "rushlight.checkpoint"})
        file.flush()
        os.fsync(file.fileno())
        return file.tell()


def write_text(path: Path, text: str) -> None:
    """Write a file that is either there with all of the text, or not."""
    beside = path.with_name(path.name + ".part")
    with open(beside, "w") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, path)
    sync_directory(path.parent)


def sync_directory(path: Path) -> None:
    """Have the names in a directory on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def put_in_place(made: Path, target: Path) -> None:
    """Give the directory `made` the name `target`. If there is one of that name, both are exchanged at once,
    where the system can, and the old one is removed."""
    if target.exists():
        if not _exchange(made, target):
            old = made.with_name(made.name + "-old")
            os.rename(target, old)
            os.rename(made, target)
            made = old
        sync_directory(target.parent)
        shutil.rmtree(made)
    else:
        os.rename(made, target)
        sync_directory(target.parent)


def _exchange(first: Path, second: Path) -> bool:
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    return rename is not None and not rename(
        _AT_FDCWD, os.fsencode(first), _AT_FDCWD, os.fsencode(second), _RENAME_EXCHANGE
    )


class Reader:
    """Reads parts of tensors from the files of one checkpoint. A chunk is checked before it is used."""

    def __init__(self, directory: str) -> None:
        self.directory = Path(directory)
        self._headers: dict[str, tuple[Header, np.ndarray]] = {}
        self._checked: set[tuple[str, str]] = set()

    def chunk(self, stored: StoredTensor, chunk: Chunk) -> np.ndarray:
        """The array of a chunk, over the file."""
        if chunk.file not in self._headers:
            path = self.directory / chunk.file
            with open(path, "rb") as file:
                header = read_header(file)
                begin = file.tell()
            self._headers[chunk.file] = header, np.memmap(path, np.uint8, "r", begin)
        header, data = self._headers[chunk.file]
        entry = header.entries.get(chunk.key)
        dtype = DTYPES[stored.dtype].numpy
        size = int(np.prod(chunk.sizes, dtype=np.int64)) * dtype.itemsize
        if entry is None or entry.stop - entry.start != size:
            raise CheckpointException(
                f"{self.directory / chunk.file} is damaged: it does not hold {chunk.key!r}"
            )
        raw = data[entry.start : entry.stop]
        if (chunk.file, chunk.key) not in self._checked:
            if zlib.crc32(raw.data) != chunk.crc32:
                raise CheckpointException(
                    f"{self.directory / chunk.file} is damaged: the bytes of {chunk.key!r} are not those "
                    f"that were "
                    "written"
                )
            self._checked.add((chunk.file, chunk.key))
        return np.asarray(raw).view(dtype).reshape(chunk.sizes)
