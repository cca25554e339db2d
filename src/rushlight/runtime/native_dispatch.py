"""Native calls of operators: from `a + b` to the result, without Python in between.

`install` makes the special methods of Tensor, and calls of packets, native. A call whose argument types are known
runs in code that LLVM made (codegen/llvm/native_dispatch.py), led by a table that is made here when Python has
resolved the first call of its kind. Everything else goes to the functions of Python's that were there before.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..autograd.edges import edge_of
from ..autograd.saved import OpNode, capture_values, node_class
from ..autograd.saved import prepare as prepare_plan
from ..autograd.tape import sequence
from ..codegen.llvm.native_arithmetic import DTYPES, OPERATIONS
from ..codegen.llvm.native_dispatch import Fix, OpTable, emit_native_dispatch
from ..codegen.llvm.native_record import FUNCTIONS, NAMES, OBJECTS, SLOTS, Captured, PlanRecord
from ..core import dtypes, resolve
from ..core.dispatch import AMBIENT
from ..core.function_modes import on_modes
from ..core.modes import MODES
from ..core.registry import Kind, OpDef
from ..core.resolve import Packet
from ..core.tensor import Tensor
from ..derivatives.declare import Entry, Take
from .engine import engine
from .invoke import MethodDef, available, c_functions

METH_KEYWORDS, METH_NOARGS, METH_O, METH_FASTCALL = 0x0002, 0x0004, 0x0008, 0x0080
_FIXES = {resolve.as_long: Fix.LONG, resolve.as_one_long: Fix.ONE_LONG, resolve.as_longs: Fix.LONGS}
_OPERATIONS = {f"{name}{overload}": name for name in OPERATIONS for overload in ("", ".Tensor", ".Scalar")}
_NUMBERS = {float: 1, int: 2}


class Table(np.ndarray):
    """The words of a table; `kept` is what they are addresses of."""

    kept: Any = None


# Special methods of two operands and of one, and the packet of each: a function, or if that is None a method.
BINARY = {
    "__add__": "add",
    "__radd__": "add",
    "__sub__": "sub",
    "__rsub__": "rsub",
    "__mul__": "mul",
    "__rmul__": "mul",
    "__truediv__": "div",
    "__matmul__": "matmul",
    "__lt__": "lt",
    "__le__": "le",
    "__gt__": "gt",
    "__ge__": "ge",
    "__ne__": "ne",
    "__eq__": "eq",
}
UNARY = {"__neg__": "neg"}


class _Installed:
    """The native functions, and what they refer to."""

    def __init__(self, packets: dict[str, Packet]) -> None:
        self.paused = np.zeros(1, np.int64)
        self.packets = [packets[name] for name in (*BINARY.values(), *UNARY.values())]
        for packet in self.packets:
            packet._fast = packet.__dict__.get("_fast", {})
        self.methods = [Tensor.__dict__[name] for name in (*BINARY, *UNARY)]
        pairs = zip(self.packets, self.methods, strict=True)
        self.specials = np.array([id(x) for p, m in pairs for x in (p._fast, m)], np.int64)
        self.call = Packet.__call__
        self.names = [sys.intern(name) for name in NAMES]
        self.objects = self._objects()
        exports = [
            "call_packet",
            "get_method",
            *[f"binary_{i}" for i in range(len(BINARY))],
            *[f"unary_{i}" for i in range(len(UNARY))],
        ]
        self.library = engine().build_named(
            "dispatch",
            lambda: emit_native_dispatch(engine().target, len(BINARY), len(UNARY)),
            exports,
            {**c_functions(FUNCTIONS), "objects": self.objects.__array_interface__["data"][0]},
        )
        self.definitions: list[MethodDef] = []

    def _objects(self) -> np.ndarray:
        constants = {
            "Tensor": Tensor,
            "ndarray": np.ndarray,
            "int": int,
            "table_type": Table,
            "ambient": AMBIENT,
            "modes": MODES,
            "zero": 0,
            "one": 1,
            "none": None,
            "true": True,
            "false": False,
            "empty": (),
            "empty_set": type(MODES).silent,
            "refused": NotImplemented,
            "call": self.call,
            "sequence": sequence,
            "edge_of": edge_of,
            "capture_values": capture_values,
            **{f"name_{name}": name for name in self.names},
        }
        for name in (*DTYPES, "bool"):
            dtype = dtypes.DTYPES[name]
            constants[f"descr_{name}"], constants[f"dtype_{name}"] = dtype.numpy, dtype
        self.kept = constants
        words = {name: id(thing) for name, thing in constants.items()}
        words |= {f"slot_{name}": slot_offset(OpNode, name) for name in SLOTS}
        words["paused"] = self.paused.__array_interface__["data"][0]
        words["specials"] = self.specials.__array_interface__["data"][0]
        return np.array([words[name] for name in OBJECTS], np.int64)

    def method(self, owner: type, name: str, symbol: str, flags: int) -> Any:
        """A method of a class."""
        definition = MethodDef(name.encode(), self.library.addresses[symbol], flags, None)
        self.definitions.append(definition)
        new = ctypes.pythonapi.PyDescr_NewMethod
        new.restype, new.argtypes = ctypes.py_object, [ctypes.py_object, ctypes.c_void_p]
        return new(owner, ctypes.addressof(definition))


def slot_offset(kind: type, name: str) -> int:
    """Where the objects of a class keep a slot, in bytes: as its descriptor says."""
    holder = next(base for base in kind.__mro__ if name in base.__dict__)
    member = ctypes.c_int64.from_address(id(holder.__dict__[name]) + 5 * 8).value  # after PyDescrObject
    return ctypes.c_int64.from_address(member + 16).value  # of PyMemberDef: after the name and the type


def _slots_are_laid_out() -> bool:
    """Whether the slots of a node are where `slot_offset` says."""
    probe = object.__new__(OpNode)
    for name in SLOTS:
        thing = object()
        setattr(probe, name, thing)
        offset = slot_offset(OpNode, name)
        if not 16 <= offset < 256 or ctypes.c_int64.from_address(id(probe) + offset).value != id(thing):
            return False
    return True


_installed: _Installed | None = None
_thread: threading.Thread | None = None


def install_in_background(packets: dict[str, Packet]) -> None:
    """`install`, while the program goes on."""
    global _thread
    _thread = threading.Thread(target=install, args=(packets,), name="rushlight-dispatch")
    _thread.start()


def wait() -> None:
    """Wait for `install_in_background`."""
    if _thread is not None:
        _thread.join()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=wait)  # so that a child finds no lock taken by a thread that it does not have


def install(packets: dict[str, Packet]) -> bool:
    """Make calls of operators native; says whether that could be done."""
    global _installed
    if _installed is not None:
        return True
    if not available() or not _slots_are_laid_out():
        return False
    native = _Installed(packets)
    # methods look at their definitions when they are freed, some after all modules: all of it stays
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(native))
    _installed = native
    resolve.learn = learn
    call = native.method(Packet, "__call__", "call_packet", METH_FASTCALL | METH_KEYWORDS)
    on_modes(call, native.paused)
    Packet.__get__ = native.method(Packet, "__get__", "get_method", METH_FASTCALL)  # type: ignore[method-assign]
    for i, name in enumerate(BINARY):
        setattr(Tensor, name, native.method(Tensor, name, f"binary_{i}", METH_O))
    for i, name in enumerate(UNARY):
        setattr(Tensor, name, native.method(Tensor, name, f"unary_{i}", METH_NOARGS))
    return True


# Tables.


def learn(
    packet: Packet,
    types: tuple[type, ...],
    op: OpDef,
    lead: int,
    rest: tuple[Any, ...],
    fixes: Sequence[tuple[int, Any]],
) -> None:
    """Keep how a call of these types runs natively, or that it does not."""
    table = _table(op, types, lead, rest, fixes) if _runs_natively(packet, op, types, fixes) else False
    if "_fast" not in packet.__dict__:
        packet._fast = {}
    packet._fast[types] = table


def _runs_natively(
    packet: Packet, op: OpDef, types: tuple[type, ...], fixes: Sequence[tuple[int, Any]]
) -> bool:
    return (
        not packet.inplace
        and op.result_names is None
        and not op.list_positions
        and op.device_position is None
        and op.family != "library"
        and op.kind in (Kind.POINTWISE, Kind.VIEW, Kind.STRUCTURAL, Kind.COMPOSITE)
        and not op.random
        and len(types) <= 8
        and all(fix in _FIXES for _, fix in fixes)
        and all(kind is tuple for (i, fix) in fixes if fix is resolve.as_longs for kind in (types[i],))
    )


def _table(
    op: OpDef, types: tuple[type, ...], lead: int, rest: tuple[Any, ...], fixes: Sequence[tuple[int, Any]]
) -> Table:
    entry = op.derivative
    composite = op.kind is Kind.COMPOSITE
    recorded = entry is not None and not composite and _is_recorded_natively(op, entry)
    operation, number = _operation(op, types)
    fixed = [Fix.NONE] * len(types)
    for i, fix in fixes:
        fixed[i] = _FIXES[fix]
    for i in range(lead, len(types)) if lead >= 0 else ():
        fixed[i] = Fix.LONG
    more: list[int] = []

    def append(words: Sequence[int]) -> int:
        more.extend(words)
        return OpTable.word_count() + len(more) - len(words)

    kind = node_class(entry) if recorded else None
    head = OpTable.words(
        op=id(op),
        given=len(types),
        fix_table=append([int(fix) for fix in fixed]),
        lead=lead,
        rest=id(rest),
        tensors=sum(1 << i for i, kind in enumerate(types) if issubclass(kind, Tensor)),
        operation=operation,
        number=number,
        is_view=op.kind is Kind.VIEW,
        through=composite and entry is None,
        recorded=recorded,
        entry=id(entry),
        node_class=id(kind),
        targets=len(entry.targets) if recorded else 0,
        target_table=append(entry.targets) if recorded else 0,
        plan_table=_append_plans(op, entry, len(types) if lead < 0 else lead, rest, append)
        if recorded
        else 0,
    )
    table = np.array([*head, *more], np.int64).view(Table)
    table.kept = (op, rest, entry, kind)
    return table


def _is_recorded_natively(op: OpDef, entry: Entry) -> bool:
    returns = op.schema.returns
    return (
        not entry.any_lists
        and len(entry.targets) <= 4
        and len(returns) == 1
        and returns[0].type.is_tensor
        and (entry.outputs is None or 0 in entry.outputs)
    )


def _append_plans(op: OpDef, entry: Entry, single: int, rest: tuple[Any, ...], append: Any) -> int:
    """A record for each set of targets; the place of the first."""
    records = []
    for mask in range(1 << len(entry.targets)):
        plan = entry.plan(mask)
        if plan.fetch is None:
            prepare_plan(plan)
        pairs = []
        for take, index, _ in plan.captures:
            given = index < single
            if take is Take.TENSOR and given:
                pairs.append((Captured.TENSOR, index))
            elif take is Take.VALUE and given:
                pairs.append((Captured.ARGUMENT, index))
            elif take is Take.VALUE and index >= len(op.schema.arguments) - len(rest):
                pairs.append((Captured.CONSTANT, id(rest[index - len(op.schema.arguments)])))
            else:
                pairs = [None]
                break
        native = None not in pairs
        place = append([word for pair in pairs for word in pair]) if native else 0
        records.append(
            PlanRecord.words(plan=id(plan), captures=len(pairs) if native else -1, capture_table=place)
        )
    return append([word for record in records for word in record])


def _operation(op: OpDef, types: tuple[type, ...]) -> tuple[int, int]:
    """Which operation on arrays it is, and what its second operand is."""
    name = _OPERATIONS.get(op.name)
    if (
        name is None
        or len(types) > 2
        or not issubclass(types[0], Tensor)
        or (len(types) == 1) != (name == "neg")
    ):
        return -1, 0
    if len(types) == 1:
        return OPERATIONS.index(name), 3
    number = 0 if issubclass(types[1], Tensor) else _NUMBERS.get(types[1], -1)
    return (OPERATIONS.index(name), number) if number >= 0 else (-1, 0)
