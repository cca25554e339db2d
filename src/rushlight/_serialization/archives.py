"""The zip archives of PyTorch's `save`: a pickle, the bytes of each storage, and a few notes on the format.

Records are stored uncompressed and begin at multiples of 64 bytes, so that a file can be mapped. Reading
checks what the archive says of itself; nothing is allocated that the file does not hold.
"""

from __future__ import annotations

import contextlib
import struct
import sys
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from .safetensors import SerializationError

ALIGNMENT = 64
_LOCAL_HEADER = 30  # bytes before the name of a record
_PADDING = b"FB"  # the tag of the extra field that moves data to a multiple of ALIGNMENT
_ZIP64_FIELD = 20


class ArchiveWriter:
    """Writes records; all of them lie in one folder."""

    def __init__(self, file: Any, folder: str = "archive") -> None:
        self._zip = zipfile.ZipFile(file, "w", zipfile.ZIP_STORED)
        self._folder = folder
        self._begun: set[str] = set()

    def write_record(self, name: str, data: Any, size: int | None = None) -> None:
        """Write text, bytes or an array of bytes under `name`."""
        data = memoryview(data.encode() if isinstance(data, str) else data)
        if size is not None and size != data.nbytes:
            raise RuntimeError(f"record {name!r} has {data.nbytes} bytes, not {size}")
        self._begun.add(name)
        info = zipfile.ZipInfo(f"{self._folder}/{name}")
        large = data.nbytes > zipfile.ZIP64_LIMIT // 2
        before = self._zip.fp.tell() + _LOCAL_HEADER + len(info.filename.encode())  # type: ignore[union-attr]
        before += 4 + (_ZIP64_FIELD if large else 0)  # the head of the field itself
        pad = -before % ALIGNMENT
        info.extra = _PADDING + struct.pack("<H", pad) + b"Z" * pad
        with self._zip.open(info, "w", force_zip64=large) as target:
            target.write(data)

    def write_record_metadata(self, name: str, size: int) -> None:
        """Make room for a record whose bytes are not known yet: zeros."""
        self.write_record(name, np.zeros(size, np.uint8).data)

    def close(self) -> None:
        if "version" not in self._begun:
            self.write_record("version", "3\n")
        self._zip.close()

    def __enter__(self) -> ArchiveWriter:
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        if kind is None:
            self.close()


class ArchiveReader:
    """Reads records of an archive that PyTorch or `ArchiveWriter` wrote."""

    def __init__(self, file: Any) -> None:
        try:
            self._zip = zipfile.ZipFile(file)
            names = self._zip.namelist()
        except (zipfile.BadZipFile, NotImplementedError, ValueError, struct.error) as error:
            raise SerializationError(f"load: damaged file: {error}") from None
        if len(set(names)) != len(names):
            raise SerializationError("load: damaged file: the archive has a name twice")
        pickles = [name for name in names if name.count("/") == 1 and name.endswith("/data.pkl")]
        self.has_pickle = len(pickles) == 1
        first = pickles[0] if pickles else names[0] if names else ""
        self._folder = first.partition("/")[0]
        self._names = {
            name.removeprefix(f"{self._folder}/") for name in names if name.startswith(f"{self._folder}/")
        }
        self._file = file

    def __enter__(self) -> ArchiveReader:
        return self

    def __exit__(self, *error: Any) -> None:
        self._zip.close()

    def has_record(self, name: str) -> bool:
        return name in self._names

    def get_all_records(self) -> list[str]:
        return sorted(self._names)

    def size(self, name: str) -> int:
        return self._info(name).file_size

    def get_record(self, name: str) -> bytes:
        with _damage():
            return self._zip.read(self._info(name))

    def open(self, name: str) -> Any:
        with _damage():
            return self._zip.open(self._info(name))

    def get_record_offset(self, name: str) -> int:
        """Where in the file the bytes of a record begin."""
        info = self._info(name)
        if info.compress_type != zipfile.ZIP_STORED:
            raise SerializationError(f"load: the record {name!r} is compressed and cannot be mapped")
        source: Any = self._zip.fp
        here = source.tell()
        source.seek(info.header_offset)
        header = source.read(_LOCAL_HEADER)
        source.seek(here)
        if len(header) != _LOCAL_HEADER or header[:4] != b"PK\x03\x04":
            raise SerializationError(f"load: damaged file: no record at the place of {name!r}")
        name_length, extra_length = struct.unpack("<HH", header[26:30])
        return info.header_offset + _LOCAL_HEADER + int(name_length) + int(extra_length)

    def byte_order(self) -> str | None:
        """`little` or `big`, None if the archive does not say."""
        if not self.has_record("byteorder"):
            return None
        order = self.get_record("byteorder").decode("ascii", "replace")
        if order not in ("little", "big"):
            raise SerializationError(f"load: damaged file: the byte order is {order!r}")
        return order

    def _info(self, name: str) -> zipfile.ZipInfo:
        if name not in self._names:
            raise SerializationError(f"load: damaged file: there is no record {name!r}")
        return self._zip.getinfo(f"{self._folder}/{name}")


@contextlib.contextmanager
def _damage() -> Iterator[None]:
    """Errors of the zip format, as errors of the file."""
    try:
        yield
    except (
        zipfile.BadZipFile,
        KeyError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        ValueError,
        struct.error,
        zlib.error,
    ) as error:
        raise SerializationError(f"load: damaged file: {error}") from None


def write_notes(archive: ArchiveWriter) -> None:
    """What PyTorch notes on the format of an archive."""
    archive.write_record(".format_version", "1")
    archive.write_record(".storage_alignment", str(ALIGNMENT))
    archive.write_record("byteorder", sys.byteorder)
