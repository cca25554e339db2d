"""Which calls earlier processes of this program had kernels for, in the object cache.

A program that starts again would meet them one by one, and have NumPy answer until the kernel of each is there.
What one process bound (the operator, its arguments, the signature, the keys of its kernels) is kept under the
name of the program; the next one binds the same in the background, beginning with its first call of an operator.
It decides when kernels come, never which. Then the functions of operators that are written at their first call,
and at their first gradient, are written for those that the process used. Programs without a file, as at a prompt,
are not known.

What a process has loaded from the object cache for that, some hundred small files, is kept in one file, too.

Likewise pages are made of as much memory as an earlier process of the same file with the same arguments, which
compiled nothing, had on its heap; processes that others have started for their work take no part in that.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
import threading
import zlib
from typing import Any

import numpy as np

from ..autograd.saved import write
from ..core import heap
from ..core.arrays import array_over
from ..core.dispatch import make_ready
from ..core.dtypes import DTYPES, DType
from ..core.giving_up import go_on
from ..core.lazy import LazyModule
from ..core.registry import REGISTRY, OpDef
from ..core.shapes import extent
from ..core.tensor import Tensor, wrap
from ..core.tokens import MEMORY_FORMATS, memory_format
from ..runtime.cache import ObjectCache, default_directory, fingerprint, key_of
from . import calls, worker

json = LazyModule("json")
engine, machine = LazyModule("rushlight.runtime.engine"), LazyModule("rushlight.runtime.machine")
sized = LazyModule("rushlight.runtime.sized")

MOST = 256  # that are kept of a program
MOST_BYTES = 4 << 20  # of what it has loaded, kept together; kernels have some thousand
_DEFAULT = {"default": 0}

_known: list[Any] = []  # what is on disk
_met: list[Any] = []  # what this process has bound besides
_loaded: dict[str, int] = {}  # keys in the object cache, and how many bytes of each are kept; -1: none
_generation = 0
_memory: list[Any] = [None, 0]  # for which stamp, and how many bytes the heap of such a process grew by
_began_at = 0  # the end of the heap, where it did not grow ahead


def begin() -> frozenset[str]:
    """Bind in the background what is known of this program; the names of the operators.

    What reads files is done at once: a thread in the background gives the interpreter away with each look at one,
    and has it back after a turn of the others."""
    global _generation
    program = _program()
    if program is None:
        return frozenset()
    calls.on_bound(_note)
    _generation = worker.generation()
    atexit.register(_store)
    data = _cache().load(_key(program))
    if data is None:
        return frozenset()
    (version, entries, products, used, memory, loaded), found = _unpacked(data)
    if version != _version(program):
        return frozenset()
    pages = _prepare_heap(_stamp(program), memory)
    _known[:] = entries
    _loaded.update(loaded)
    worker.submit(functools.partial(_bind_all, entries, products, found))
    worker.submit(threading.Thread(target=heap.make_pages, args=pages, daemon=True).start)
    worker.submit(functools.partial(_write_all, used))
    return frozenset([name for name, *_ in entries])


def _prepare_heap(stamp: str | None, memory: list[Any]) -> tuple[int, int]:
    """Between which addresses pages are to be made while this thread goes on, if there is a processor for it.
    Else it is noted where the heap ends."""
    global _began_at
    _memory[:] = memory
    if stamp is None or len(os.sched_getaffinity(0)) < 2:
        return 0, 0
    if memory[0] == stamp:
        return heap.grow(memory[1])
    _memory[:] = [stamp, 0]
    _began_at = heap.end_of_heap()
    return 0, 0


def _stamp(program: str) -> str | None:
    """Tells processes of which the same may be expected: the text of the file, and the arguments. None: a process
    that another one has started for its work, of which there may be many."""
    processes = sys.modules.get("multiprocessing.process")
    if sys.platform != "linux" or (processes is not None and processes.parent_process() is not None):
        return None
    try:
        found = os.stat(program.partition(" ")[2])
    except OSError:
        return None
    return key_of([str(found.st_size), str(found.st_mtime_ns), *sys.argv[1:]])


def _bind_all(entries: list[Any], products: dict[str, list[int]], found: dict[str, bytes]) -> None:
    engine.engine().cache.take(found)
    sized.tell_products(products)
    for name, args, key, keys in entries:
        go_on()
        op = REGISTRY.ops.get(name)
        if op is not None:
            make_ready(op)
            calls.bind_ahead(op, _arguments(op, args), _value(key), keys)


def _write_all(used: dict[str, list[int]]) -> None:
    for name, masks in used.items():
        go_on()
        op = REGISTRY.ops.get(name)
        if op is not None:
            make_ready(op)
            for mask in masks if op.derivative is not None else ():
                write(op.derivative, op.derivative.plan(mask))


def _used() -> dict[str, list[int]]:
    """Operators that this process has called, and for which sets of arguments it has computed gradients."""
    return {
        op.name: [mask for mask, plan in op.derivative.plans.items() if plan.values is not None]
        if op.derivative is not None
        else []
        for op in REGISTRY
        if op.run is not None and op.own_run is None
    }


def _note(op: OpDef, args: tuple[Any, ...], key: Any, keys: list[str]) -> None:
    """A kernel was bound to a call."""
    if len(_met) < MOST:
        try:
            described = [_of_argument(a, d) for a, d in zip(args, op.defaults, strict=True)]
            _met.append([op.name, described, _data(key), keys])
        except _NoData:
            return


def _store() -> None:
    """Keep what this process has bound, with what was known; if that is too much, what is new alone."""
    program = _program()
    loads = "rushlight.eager.kernels" in sys.modules  # else nothing was bound, nor looked for
    if program is None or _generation != worker.generation() or not loads:
        return
    cache: ObjectCache = engine.engine().cache
    known, met = ({_text(entry[:3]): entry for entry in entries} for entries in (_known, _met))
    measured = bool(_began_at) and "rushlight.eager.compiling" not in sys.modules
    if measured:
        _memory[1] = heap.end_of_heap() - _began_at
    if met.keys() <= known.keys() and cache.used.keys() <= _loaded.keys() and not measured:
        return
    entries = known | met if len(known | met) <= MOST else met
    loaded, contents, room = {}, [], MOST_BYTES
    for key in _loaded | cache.used:
        content = cache.read(key)
        if content is not None:
            fits = len(content) <= room
            loaded[key] = len(content) if fits else -1
            contents += [content] * fits
            room -= len(content) * fits
    memory = _memory if _memory[1] else [None, 0]
    data = [_version(program), list(entries.values()), sized.known_products(), _used(), memory, loaded]
    text = _text(data).encode()
    _cache().store(_key(program), b"".join([len(text).to_bytes(8, "little"), text, *contents]))


def _unpacked(data: bytes) -> tuple[Any, dict[str, bytes]]:
    """What is known of a program, and the contents of the object cache that were kept with it, by their keys."""
    at = 8 + int.from_bytes(data[:8], "little")
    known, found = json.loads(data[8:at]), {}
    for key, size in known[-1].items():
        if size >= 0:
            found[key] = data[at : at + size]
            at += size
    return known, found


def _text(data: Any) -> str:
    text: str = json.dumps(data, separators=(",", ":"))
    return text


def _cache() -> ObjectCache:
    return ObjectCache(default_directory())


@functools.cache
def _program() -> str | None:
    """The name of this program, which it has until it ends; None for what has no file."""
    main = sys.modules.get("__main__")
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if file is None:
        return None
    return f"{'' if spec is None else spec.name} {os.path.realpath(file)}"


def _key(program: str) -> str:
    name = f"calls 9 {program}".encode()
    return f"calls-{zlib.crc32(name):08x}{zlib.adler32(name):08x}"


def _version(program: str) -> str:
    """What is kept by another version of the package or on another machine, or of a program whose key is the same
    by chance, is of no use."""
    here = machine.machine_key() or engine.engine().identity()
    return f"{fingerprint()} {here} {program}"


# --- calls as plain data ---------------------------------------------------------------------------


class _NoData(Exception):
    """A call has no exact description."""


def _of_argument(argument: Any, default: Any) -> Any:
    return _DEFAULT if argument is default else _data(argument)


def _arguments(op: OpDef, described: list[Any]) -> tuple[Any, ...]:
    return tuple([d if a == _DEFAULT else _value(a) for a, d in zip(described, op.defaults, strict=True)])


def _data(value: Any) -> Any:
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is tuple:
        return [_data(part) for part in value]
    if kind is DType:
        return {"dtype": value.name}
    if kind is memory_format:
        return {"format": value.name}
    if value is int or value is float:
        return {"number": value.__name__}
    if isinstance(value, Tensor) and value._array is not None:
        array = value._array
        return {"tensor": [value.dtype.name, array.shape, array.strides, value._strides]}
    raise _NoData


def _value(data: Any) -> Any:
    if type(data) is list:
        return tuple([_value(part) for part in data])
    if type(data) is not dict:
        return data
    ((kind, content),) = data.items()
    if kind == "dtype":
        return DTYPES[content]
    if kind == "number":
        return {"int": int, "float": float}[content]
    if kind == "format":
        return MEMORY_FORMATS[content]
    return _tensor(*content)


def _tensor(dtype_name: str, shape: list[int], steps: list[int], strides: list[int] | None) -> Tensor:
    """A tensor like that of a call, whose elements nobody reads."""
    dtype = DTYPES[dtype_name]
    found = tuple([step // dtype.itemsize for step in steps])
    memory = np.empty(extent(shape, found) * dtype.itemsize, np.uint8)
    tensor = wrap(array_over(memory, tuple(shape), found, 0, dtype))
    if strides is not None:
        tensor._strides = tuple(strides)
    return tensor
