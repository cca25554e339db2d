"""The manifest of a checkpoint: what is in it, and where. It is written last, so that a checkpoint without one is
none.

Values that are no tensors are kept as JSON; tuples, bytes, dtypes, devices and dictionaries with other keys than
texts are marked. Nothing in a checkpoint is ever executed.
"""

from __future__ import annotations

import base64
import json
import os
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ...core.dtypes import DTYPES, DType
from ...core.tokens import device
from .regions import Region

NAME = "manifest.json"
VERSION = 1
UNFINISHED = ".unfinished-"  # in the names of directories that are being written


class CheckpointException(RuntimeError):
    """A checkpoint that could not be written or read."""


@dataclass(frozen=True)
class Chunk:
    """A part of a tensor: `key` in the safetensors file `file`, with a checksum of its bytes."""

    offsets: tuple[int, ...]
    sizes: tuple[int, ...]
    file: str
    key: str
    crc32: int


@dataclass
class StoredTensor:
    shape: tuple[int, ...]
    dtype: str
    chunks: list[Chunk] = field(default_factory=list)

    def region(self, chunk: Chunk) -> Region:
        return Region(self.shape, chunk.offsets, chunk.sizes)


@dataclass
class Manifest:
    """What is in a checkpoint. `files` has the sizes of files in bytes."""

    tensors: dict[str, StoredTensor] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    world_size: int = 1

    def text(self) -> str:
        return json.dumps(
            {
                "format": "rushlight.checkpoint",
                "version": VERSION,
                "world_size": self.world_size,
                "files": self.files,
                "tensors": {name: asdict(stored) for name, stored in self.tensors.items()},
                "values": {name: encoded(value, name) for name, value in self.values.items()},
            },
            indent=1,
        )


def read_manifest(directory: str | os.PathLike[str]) -> Manifest:
    """The manifest of the checkpoint `directory`, whose files must all be there."""
    path = Path(directory)
    if not (path / NAME).is_file():
        raise CheckpointException(f"{path} is no complete checkpoint: it has no {NAME}")
    try:
        found = json.loads((path / NAME).read_text())
        if found["format"] != "rushlight.checkpoint" or found["version"] != VERSION:
            raise CheckpointException(
                f"{path} is a checkpoint of the version {found['version']}, and {VERSION} can be read"
            )
        manifest = Manifest(
            {name: _stored(stored) for name, stored in found["tensors"].items()},
            {name: decoded(value) for name, value in found["values"].items()},
            {name: int(size) for name, size in found["files"].items()},
            int(found["world_size"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointException(f"the manifest of {path} is damaged: {error!r}") from error
    for name, size in manifest.files.items():
        there = (path / name).stat().st_size if (path / name).is_file() else None
        if there != size:
            raise CheckpointException(
                f"{path} is damaged: {name} "
                + ("is missing" if there is None else f"has {there} bytes, not {size}")
            )
    return manifest


def _stored(fields: dict[str, Any]) -> StoredTensor:
    if fields["dtype"] not in DTYPES:
        raise ValueError(f"the dtype {fields['dtype']!r}")
    return StoredTensor(
        tuple(fields["shape"]),
        fields["dtype"],
        [
            Chunk(tuple(c["offsets"]), tuple(c["sizes"]), c["file"], c["key"], c["crc32"])
            for c in fields["chunks"]
        ],
    )


def latest(directory: str | os.PathLike[str]) -> str | None:
    """The path of the last complete checkpoint in `directory`, None if there is none: that with the largest
    number at the end of its name (step-100), among equals the one that was written last."""
    found = []
    root = Path(directory)
    for path in root.iterdir() if root.is_dir() else ():
        if UNFINISHED not in path.name and (path / NAME).is_file():
            try:
                read_manifest(path)
            except CheckpointException:
                continue
            number = re.search(r"(\d+)$", path.name)
            when = (path / NAME).stat().st_mtime_ns
            found.append((int(number[1]) if number else -1, when, str(path)))
    return max(found)[2] if found else None


def encoded(value: Any, name: str) -> Any:
    """A value as JSON; TypeError if it is of a kind that no checkpoint holds."""
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [encoded(part, name) for part in value]
    if kind is tuple:
        return {"tuple": [encoded(part, name) for part in value]}
    if kind is dict:
        return {"dict": [[encoded(k, name), encoded(v, name)] for k, v in value.items()]}
    if kind is bytes:
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, DType):
        return {"dtype": value.name}
    if isinstance(value, device):
        return {"device": str(value)}
    raise TypeError(
        f"a checkpoint holds tensors, numbers, texts, None, bytes, and lists, tuples and dictionaries of them; "
        f"{name} is a {kind.__name__}. Give an object that has a state the methods state_dict and load_state_dict"
    )


def decoded(value: Any) -> Any:
    if isinstance(value, list):
        return [decoded(part) for part in value]
    if not isinstance(value, dict):
        return value
    ((kind, inner),) = value.items()
    if kind == "tuple":
        return tuple(decoded(part) for part in inner)
    if kind == "dict":
        return {decoded(k): decoded(v) for k, v in inner}
    if kind == "bytes":
        return base64.b64decode(inner)
    if kind == "dtype":
        return DTYPES[inner]
    if kind == "device":
        return device(inner)
    raise ValueError(f"a value of the kind {kind!r}")
