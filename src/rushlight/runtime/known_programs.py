"""Programs that were compiled before, by this process or another.

A stored program is the description of an executable as plain data (JSON) and its object code, in one entry of
the object cache (runtime/cache.py), which vouches for the bytes. Its key is made by compiler/program_cache.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..core.index_data import guard_admits
from ..core.symbols import Symbols
from ..logs import logger
from .engine import Library, engine
from .executable import Executable
from .linking import link, native_program
from .sized import SizedExecutable

if TYPE_CHECKING:
    from ..graph.subgraph import BodyProgram

MOST = 256  # that a process remembers
_remembered: dict[str, tuple[dict[str, Any], Library]] = {}


def remember(key: str, description: dict[str, Any], library: Library) -> None:
    """Keep a program for this process."""
    _remembered[key] = description, library
    if len(_remembered) > MOST:
        for oldest in list(_remembered)[:-MOST]:  # other threads may be at it, too
            _remembered.pop(oldest, None)


def recall(key: str | None, bodies: Mapping[str, BodyProgram]) -> tuple[dict[str, Any], Library] | None:
    """The program with this key from this process or from disk."""
    if key is None:
        return None
    known = _remembered.get(key)
    if known is not None:
        return known
    data = engine().cache.load(key)
    logger("cache").info("%s: %s", key[:16], "miss" if data is None else f"hit, {len(data)} bytes")
    if data is None:
        return None
    description, code = unpack(data)
    if description["bodies"] != {name: body.layout() for name, body in bodies.items()}:
        return None  # the code calls other bodies than there are
    known = description, link(description, code, bodies)
    remember(key, *known)
    return known


def stored_program(key: str) -> Executable | SizedExecutable | None:
    """A program without bodies that was compiled before, native throughout; None if there is none."""
    known = recall(key, {})
    if known is None or known[0]["calls"] or not all(isinstance(s, str) for s in known[0]["segments"]):
        return None
    return native_program(*known)


def admits(description: dict[str, Any], symbols: Symbols | None) -> bool:
    """Whether code that was compiled before takes the sizes of the call that was captured now."""
    if symbols is None:
        return True
    named = {dim.name: hint for dim, hint in symbols.hints.items()}
    return all(guard_admits(guard, named) for guard in description["guards"])


def forget() -> None:
    """Have this process remember nothing; what is on disk stays."""
    _remembered.clear()


def pack(description: dict[str, Any], code: bytes) -> bytes:
    text = json.dumps(description, separators=(",", ":")).encode()
    return len(text).to_bytes(8, "little") + text + code


def unpack(data: bytes) -> tuple[dict[str, Any], bytes]:
    size = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + size]), data[8 + size :]
