"""The safetensors file format: named arrays of bytes behind a JSON header. Nothing in a file is ever
executed.

In:  entries (name, dtype code, shape, bytes) and a text-to-text metadata map.
Out: the same, from any readable binary file.

A file is an 8-byte little-endian header length, the header, and the data of all entries without gaps.
`read_header` checks every number in the header against the others and, where it can be known, against the
size of the file, before anything is allocated.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from ..core.lazy import LazyModule

json = LazyModule("json")

ITEM_SIZES = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "F8_E4M3FNUZ": 1,
    "F8_E5M2FNUZ": 1,
    "F8_E8M0": 1,
    "U16": 2,
    "I16": 2,
    "F16": 2,
    "BF16": 2,
    "U32": 4,
    "I32": 4,
    "F32": 4,
    "U64": 8,
    "I64": 8,
    "F64": 8,
    "C64": 8,
}
MAX_HEADER = 100_000_000
_METADATA = "__metadata__"


class SerializationError(RuntimeError):
    """A file that is not what it should be: of another format, cut short, or damaged.

    >>> issubclass(rl.serialization.SerializationError, Exception)
    True
    """


@dataclass(frozen=True, slots=True)
class Entry:
    """One named array: `start` and `stop` are its place in the data part of the file."""

    name: str
    code: str
    shape: tuple[int, ...]
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class Header:
    entries: dict[str, Entry]
    metadata: dict[str, str]


# Writing.


def write(
    file: BinaryIO, arrays: Sequence[tuple[str, str, tuple[int, ...], np.ndarray]], metadata: dict[str, str]
) -> None:
    """Write (name, code, shape, contiguous array of their bytes) and `metadata`."""
    ordered = sorted(arrays, key=lambda item: (-ITEM_SIZES[item[1]], item[0]))  # keeps every entry aligned
    header: dict[str, Any] = {_METADATA: metadata}
    position = 0
    for name, code, shape, array in ordered:
        header[name] = {
            "dtype": code,
            "shape": list(shape),
            "data_offsets": [position, position + array.nbytes],
        }
        position += array.nbytes
    text = json.dumps(header, ensure_ascii=True, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER:
        raise ValueError(
            f"save: the description of the object takes {len(text)} bytes, the format allows {MAX_HEADER}"
        )
    file.write(len(text).to_bytes(8, "little"))
    file.write(text)
    for _, _, _, array in ordered:
        file.write(array.reshape(-1).view(np.uint8).data)


# Reading.


def read_header(file: BinaryIO) -> Header:
    """The checked header; leaves `file` at the first byte of the data."""
    prefix = _read(file, 8, "header length")
    length = int.from_bytes(prefix, "little")
    if not 2 <= length <= MAX_HEADER:
        raise SerializationError(f"load: not a safetensors file (the header would have {length} bytes)")
    header = _parse(_read(file, length, "header"))
    metadata = header.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(value, str) for value in metadata.values()):
        raise SerializationError("load: damaged file: the metadata is not a map of texts")
    entries = {name: _entry(name, fields) for name, fields in header.items()}
    _check_layout(list(entries.values()), _bytes_left(file))
    return Header(entries, metadata)


def read_array(file: BinaryIO, entry: Entry) -> np.ndarray:
    """The bytes of `entry`, which must be the next in `file`, in memory of their own."""
    result = np.empty(entry.stop - entry.start, np.uint8)
    view = memoryview(result.data)
    done = 0
    while done < len(result):
        count = _read_some(file, view[done:])
        if not count:
            raise SerializationError(
                f"load: the file ends inside {entry.name!r}, {len(result) - done} bytes too early"
            )
        done += count
    return result


def _read_some(file: BinaryIO, target: memoryview) -> int:
    if hasattr(file, "readinto"):
        return file.readinto(target) or 0
    data = file.read(len(target))
    target[: len(data)] = data
    return len(data)


def _read(file: BinaryIO, count: int, what: str) -> bytes:
    left = _bytes_left(file)
    if left is not None and left < count:
        raise SerializationError(
            f"load: not a safetensors file, or cut short: {left} bytes where the {what} "
            f"of {count} bytes should be"
        )
    data = b""
    while len(data) < count:
        more = file.read(count - len(data))
        if not more:
            raise SerializationError(f"load: not a safetensors file, or cut short: it ends inside the {what}")
        if not isinstance(more, bytes):
            raise TypeError("load: the file must be opened in binary mode")
        data += more
    return data


def _bytes_left(file: BinaryIO) -> int | None:
    """How much there is to read, None for a stream that cannot tell."""
    try:
        if not file.seekable():
            return None
        here = file.tell()
        end = file.seek(0, os.SEEK_END)
        file.seek(here)
    except (AttributeError, OSError):
        return None
    return end - here


def _parse(text: bytes) -> dict[str, Any]:
    try:
        header = json.loads(text.decode("utf-8"), object_pairs_hook=_without_repeats)
    except (ValueError, RecursionError) as error:
        raise SerializationError(
            f"load: not a safetensors file, or damaged: the header is not JSON ({error})"
        ) from None
    if not isinstance(header, dict):
        raise SerializationError("load: not a safetensors file, or damaged: the header is not a JSON object")
    return header


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        raise ValueError("a name occurs twice")
    return result


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def _entry(name: str, fields: Any) -> Entry:
    def wrong(what: str) -> SerializationError:
        return SerializationError(f"load: damaged file: entry {name!r} {what}")

    if not isinstance(fields, dict) or not {"dtype", "shape", "data_offsets"} <= fields.keys():
        raise wrong("lacks dtype, shape or data_offsets")
    code, shape, offsets = fields["dtype"], fields["shape"], fields["data_offsets"]
    if code not in ITEM_SIZES:
        raise wrong(f"has the dtype {code!r}; known are {', '.join(ITEM_SIZES)}")
    if not isinstance(shape, list) or not all(_is_count(size) for size in shape):
        raise wrong(f"has the shape {shape!r}")
    if not isinstance(offsets, list) or len(offsets) != 2 or not all(_is_count(offset) for offset in offsets):
        raise wrong(f"has the data_offsets {offsets!r}")
    start, stop = offsets
    if stop - start != math.prod(shape) * ITEM_SIZES[code]:
        raise wrong(
            f"has {stop - start} bytes, but {code} of shape {shape} takes "
            f"{math.prod(shape) * ITEM_SIZES[code]}"
        )
    return Entry(name, code, tuple(shape), start, stop)


def _check_layout(entries: list[Entry], available: int | None) -> None:
    """Entries follow one another without gaps or overlaps and fill the file."""
    position = 0
    for entry in in_file_order(entries):
        if entry.start != position:
            raise SerializationError(
                f"load: damaged file: entry {entry.name!r} begins at byte {entry.start} "
                f"of the data, not at {position}"
            )
        position = entry.stop
    if available is not None and available < position:
        raise SerializationError(
            f"load: the file is cut short: {available} bytes of data where the header names {position}"
        )


def in_file_order(entries: Sequence[Entry]) -> list[Entry]:
    return sorted(entries, key=lambda entry: (entry.start, entry.stop))
