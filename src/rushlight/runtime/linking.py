"""Programs from their descriptions and object code, as the compiler or the disk has them.

In: a description (compiler/linking.py makes it) and object code. Out: a `Library`, and an `Executable` over it.
Nothing of the compiler is imported for a program that is native throughout.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..codegen.llvm.routines import routine_imports
from ..core.dtypes import DTYPES
from ..core.errors import InternalError
from ..core.index_data import evaluate_data
from ..core.lazy import LazyModule
from ..plan.places import aligned, place
from . import invoke, profile
from .engine import Library, engine
from .executable import BlockMemory, CallsInMemory, Executable, SharedWorkspace, SizesInMemory, Slot
from .sized import SizedExecutable
from .target import Target
from .threads import pool

if TYPE_CHECKING:
    from ..graph.subgraph import BodyProgram

control_flow = LazyModule("rushlight.codegen.llvm.control_flow")
extern = LazyModule("rushlight.codegen.llvm.math.extern")

NO_BODIES: Mapping[str, BodyProgram] = {}


def link(description: dict[str, Any], code: bytes, bodies: Mapping[str, BodyProgram] = NO_BODIES) -> Library:
    """Make object code callable, together with what calls it and what it calls, `bodies` of control flow
    included."""
    invoke.prepare()
    entries = [s for s in description["segments"] if isinstance(s, str)]
    entries += [profile.TIMES, profile.LOG] if description["timers"] else []
    library = engine().link(code, entries, addresses_of(description["imports"], bodies))
    library.calls = tuple(bodies.values())
    if description["timers"]:
        timers = [profile.Timer(*words) for words in description["timers"]]
        times, log = (library.addresses[name] for name in (profile.TIMES, profile.LOG))
        profile.add_program(timers, times, log, code=library)
    return library


def addresses_of(
    names: Iterable[str], bodies: Mapping[str, BodyProgram] = NO_BODIES, target: Target | None = None
) -> dict[str, int]:
    """The addresses of what code calls; routines of ours are compiled if they are not there. `target`: what the
    code is for, if not for this machine."""
    addresses: dict[str, int] = {"parallel_for": pool().parallel_for_address, **profile.imports()}
    if bodies:
        addresses.update({name: body.address for name, body in bodies.items()}, **control_flow.c_routines())
    addresses.update(routine_imports(names, target or engine().target))
    for name in names:
        address = addresses.get(name) or extern.import_address(name)
        if address is None:
            raise InternalError(f"there is no routine {name} to link with")
        addresses[name] = address
    return addresses


def native_program(description: dict[str, Any], library: Library) -> Executable | SizedExecutable:
    """The program that a description is of, which is native throughout; one for all sizes, if it has sizes that
    change."""
    segments = description["segments"]
    if not description["symbols"]:
        return executable_of(description, library, segments)

    def make(sizes: Mapping[str, int], table: np.ndarray, workspace: SharedWorkspace) -> Executable:
        found = with_sizes(description, sizes)
        return executable_of(found, library, segments, SizesInMemory(description["sizes"], table, workspace))

    return SizedExecutable(description["symbols"], description["derived"], make, dict(description["updates"]))


def executable_of(
    description: dict[str, Any],
    library: Library,
    segments: Sequence[str | Callable[..., None]],
    table: SizesInMemory | None = None,
    calls: CallsInMemory | None = None,
) -> Executable:
    """An executable whose sizes are numbers; `segments` are its entries, and functions between these."""
    outputs, temporaries = (
        [_slot_of(words) for words in description[name]] for name in ("outputs", "temporaries")
    )
    reports = [(getattr(builtins, kind), message) for kind, message in description["reports"]]
    executable = Executable(
        library,
        segments,
        description["inputs"],
        outputs,
        BlockMemory(description["slots"], temporaries, description["workspace"], table, calls),
        pool(),
        reports,
        dict(description["updates"]),
    )
    executable.loops = bool(description["bodies"])
    return executable


def with_sizes(description: dict[str, Any], sizes: Mapping[str, int]) -> dict[str, Any]:
    """A description with numbers in place of sizes that change, and its workspace laid out for them."""
    if not description["symbols"]:  # guards have made numbers of all of them
        return description

    def number(size: Any) -> int:
        return evaluate_data(size, sizes)

    def slot(words: list[Any]) -> list[Any]:
        count, dtype, shape, steps, offset = words
        return [
            count,
            dtype,
            list(map(number, shape)),
            None if steps is None else list(map(number, steps)),
            offset,
        ]

    outputs, temporaries = (list(map(slot, description[name])) for name in ("outputs", "temporaries"))
    lengths = [aligned(max(t[2][0] * DTYPES[t[1]].itemsize, 1)) for t in temporaries]
    offsets, size = place(lengths, [tuple(life) for life in description["lives"]])
    for words, offset in zip(temporaries, offsets, strict=True):
        words[4] = offset
    return description | {"outputs": outputs, "temporaries": temporaries, "workspace": size}


def _slot_of(words: list[Any]) -> Slot:
    number, dtype, shape, steps, offset = words
    return Slot(number, DTYPES[dtype].numpy, tuple(shape), None if steps is None else tuple(steps), offset)
