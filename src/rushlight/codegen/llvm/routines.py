"""Routines that all programs of a process share: compiled when first asked for, then linked by address.

A routine is a function of which nearly everything comes at run time (of a product, all but its dtype and tile; of
a task, all but the number of its buffers), so that a program contains only calls of a few. Its name says what it
is: "rushlight.32-16-fma.tile.float.6.2.0", for 16 vector registers of 32 bytes, is made by the function that
`@routine("tile", ...)` registered, with the arguments "float", 6, 2 and 0. A module declares the routines it
calls, and has those that are not there yet compiled beside it (`begin_routines`), in modules of their own;
`routine_imports` gives the addresses of all. Before the code of a program is emitted, those are compiled that it
is likely to call (`prepare_routine`).
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from ...core.lazy import LazyModule
from ...eager.worker import submit
from ...runtime.engine import Library, engine
from ...runtime.target import Target
from .emitter import Emitter
from .struct import Struct
from .types import Callee

ir = LazyModule("llvmlite.ir")

PREFIX = "rushlight."

Body = Callable[..., None]

_bodies: dict[str, tuple[type[Struct], Body, bool]] = {}
_libraries: list[Library] = []  # whose code may run as long as the process does
_addresses: dict[str, int] = {}
_codes: dict[str, bytes] = {}  # of those that are to be linked
_compiling: dict[str, threading.Event] = {}  # those that a thread is at
_likely: set[str] = set()  # to be compiled unless code is emitted before
_lock = threading.Lock()


def routine(kind: str, arguments: type[Struct], *, quick: bool = False) -> Callable[[Body], Body]:
    """`body(emitter, arguments, *what the name says)` emits a routine, which has the fields of `arguments` as
    its parameters. `quick`: it takes little time to run, and is to take little to compile."""

    def register(body: Body) -> Body:
        _bodies[kind] = (arguments, body, quick)
        return body

    return register


def declared(module: Any, target: Target, kind: str, *details: Any) -> Any:
    """A routine as a function of `module`, to be called or passed on."""
    name = _named(target, kind, *details)
    found = module.globals.get(name)
    return ir.Function(module, _registered(kind)[0].function_type(), name) if found is None else found


def _registered(kind: str) -> tuple[type[Struct], Body, bool]:
    """What makes a routine. A process that takes programs from disk makes none, and imports nothing for it."""
    if kind not in _bodies:
        importlib.import_module(".module", __package__)  # and all that emits code
    return _bodies[kind]


def _named(target: Target, kind: str, *details: Any) -> str:
    machine = f"{target.vector_bytes}-{target.vector_registers}{'-fma' * target.has_fma}"
    return PREFIX + ".".join([machine, kind, *map(str, details)])


def routine_address(target: Target, kind: str, *details: Any) -> int:
    """The address of a routine, which is compiled if it has not been."""
    name = _named(target, kind, *details)
    _compile_missing([name], target)
    return _addresses[name]


def call_routine(e: Emitter, pointer: Any, arguments: Struct) -> None:
    """Call a routine by its address."""
    e.call(Callee(pointer, arguments.function_type()), arguments.values())


def element_named(name: str) -> Any:
    return {"float": ir.FloatType(), "double": ir.DoubleType()}[name]


def routine_imports(names: Iterable[str], target: Target) -> dict[str, int]:
    """The addresses of those of `names` that are routines."""
    names = _routines_in(names)
    _compile_missing(names, target)
    return {name: _addresses[name] for name in names}


def prepare_routine(target: Target, kind: str, *details: Any) -> None:
    """Compile a routine in the background, or load it, which a program is likely to call; but not once code is
    emitted that says which ones it does call."""
    name = _named(target, kind, *details)
    _likely.add(name)
    submit(partial(_compile_likely, name, target))


def _compile_likely(name: str, target: Target) -> None:
    if name in _likely:
        _compile_missing([name], target)


def begin_routines(module: Any, target: Target) -> list[str]:
    """Compile the routines that `module` declares by now in the background, while this thread goes on: LLVM needs
    no Python. `routine_imports` waits for them, and compiles those that nobody has begun."""
    _likely.clear()
    names = _routines_in(module.globals)
    if any(name not in _addresses for name in names):
        submit(partial(_compile_missing, names, target))
    return names


def _routines_in(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.startswith(PREFIX)]


def _compile_missing(names: Sequence[str], target: Target) -> None:
    """Each in a module of its own: a program that calls others beside it finds it on disk all the same. Threads
    share the work; who needs all of them links them."""
    missing = [name for name in names if name not in _addresses]
    left = [name for name in missing if not _compile(name, target, wait=False)]
    for name in left:
        _compile(name, target, wait=True)
    with _lock:
        missing = [name for name in missing if name not in _addresses]
        if missing:
            first, *others = (_codes.pop(name) for name in missing)
            library = engine().link(first, missing, {}, others)
            _libraries.append(library)
            _addresses.update(library.addresses)


def _compile(name: str, target: Target, *, wait: bool) -> bool:
    """Have the object code of a routine, if no other thread is at it, or when that one is done."""
    while True:
        with _lock:
            if name in _codes or name in _addresses:
                return True
            theirs = _compiling.get(name)
            if theirs is None:
                ours = _compiling[name] = threading.Event()
                break
        if not wait:
            return False
        theirs.wait()  # it has the code then, or has given up
    try:
        made = partial(emitted, name, target)
        _codes[name] = engine().named(_title(name), made, quick=partial(_is_quick, name))
    finally:
        with _lock:
            del _compiling[name]
        ours.set()
    return True


def _is_quick(name: str) -> bool:
    return _registered(name.split(".")[2])[2]


def _title(name: str) -> str:
    """What the object code of a routine is called in the cache."""
    return f"routine {name}"


def emitted(name: str, target: Target) -> str:
    """The text of a module that defines a routine."""
    module = ir.Module("rushlight_routines")
    _, _, kind, *details = name.split(".")
    function = declared(module, target, kind, *details)
    function.attributes.add("nounwind")
    e = Emitter(ir.IRBuilder(function.append_basic_block("entry")), target)
    arguments, body, _ = _registered(kind)
    body(e, arguments.of(function.args), *[int(d) if d.isdigit() else d for d in details])
    e.builder.ret_void()
    return str(module)
