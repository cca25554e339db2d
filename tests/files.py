"""Objects through files in memory, whole and damaged ones."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import numpy as np

import rushlight
from rushlight.serialization import SerializationError


def saved(obj: Any) -> bytes:
    file = io.BytesIO()
    rushlight.save(obj, file)
    return file.getvalue()


def through(obj: Any, **options: Any) -> Any:
    """`obj` after being saved and loaded."""
    return rushlight.load(io.BytesIO(saved(obj)), **options)


def load_with_flipped_bytes(data: bytes) -> None:
    """A file with one byte changed is loaded or refused, and does no worse than that."""
    rng = np.random.default_rng(0)
    for position in rng.integers(0, len(data), 400):
        broken = bytearray(data)
        broken[position] ^= int(rng.integers(1, 256))
        with contextlib.suppress(SerializationError):
            rushlight.load(io.BytesIO(bytes(broken)))
