"""Object code on disk, in the user's cache directory.

What comes in: a key (everything the code depends on) and object bytes; what goes out: the bytes, or None. An
entry is used only if its checksum holds and it, and the directory, belong to this user and are writable by
nobody else; anything else
counts as absent and is compiled again. Writers never disturb readers: a file appears whole by rename, or not
at all. Trouble with the disk (full, read-only, no home directory) turns the cache off for that call; it is
never an error.
"""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from collections.abc import Iterable, Mapping

from .. import core
from ..core.lazy import LazyModule

hashlib, tempfile = LazyModule("hashlib"), LazyModule("tempfile")

MAGIC = b"RUSHLIGHT-OBJECT-1\n"
LIMIT_BYTES = 512 * 1024 * 1024
MOST_USED = 1024  # keys that a process remembers
SUFFIX = ".o.rl"
_COARSE_TIME = 50_000_000  # nanoseconds by which the time of a file may be behind the clock


def key_of(parts: Iterable[str]) -> str:
    """A key from all the texts that decide what the object code is."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode()
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    key: str = digest.hexdigest()
    return key


@functools.cache
def fingerprint() -> str:
    """Tells this version of the package from any other: names, sizes and times of its files.

    Files that were written after the package began to be imported may not be what is in memory: the code
    of such a process is its own, nobody else finds it. (Under the name of the new files it would be linked
    with tables that these lay out differently.)
    """
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    parts: list[str] = []
    newest = 0
    stack = [root]
    while stack:
        with os.scandir(stack.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    if entry.name != "__pycache__":
                        stack.append(entry.path)
                elif entry.name.endswith(".py"):
                    info = entry.stat()
                    parts.append(f"{entry.path[len(root) :]} {info.st_size} {info.st_mtime_ns}")
                    newest = max(newest, info.st_mtime_ns, info.st_ctime_ns)
    if newest > core.IMPORTED_AT - _COARSE_TIME:
        parts.append(os.urandom(16).hex())
    return key_of(sorted(parts))


def default_directory() -> str | None:
    """$RUSHLIGHT_CACHE_DIR, or rushlight/objects in the user's cache directory.

    None if the cache is turned off.
    """
    chosen = os.environ.get("RUSHLIGHT_CACHE_DIR")
    if chosen == "":
        return None
    if chosen is not None:
        return chosen
    home = os.path.expanduser("~")
    base = os.environ.get("XDG_CACHE_HOME") or (None if home == "~" else os.path.join(home, ".cache"))
    return None if base is None else os.path.join(base, "rushlight", "objects")


class ObjectCache:
    """A directory of object files. `hits` and `misses` count look-ups. `used` are the keys of entries that were
    found or stored, and that stay as they are: they can be kept together for another process, which `take`s them.
    """

    def __init__(self, directory: str | os.PathLike[str] | None) -> None:
        self.directory = None if directory is None else os.fspath(directory)
        self.hits = 0
        self.misses = 0
        self.used: dict[str, None] = {}
        self._taken: dict[str, bytes] = {}
        self._written = 0  # bytes since entries were last looked at

    def load(self, key: str, *, stays: bool = True) -> bytes | None:
        """The object stored under `key`, if there is one that can be trusted. `stays`: what is there is always
        the same."""
        data = self._taken.pop(key, None) if stays else None
        if data is None:
            data = self.read(key)
        if data is None:
            self.misses += 1
            return None
        self.hits += 1
        if stays:
            self._use(key)
        return data

    def take(self, entries: Mapping[str, bytes]) -> None:
        """Have entries for `load` that were kept together: each once."""
        if self.directory is not None:
            self._taken.update(entries)

    def _use(self, key: str) -> None:
        if len(self.used) < MOST_USED:
            self.used[key] = None

    def read(self, key: str) -> bytes | None:
        """As `load`, for a look that does not count."""
        if self.directory is None or not _private_directory(self.directory):
            return None
        try:
            descriptor = os.open(self._path(key), os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
        except OSError:
            return None
        with os.fdopen(descriptor, "rb") as file:
            if not _private(os.fstat(descriptor)):
                return None
            data = file.read()
        return _unpack(key, data)

    def store(self, key: str, data: bytes, *, stays: bool = True) -> bool:
        """Keep `data` under `key`; False if it could not be kept."""
        if self.directory is None:
            return False
        try:
            _make_directory(self.directory)
            if not _private_directory(self.directory):
                return False
            descriptor, name = tempfile.mkstemp(dir=self.directory, prefix="tmp-")
        except OSError:
            return False
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(_pack(key, data))
            os.replace(name, self._path(key))
        except OSError:
            _remove(name)
            return False
        if stays:
            self._use(key)
        self._written += len(data)
        # Looking at every entry takes long in a full cache: now and then is enough to keep to the limit.
        if self._written > LIMIT_BYTES // 64 or key.startswith("00"):
            self._written = 0
            self._evict()
        return True

    def _path(self, key: str) -> str:
        assert self.directory is not None
        return os.path.join(self.directory, key + SUFFIX)

    def _paths(self) -> list[str]:
        """The files of all entries."""
        assert self.directory is not None
        try:
            names = os.listdir(self.directory)
        except OSError:
            return []
        return [os.path.join(self.directory, name) for name in names if name.endswith(SUFFIX)]

    def _evict(self) -> None:
        """Remove the oldest entries while the directory is over its limit."""
        entries = []
        for path in self._paths():
            try:
                info = os.stat(path)
            except OSError:
                continue
            entries.append((info.st_mtime, info.st_size, path))
        excess = sum(size for _, size, _ in entries) - LIMIT_BYTES
        for _, size, path in sorted(entries):
            if excess <= 0:
                break
            _remove(path)
            excess -= size

    def clear(self) -> int:
        """Remove every entry; returns how many there were."""
        if self.directory is None:
            return 0
        paths = self._paths()
        for path in paths:
            _remove(path)
        return len(paths)


def _pack(key: str, data: bytes) -> bytes:
    return MAGIC + _checksum(key, data) + data


def _unpack(key: str, packed: bytes) -> bytes | None:
    head = len(MAGIC)
    data = packed[head + 32 :]
    if packed[:head] != MAGIC or packed[head : head + 32] != _checksum(key, data) or not data:
        return None
    return data


def _checksum(key: str, data: bytes) -> bytes:
    """Covers the key too, so that a file under another name does not pass."""
    checksum: bytes = hashlib.sha256(key.encode() + data).digest()
    return checksum


def _private(info: os.stat_result) -> bool:
    """Owned by this user and writable by nobody else."""
    if not hasattr(os, "getuid"):
        return True
    return info.st_uid == os.getuid() and not info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _make_directory(path: str) -> None:
    """Make a directory for this user alone, and those that it is in."""
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)


def _private_directory(path: str) -> bool:
    try:
        info = os.stat(path)
    except OSError:
        return False
    return stat.S_ISDIR(info.st_mode) and _private(info)


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        return
