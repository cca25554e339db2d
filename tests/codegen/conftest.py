"""Runs emitted code: a kernel applies an emitting function to arrays, some lanes at a time."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.ir as ir
import ml_dtypes
import numpy as np
import pytest

from rushlight.codegen.llvm.emitter import Emitter
from rushlight.codegen.llvm.math import imports
from rushlight.codegen.llvm.types import vector
from rushlight.runtime.cache import ObjectCache
from rushlight.runtime.engine import Engine
from rushlight.runtime.target import Target

KINDS = {
    "float32": ir.FloatType(),
    "float64": ir.DoubleType(),
    "float16": ir.HalfType(),
    "bool": ir.IntType(1),
    "bfloat16": ir.IntType(16),
}
KINDS |= {f"{sign}int{bits}": ir.IntType(bits) for sign in ("", "u") for bits in (8, 16, 32, 64)}


class Kernels:
    """Compiles and runs kernels for the host."""

    def __init__(self) -> None:
        self.engine = Engine(ObjectCache(None))
        self.target = self.engine.target

    def compile(
        self,
        emits: dict[str, Callable[..., Any]],
        inputs: Sequence[str],
        outputs: Sequence[str],
        lanes: int,
        target: Target | None = None,
    ) -> dict[str, Callable[..., list[np.ndarray]]]:
        """One module of kernels that have the same types; `emit(emitter, *values)` gives a value or a
        tuple."""
        module = ir.Module("test")
        for name, emit in emits.items():
            self._define(module, name, emit, inputs, outputs, lanes, target or self.target)
        library = self.engine.build(str(module), list(emits), imports(module), use_cache=False)
        return {name: self._callable(library, name, len(inputs), outputs, lanes) for name in emits}

    def _define(
        self,
        module: Any,
        name: str,
        emit: Callable[..., Any],
        inputs: Sequence[str],
        outputs: Sequence[str],
        lanes: int,
        target: Target,
    ) -> None:
        pointer = ir.PointerType()
        kind = ir.FunctionType(ir.VoidType(), [pointer] * (len(inputs) + len(outputs)) + [ir.IntType(64)])
        function = ir.Function(module, kind, name)
        for argument in function.args[:-1]:
            argument.add_attribute("noalias")
        e = Emitter(ir.IRBuilder(function.append_basic_block("entry")), target)
        with e.loop(0, function.args[-1], lanes) as i:
            values = []
            for argument, dtype in zip(function.args, inputs, strict=False):
                x = e.load(e.address(argument, i, KINDS[dtype]), vector(KINDS[dtype], lanes))
                values.append(e.from_bfloat16(x) if dtype == "bfloat16" else x)
            results = emit(e, *values)
            for argument, dtype, result in zip(
                function.args[len(inputs) :],
                outputs,
                (results if isinstance(results, tuple) else (results,)),
                strict=False,
            ):
                result = e.to_bfloat16(result) if dtype == "bfloat16" else result
                e.store(result, e.address(argument, i, KINDS[dtype]))
        e.builder.ret_void()

    def _callable(
        self, library: Any, name: str, inputs: int, outputs: Sequence[str], lanes: int
    ) -> Callable[..., list[np.ndarray]]:
        signature = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (inputs + len(outputs)), ctypes.c_int64)
        function = signature(library.addresses[name])

        def run(*arrays: np.ndarray) -> list[np.ndarray]:
            size = len(arrays[0])
            padded = -(-size // lanes) * lanes
            filled = [np.concatenate([a, np.ones(padded - size, a.dtype)]) for a in arrays]
            results = [np.empty(padded, ml_dtypes.bfloat16 if d == "bfloat16" else d) for d in outputs]
            function(*[a.ctypes.data for a in filled + results], padded)
            return [r[:size] for r in results]

        run.library = library  # the code lives as long as its library
        run.address = function
        return run

    def run(
        self,
        emit: Callable[..., Any],
        arrays: Sequence[np.ndarray],
        outputs: Sequence[str],
        lanes: int,
        target: Target | None = None,
    ) -> list[np.ndarray]:
        """Compile one kernel and run it."""
        inputs = [array.dtype.name for array in arrays]
        return self.compile({"kernel": emit}, inputs, outputs, lanes, target)["kernel"](*arrays)


@pytest.fixture(scope="session")
def kernels() -> Kernels:
    return Kernels()
