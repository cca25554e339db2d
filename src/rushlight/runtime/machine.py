"""What LLVM says of this machine, remembered on disk: loading LLVM takes longer than all else that a process does
before its first program from the cache runs.

It is remembered under what the CPU itself says (CPUID, as the C library has read it) and the file of LLVM's code.
Where either cannot be told, LLVM is asked in each process.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from dataclasses import asdict
from typing import NamedTuple

from ..core.lazy import LazyModule
from .cache import ObjectCache, key_of
from .target import Target, host

json, llvm = LazyModule("json"), LazyModule("llvmlite.binding")

LEAVES = 16  # of CPUID that are asked for: glibc knows 10, and says nothing of others
_WORDS = 8  # of each: what the CPU says, then what of it can be used


class Machine(NamedTuple):
    target: Target
    llvm: str  # the version of LLVM


def machine(cache: ObjectCache) -> Machine:
    """The machine of this process, from the cache or from LLVM."""
    key = machine_key()
    if key is None:
        return _asked()
    known = cache.load(key, stays=False)
    if known is not None:
        target, version = json.loads(known)
        return Machine(Target(**target), version)
    found = _asked()
    cache.store(key, json.dumps([asdict(found.target), found.llvm]).encode(), stays=False)
    return found


def machine_key() -> str | None:
    """Tells machines and versions of LLVM apart, without LLVM; None where that cannot be told."""
    cpu, library = _cpu(), _library()
    return None if cpu is None or library is None else key_of(("machine", cpu, library))


def _asked() -> Machine:
    return Machine(host(), ".".join(map(str, llvm.llvm_version_info)))


def _cpu() -> str | None:
    """All that the CPU says of itself, but which of its cores it is."""
    leaf = getattr(ctypes.PyDLL(None), "__x86_get_cpuid_feature_leaf", None)
    if leaf is None:  # another CPU, or an older or another C library
        return None
    leaf.restype, leaf.argtypes = ctypes.POINTER(ctypes.c_uint32 * _WORDS), (ctypes.c_uint,)
    found = [list(leaf(number).contents) for number in range(LEAVES)]
    found[0][1] = 0  # of leaf 1, EBX has the number of the core
    return str(found) if found[0][0] else None


def _library() -> str | None:
    """Which file LLVM's code is."""
    package = importlib.util.find_spec("llvmlite")
    if package is None or package.origin is None:
        return None
    path = os.path.join(os.path.dirname(package.origin), "binding", "libllvmlite.so")
    try:
        info = os.stat(path)
    except OSError:
        return None
    return f"{path} {info.st_size} {info.st_mtime_ns}"
