"""Code as an image: an object file of which a linker has left only addresses to be filled in.

An image is made once, when code is compiled (objects.py). `load` maps images, fills in the addresses and makes
the code executable, which is then no longer writable. That takes some microseconds, and nothing of LLVM's has to
be loaded for it. Its bytes: MAGIC, the length of what follows, JSON that says how many bytes stay as they are,
which words are addresses within the image or of imports, and where exports are; then the code.
"""

from __future__ import annotations

import ctypes
import functools
import mmap
import struct
import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..core.lazy import LazyModule

json = LazyModule("json")

MAGIC = b"rushlight image 1\n"
PAGE = mmap.PAGESIZE
WORD = 8

_WORD = struct.Struct("<Q")

# of words: their places, and what is to be added to the beginning of the image, or to the address of a symbol
Words = Sequence[Sequence[int]]


def pack(
    content: bytes, read_only: int, own: Words, imports: Mapping[str, Words], exports: Mapping[str, int]
) -> bytes:
    """An image. `read_only`: how many bytes are not written to any more, and may run."""
    head = json.dumps([read_only, own, imports, exports], separators=(",", ":")).encode()
    return MAGIC + len(head).to_bytes(WORD, "little") + head + content


def is_image(code: bytes) -> bool:
    return code.startswith(MAGIC)


def load(images: Sequence[bytes], imports: Mapping[str, int]) -> tuple[Any, dict[str, int]]:
    """Memory with the code of images, which is there as long as that object, and the addresses of all that they
    export. RuntimeError for a symbol that is not among `imports`."""
    if not images:
        return None, {}
    parts = [_Loaded.of(image) for image in images]
    memory = mmap.mmap(-1, sum(part.size for part in parts), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    addresses: dict[str, int] = {}
    at = 0
    for part in parts:
        missing = part.imports.keys() - imports.keys()
        if missing:
            raise RuntimeError(f"code needs symbols that nothing defines: {', '.join(sorted(missing))}")
        memory[at : at + len(part.content)] = part.content
        base = start + at
        for place, target in part.own:
            _WORD.pack_into(memory, at + place, base + target)
        for name, places in part.imports.items():
            for place, addend in places:
                _WORD.pack_into(memory, at + place, imports[name] + addend)
        _make_executable(base, part.read_only)
        addresses.update({name: base + place for name, place in part.exports.items()})
        at += part.size
    return _Pages(memory), addresses


class _Pages:
    """Keeps memory with code mapped while it is there itself, and once the interpreter ends: other threads, and
    what is freed late, may run the code then."""

    __slots__ = ("_memory",)

    def __init__(self, memory: mmap.mmap) -> None:
        self._memory = memory
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(memory))

    def __del__(self, ending: Any = sys.is_finalizing, python: Any = ctypes) -> None:
        if not ending():
            python.pythonapi.Py_DecRef(python.py_object(self._memory))


class _Loaded(NamedTuple):
    """An image: its bytes, how many of these stay as they are, and which words are addresses."""

    content: memoryview
    read_only: int
    own: Words
    imports: Mapping[str, Words]
    exports: Mapping[str, int]

    @classmethod
    def of(cls, image: bytes) -> _Loaded:
        begin = len(MAGIC) + WORD
        end = begin + int.from_bytes(image[len(MAGIC) : begin], "little")
        return cls(memoryview(image)[end:], *json.loads(image[begin:end]))

    @property
    def size(self) -> int:
        """What it takes in memory: whole pages."""
        return max(-(-len(self.content) // PAGE), 1) * PAGE


@functools.cache
def _c() -> Any:
    """The C library, for quick calls: they keep Python's lock, which others would take for a whole turn."""
    return ctypes.PyDLL(None)


def _make_executable(base: int, size: int) -> None:
    if _c().mprotect(ctypes.c_void_p(base), ctypes.c_size_t(size), mmap.PROT_READ | mmap.PROT_EXEC):
        raise OSError("the system allows no memory with code")
