"""From the text of a module to object code, in several threads at once.

llvmlite lets one thread at a time into LLVM, since its modules are usually all in one context. LLVM itself asks
only that no two threads use a context, or a target machine, at the same time: a `Compiler` has both of its own,
and what takes long, its passes and the generation of code, is called without llvmlite's lock. Everything else
keeps the lock.
"""

from __future__ import annotations

import ctypes
import functools
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..core.lazy import LazyModule
from .target import Target, initialize

llvm = LazyModule("llvmlite.binding")


class Compiler:
    """Compiles for one thread at a time."""

    def __init__(self, target: Target) -> None:
        self._context = llvm.create_context()
        self._machine = target_machine(target)
        self._quick_machine = target_machine(target, optimize=0)
        self._header = (
            f'target triple = "{self._machine.triple}"\ntarget datalayout = "{self._machine.target_data}"\n'
        )

    def object_code(self, text: str, seconds: dict[str, float], quick: bool) -> bytes:
        start = time.perf_counter()
        module = self._parsed(text)
        module.verify()
        seconds["parse"] = time.perf_counter() - start
        start = time.perf_counter()
        if not quick:
            self._optimize(module)
        seconds["optimize"] = time.perf_counter() - start
        start = time.perf_counter()
        code = _emitted(self._quick_machine if quick else self._machine, module)
        seconds["emit"] = time.perf_counter() - start
        return code

    def assembly(self, text: str) -> str:
        """The optimised assembly, to look at."""
        module = self._parsed(text)
        self._optimize(module)
        found: str = self._machine.emit_assembly(module)
        return found

    def _parsed(self, text: str) -> Any:
        return llvm.parse_assembly(self._header + text, context=self._context)

    def _optimize(self, module: Any) -> None:
        """Clean up code that is already vectorised.

        Inline helpers, promote memory to registers, fold, tidy branches.
        """
        builder = llvm.create_pass_builder(self._machine, llvm.create_pipeline_tuning_options(speed_level=1))
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_global_dead_code_eliminate_pass()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        _without_lock("LLVMPY_RunNewModulePassManager")(passes, module, builder)


class Compilers:
    """Those of a process: as many as threads have compiled at once."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self._idle: list[Compiler] = []
        self._lock = threading.Lock()

    @contextmanager
    def one(self) -> Iterator[Compiler]:
        with self._lock:
            compiler = self._idle.pop() if self._idle else None
        if compiler is None:
            compiler = Compiler(self._target)
        try:
            yield compiler
        finally:
            with self._lock:
                self._idle.append(compiler)


def target_machine(target: Target, optimize: int = 3) -> Any:
    """Small code model with position-independent code.

    The JIT default, the large model, is slower to make and run.
    """
    initialize()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=optimize, codemodel="small", reloc="pic", jit=True
    )


def _emitted(machine: Any, module: Any) -> bytes:
    """The object code of a module."""
    lib = llvm.ffi.lib
    with llvm.ffi.OutputString() as error:
        buffer = _without_lock("LLVMPY_TargetMachineEmitToMemory")(machine, module, 1, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        return ctypes.string_at(lib.LLVMPY_GetBufferStart(buffer), lib.LLVMPY_GetBufferSize(buffer))
    finally:
        lib.LLVMPY_DisposeMemoryBuffer(buffer)


@functools.cache
def _without_lock(name: str) -> Any:
    """A function of llvmlite's library as llvmlite has declared it, but for the lock."""
    lib = llvm.ffi.lib
    declared, function = getattr(lib, name), ctypes.CDLL(lib._name)[name]
    function.argtypes, function.restype = declared.argtypes, declared.restype
    return function
