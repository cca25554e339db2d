"""From LLVM IR to callable addresses.

Compilers (llvm_compiler.py) emit objects, which become images (images.py); where they cannot, one ORC JIT links
them. A `Library` owns the memory of its code: keep it alive as long as the code may run. Unresolved symbols
raise; nothing is ever looked up by a name that the process happens to export, except those given as `imports`.
LLVM is loaded when something is to be compiled, not for code from the cache.
"""

from __future__ import annotations

import functools
import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..core.lazy import LazyModule
from ..core.once import Once
from .cache import ObjectCache, default_directory, fingerprint, key_of
from .images import MAGIC, is_image
from .images import load as load_images
from .llvm_compiler import Compilers, target_machine
from .machine import machine
from .target import Target

llvm, objects = LazyModule("llvmlite.binding"), LazyModule("rushlight.runtime.objects")

_lock = threading.RLock()
_serial = itertools.count()


class Library:
    """Linked native code. `addresses` holds the exported functions."""

    __slots__ = ("_memory", "addresses", "calls", "object_code", "seconds")

    def __init__(
        self, memory: Any, addresses: dict[str, int], object_code: bytes, seconds: dict[str, float]
    ) -> None:
        self._memory = memory  # what the code lives in
        self.addresses = addresses
        self.object_code = object_code
        self.calls: Any = None  # what lives as long as this code, which calls it
        self.seconds = seconds  # per step; a key "cache" means that the object came from disk


class Engine:
    """Compiles and links modules for the host."""

    def __init__(self, cache: ObjectCache) -> None:
        self.cache = cache
        self._host = machine(cache)
        self.target: Target = self._host.target
        self._compilers = Compilers(self.target)

    def build(
        self,
        ir: str,
        exports: Sequence[str],
        imports: Mapping[str, int] | None = None,
        *,
        use_cache: bool = True,
        quick: bool = False,
    ) -> Library:
        """Compile `ir` (or load its object from the cache) and link it.

        `imports` are addresses by symbol name. `quick`: without optimisation, for code that runs little.
        """
        seconds: dict[str, float] = {}
        start = time.perf_counter()
        key = self._key(ir, quick)
        code = self.cache.load(key) if use_cache else None
        if code is not None:
            seconds["cache"] = time.perf_counter() - start
        else:
            code = self._compile(ir, seconds, quick)
            if use_cache:
                self.cache.store(key, code)
        start = time.perf_counter()
        library = self._link(code, exports, imports or {}, seconds)
        seconds["link"] = time.perf_counter() - start
        return library

    def build_named(
        self,
        name: str,
        ir: Callable[[], str],
        exports: Sequence[str],
        imports: Mapping[str, int] | None = None,
    ) -> Library:
        """As `build`, for code that this version of the package always makes the same under `name`: where it
        is in the cache, not even its text is made."""
        return self.link(self.named(name, ir), exports, imports or {})

    def named(self, name: str, ir: Callable[[], str], *, quick: Callable[[], bool] = bool) -> bytes:
        """The object code of what `build_named` makes; `quick` is asked where it is not in the cache."""
        code = self.known(name)
        if code is None:
            code = self._compile(ir(), {}, quick())
            self.cache.store(self._key_of_name(name), code)
        return code

    def known(self, name: str) -> bytes | None:
        """The object code of what `build_named` makes, if it is in the cache."""
        return self.cache.load(self._key_of_name(name))

    def _key_of_name(self, name: str) -> str:
        return key_of(("named", name, fingerprint(), self.identity()))

    def compile(self, ir: str, *, quick: bool = False) -> tuple[bytes, dict[str, float]]:
        """The object code of `ir`, and the time of each step."""
        seconds: dict[str, float] = {}
        return self._compile(ir, seconds, quick), seconds

    def link(
        self, code: bytes, exports: Sequence[str], imports: Mapping[str, int], others: Sequence[bytes] = ()
    ) -> Library:
        """Object code from `compile`, in this process or another like it, made callable, and `others` with it."""
        seconds: dict[str, float] = {}
        start = time.perf_counter()
        library = self._link(code, exports, imports, seconds, others)
        seconds["link"] = time.perf_counter() - start
        return library

    def identity(self) -> str:
        """Everything but the program that decides the object code."""
        target = self.target
        return key_of((target.triple, target.cpu, target.features, self._host.llvm, MAGIC.decode()))

    def _key(self, ir: str, quick: bool) -> str:
        return key_of(("quick" * quick + ir, self.identity()))

    def _compile(self, ir: str, seconds: dict[str, float], quick: bool = False) -> bytes:
        with self._compilers.one() as compiler:
            code = compiler.object_code(ir, seconds, quick)
        return objects.image_of(code) or code

    def assembly(self, ir: str) -> str:
        """The optimised assembly of `ir`, to look at."""
        with self._compilers.one() as compiler:
            return compiler.assembly(ir)

    def _link(
        self,
        code: bytes,
        exports: Sequence[str],
        imports: Mapping[str, int],
        seconds: dict[str, float],
        others: Sequence[bytes] = (),
    ) -> Library:
        codes = (code, *others)
        images = [each for each in codes if is_image(each)]
        memory, addresses = load_images(images, imports)
        rest = [name for name in exports if name not in addresses]
        left = [each for each in codes if not is_image(each)]
        tracker = _linked_by_llvm(self.target, left, rest, imports) if left or rest else {}
        addresses = {name: addresses[name] if name in addresses else tracker[name] for name in exports}
        return Library((memory, tracker), addresses, code, seconds)


def _linked_by_llvm(
    target: Target, codes: Sequence[bytes], exports: Sequence[str], imports: Mapping[str, int]
) -> Any:
    """What owns the code of objects that have no image; it gives the address of what they export."""
    with _lock:
        builder = llvm.JITLibraryBuilder()
        for code in codes:
            builder.add_object_img(code)
        for name in exports:
            builder.export_symbol(name)
        for name, address in imports.items():
            builder.import_symbol(name, address)
        return builder.link(_linker(target), f"rushlight{next(_serial)}")


@functools.cache
def _linker(target: Target) -> Any:
    # JITLink places the sections of an object side by side. The older linker asks for each on its own,
    # and in a process with gigabytes of arrays between them the offsets of the small code model overflow.
    return llvm.create_lljit_compiler(target_machine(target), use_jit_link=True)


@Once
def engine() -> Engine:
    """The process's engine, with the user's object cache."""
    return Engine(ObjectCache(default_directory()))
