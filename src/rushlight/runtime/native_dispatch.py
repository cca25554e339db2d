"""Native calls of operators: from `a + b` to the result, without Python in between.

`install` makes the special methods of Tensor, and calls of packets, native. A call whose argument types are known
runs in code that LLVM made (codegen/llvm/native_dispatch.py), led by a table that is made here when Python has
resolved the first call of its kind. Everything else goes to the functions of Python's that were there before.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from ..autograd.edges import edge_of
from ..autograd.saved import OpNode, capture_values, node_class, save_output
from ..autograd.saved import prepare as prepare_plan
from ..autograd.tape import sequence
from ..codegen.llvm.native_arithmetic import DTYPES, OPERATIONS
from ..codegen.llvm.native_dispatch import MOST_ARGUMENTS, NamedTable, OpTable, emit_native_dispatch
from ..codegen.llvm.native_record import FUNCTIONS, NAMES, OBJECTS, SLOTS, PlanRecord, Saving
from ..core import dispatch, dtypes, resolve
from ..core.dispatch import AMBIENT, Arguments
from ..core.function_modes import on_modes
from ..core.modes import MODES
from ..core.registry import Kind, OpDef
from ..core.resolve import Packet
from ..core.tensor import Tensor
from ..core.tokens import Size, device
from ..derivatives.declare import Capture, Entry, Take
from ..eager import worker
from .engine import engine
from .invoke import MethodDef, available, c_functions
from .native_views import FIXES, Fixes, Form, Table, has_slots, meet_view, new_slots

METH_KEYWORDS, METH_NOARGS, METH_O, METH_FASTCALL = 0x0002, 0x0004, 0x0008, 0x0080
_OPERATIONS = {f"{name}{overload}": name for name in OPERATIONS for overload in ("", ".Tensor", ".Scalar")}
MOST_TARGETS = 4  # arguments with a gradient, of operators that are recorded natively


# Special methods of two operands and of one, and the packet of each: a function, or if that is None a method.
BINARY = {
    "__add__": "add",
    "__radd__": "add",
    "__sub__": "sub",
    "__rsub__": "rsub",
    "__mul__": "mul",
    "__rmul__": "mul",
    "__truediv__": "div",
    "__iadd__": "add_",
    "__isub__": "sub_",
    "__imul__": "mul_",
    "__itruediv__": "div_",
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
        self.operators: dict[OpDef, Any] = {}
        self.names = [sys.intern(name) for name in NAMES]
        self.objects = self._objects()
        exports = [
            "call_packet",
            "get_method",
            "call_operator",
            "get_shape",
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
            "float": float,
            "tuple": tuple,
            "Size": Size,
            "shape": Tensor.__dict__["shape"].fget,
            "table_type": Table,
            "operators": self.operators,
            "call_operator": dispatch.call_operator,
            "meet": meet,
            "meet_view": meet_view,
            "ambient": AMBIENT,
            "cpu": device("cpu"),
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
            "save_output": save_output,
            "spec": Tensor.spec,
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
        kind = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p)
        return kind(("PyDescr_NewMethod", ctypes.pythonapi))(owner, ctypes.addressof(definition))

    def function(self, name: str, symbol: str, flags: int, module: str) -> Any:
        """A function of positional arguments, as if it were one of `module`."""
        definition = MethodDef(name.encode(), self.library.addresses[symbol], flags, None)
        self.definitions.append(definition)
        kind = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.py_object, ctypes.py_object)
        return kind(("PyCFunction_NewEx", ctypes.pythonapi))(ctypes.addressof(definition), None, module)


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


def install_in_background(packets: dict[str, Packet]) -> None:
    """`install`, while the program goes on."""
    worker.submit(lambda: install(packets))


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
    resolve.install_native(learn, learn_named)
    dispatch.run_call = native.function("call", "call_operator", METH_FASTCALL, dispatch.__name__)
    call = native.method(Packet, "__call__", "call_packet", METH_FASTCALL | METH_KEYWORDS)
    on_modes(call, native.paused)
    Packet.__get__ = native.method(Packet, "__get__", "get_method", METH_FASTCALL)  # type: ignore[method-assign]
    shape = native.function("shape", "get_shape", METH_O, Tensor.__module__)
    Tensor.shape = property(shape, doc=Tensor.__dict__["shape"].__doc__)  # type: ignore[assignment, method-assign]
    for i, name in enumerate(BINARY):
        setattr(Tensor, name, native.method(Tensor, name, f"binary_{i}", METH_O))
    for i, name in enumerate(UNARY):
        setattr(Tensor, name, native.method(Tensor, name, f"unary_{i}", METH_NOARGS))
    return True


# Tables.


def learn(
    packet: Packet, types: tuple[type, ...], op: OpDef, lead: int, rest: Arguments, fixes: Fixes
) -> None:
    """Keep how a call of these types runs natively, or that it does not."""
    given = dict(enumerate(types[: lead + 1] if lead >= 0 else types))  # of the arguments of the operator
    native = (
        _is_native(op, dict(enumerate(types)), fixes)
        and (not packet.inplace or op.name in _OPERATIONS)
        and _is_placed_natively(op, given, rest)
    )
    if "_fast" not in packet.__dict__:
        packet._fast = {}
    form = Form(len(types), _tensors(enumerate(types)), lead, rest, fixes, _device(op, given))
    # a table that is there may be in use by another thread: it stays
    packet._fast.setdefault(types, _table(op, form, packet.inplace) if native else False)


def learn_named(
    packet: Packet,
    key: tuple[Any, ...],
    before: int,
    lead: int,
    op: OpDef,
    rest: Arguments,
    fixes: Fixes,
    places: tuple[int, ...],
) -> None:
    """The same for a call whose first arguments, so many, have no name: it becomes one of all arguments."""
    first = key[:before] if lead < 0 else (*key[:lead], tuple)  # of the arguments of the operator
    types = dict(enumerate(first)) | dict(zip(places, key[before + len(places) :], strict=True))
    count = len(op.schema.arguments)
    if "_named" not in packet.__dict__:
        packet._named = {}
    whole = len(set(places)) == len(places) and len(first) + len(rest) == count
    native = _is_native(op, types, fixes) and _is_placed_natively(op, types, rest)
    if packet.inplace or not whole or not native:
        packet._named.setdefault(key, False)
        return
    table = _table(op, Form(count, _tensors(types.items()), -1, (), fixes, _device(op, types)))
    usual = (*(None,) * len(first), *rest)
    head = NamedTable.words(
        table=table.__array_interface__["data"][0],
        count=count,
        usual=id(usual),
        lead=lead,
        place_table=NamedTable.word_count(),
    )
    named = np.array([*head, *places], np.int64).view(Table)
    named.kept = table, usual
    packet._named.setdefault(key, named)


def _is_native(op: OpDef, types: dict[int, type], fixes: Fixes) -> bool:
    """Whether calls with arguments of these types, by their places, run natively."""
    return (
        _runs_natively(op)
        and op.result_names is None
        and len(types) <= MOST_ARGUMENTS
        and all(fix in FIXES for _, fix in fixes)
        and set(op.list_positions) == {i for i, fix in fixes if fix is resolve.as_tensors}
    )


def _is_placed_natively(op: OpDef, types: dict[int, type], rest: Arguments) -> bool:
    """Whether a call with arguments of these types, and the last ones as in `rest`, makes plain tensors unless it
    is given another device."""
    if op.device_position is None:
        return True
    names = op.schema.argument_names
    asked = [op.device_position, *([names.index("layout")] if "layout" in names else ())]
    missing = [types[i] is type(None) if i in types else rest[i - len(names)] is None for i in asked]
    return all(missing) or (all(missing[1:]) and _device(op, types) >= 0)


def _device(op: OpDef, types: dict[int, type]) -> int:
    """The place of the device that is given; -1: none is."""
    place = op.device_position
    return place if place is not None and types.get(place) is device else -1


def _tensors(types: Iterable[tuple[int, type]]) -> int:
    """Bits of the arguments that are tensors."""
    return sum(1 << i for i, kind in types if issubclass(kind, Tensor))


def meet(op: OpDef, args: Arguments) -> Any:
    """Keep how calls of an operator with all its arguments run natively, and run this one."""
    assert _installed is not None
    tensors = sum(1 << i for i in op.tensor_positions)
    form = Form(len(op.schema.arguments), tensors, -1, (), ())
    native = _runs_natively(op) and op.device_position is None and not op.list_positions
    _installed.operators.setdefault(op, _table(op, form) if native else False)
    return dispatch.call_operator(op, args)


def _runs_natively(op: OpDef) -> bool:
    return op.family != "library" and op.kind in (Kind.POINTWISE, Kind.VIEW, Kind.STRUCTURAL, Kind.COMPOSITE)


def _table(op: OpDef, form: Form, inplace: bool = False) -> Table:
    entry = op.derivative
    composite = op.kind is Kind.COMPOSITE
    recorded = entry is not None and not composite and _is_recorded_natively(op, entry)
    operation = _operation(op, form)
    settings = [i for i in op.settings if i < form.given] if operation >= 0 else []
    more: list[int] = []

    def append(words: Sequence[int]) -> int:
        more.extend(words)
        return OpTable.word_count() + len(more) - len(words)

    kind = node_class(entry) if recorded else None
    slots = new_slots() if has_slots(op) else None
    head = OpTable.words(
        op=id(op),
        given=form.given,
        fix_table=append(form.fix_words()),
        lead=form.lead,
        rest=id(form.rest),
        tensors=form.tensors,
        sequences=form.sequences(),
        operation=operation,
        inplace=inplace,
        settings=len(settings),
        setting_table=append([word for i in settings for word in (i, id(op.defaults[i]))]),
        is_view=op.kind is Kind.VIEW,
        places=op.device_position is not None,
        device=form.device,
        reaches_storage=op.reaches_storage,
        view_slots=0 if slots is None else slots.__array_interface__["data"][0],
        itself=0,
        through=composite and entry is None,
        recorded=recorded,
        entry=id(entry),
        node_class=id(kind),
        targets=len(entry.targets) if recorded else 0,
        target_table=append(entry.targets) if recorded else 0,
        plan_table=_append_plans(op, entry, form, append) if recorded else 0,
    )
    table = np.array([*head, *more], np.int64).view(Table)
    table[OpTable.offset_of("itself") // 8] = id(table)
    plans = [entry.plan(mask) for mask in range(1 << len(entry.targets))] if recorded else []
    table.kept, table.form, table.slots = (op, entry, kind, plans), form, slots
    return table


def _is_recorded_natively(op: OpDef, entry: Entry) -> bool:
    returns = op.schema.returns
    return (
        not entry.any_lists
        and len(entry.targets) <= MOST_TARGETS
        and len(returns) == 1
        and returns[0].type.is_tensor
        and (entry.outputs is None or 0 in entry.outputs)
    )


def _append_plans(op: OpDef, entry: Entry, form: Form, append: Callable[[Sequence[int]], int]) -> int:
    """A record for each set of targets; the place of the first."""
    records = []
    for mask in range(1 << len(entry.targets)):
        plan = entry.plan(mask)
        if plan.fetch is None:
            prepare_plan(plan)
        pairs = [_captured(op, form, capture) for capture in plan.captures]
        native = None not in pairs
        place = append([word for pair in pairs if pair for word in pair]) if native else 0
        count = len(pairs) if native else -1
        records.append(PlanRecord.words(plan=id(plan), captures=count, capture_table=place))
    return append([word for record in records for word in record])


def _captured(op: OpDef, form: Form, capture: Capture) -> tuple[int, int] | None:
    """How a value is saved; None: by Python."""
    take, index, output = capture
    if take is Take.SHAPE and not output and index in op.tensor_positions and form.plain(index):
        return int(Saving.SHAPE), index
    if take is Take.SPEC and not output and index in op.tensor_positions and form.plain(index):
        return int(Saving.SPEC), index
    if take is Take.RESULT and index == 0:
        return int(Saving.RESULT), 0
    if take not in (Take.TENSOR, Take.VALUE):
        return None
    if form.plain(index):
        return int(Saving.TENSOR if take is Take.TENSOR else Saving.ARGUMENT), index
    after = index - len(op.schema.arguments) + len(form.rest)
    if take is Take.VALUE and after >= 0:
        return int(Saving.CONSTANT), id(form.rest[after])
    return None


def _operation(op: OpDef, form: Form) -> int:
    """Which operation on arrays it is; -1: none."""
    name = _OPERATIONS.get(op.name)
    operands = 1 if name == "neg" else 2
    if name is None or form.given < operands or not form.tensors & 1 or op.operands != tuple(range(operands)):
        return -1
    return OPERATIONS.index(name)
