"""The machine that code is generated for.

Nothing above codegen/ knows the CPU: what a generator may ask (vector width, registers) is a field of
`Target`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

from ..core.lazy import LazyModule

llvm = LazyModule("llvmlite.binding")


@dataclass(frozen=True, slots=True)
class Target:
    """An instruction set: its LLVM names, and the widths a code generator plans with."""

    triple: str
    cpu: str
    features: str
    vector_bytes: int
    vector_registers: int
    has_fma: bool
    has_masked_memory: bool

    def lanes(self, itemsize: int) -> int:
        """How many elements of `itemsize` bytes a vector register holds."""
        return max(1, self.vector_bytes // itemsize)


@functools.cache
def host() -> Target:
    """The machine this process runs on.

    Its feature string is asked for, since virtual machines mask features.
    """
    initialize()
    flags = llvm.get_host_cpu_features()
    on = {name for name, present in flags.items() if present}
    triple = llvm.get_process_triple()
    if "avx512f" in on:
        vector_bytes, registers = 64, 32
    elif "avx2" in on:
        vector_bytes, registers = 32, 16
    else:
        vector_bytes, registers = 16, 32 if triple.startswith(("aarch64", "arm64")) else 16
    features = flags.flatten()
    if "avx512f" in on:
        features += ",-prefer-256-bit"
    return Target(
        triple,
        llvm.get_host_cpu_name(),
        features,
        vector_bytes,
        registers,
        has_fma="fma" in on or triple.startswith(("aarch64", "arm64")),
        has_masked_memory="avx2" in on or "avx512f" in on,
    )


@functools.cache
def initialize() -> None:
    """Initialise LLVM for the host. Without the assembly parser any inline assembly aborts the process."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()
    # Loops are emitted with the induction variables they need; looking for others takes up to half of the
    # time.
    llvm.set_option("", "-disable-lsr")
