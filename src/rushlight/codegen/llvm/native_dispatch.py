"""The native functions behind calls of operators: what runtime/native_dispatch.py makes methods of.

A call of a packet is looked up by the types of its arguments. What is found is a table, an `OpTable` and what it
refers to, by places in words: which operator it is, how its arguments are made of those that are given, what
computes it, and how autograd records it. Whatever is not plain (an ambient mode, a transform, sparse or quantized
tensors, inference tensors, a class that decides for itself) is refused, and then runs in Python.
"""

from __future__ import annotations

from typing import Any

from ...core.lazy import LazyModule
from ...runtime.target import Target
from .native_arithmetic import emit_arithmetic
from .native_checks import CheckEmitter
from .native_compute import ComputeEmitter
from .native_views import ViewEmitter
from .python_objects import PyArray
from .struct import I64, Ptr, Struct

ir = LazyModule("llvmlite.ir")

MOST_ARGUMENTS = 8  # that are looked up by their types
TUPLE_ITEMS = 24  # bytes before the items of a tuple


class OpTable(Struct):
    """What a table begins with. Fields that end in _table are places in the table, in words."""

    op: Ptr
    given: I64  # how many arguments are given
    fix_table: I64  # a `Fix` for each
    lead: I64  # how many come before those that are one list; -1: none are
    rest: Ptr  # a tuple: what follows the arguments that are given
    tensors: I64  # bits of the arguments that are tensors
    sequences: I64  # bits of those that are lists or tuples
    operation: I64  # which of OPERATIONS it is; -1: none
    inplace: I64  # whether the first argument is written to
    settings: I64  # how many arguments must be their defaults, if an operation is to compute it
    setting_table: I64  # place of pairs: which argument, and the default
    is_view: I64
    places: I64  # whether a mode may say where its result is to be
    device: I64  # which of the arguments that are given says so; -1: none does
    reaches_storage: I64  # whether it is a view that may reach all memory of its source's storage
    view_slots: Ptr  # of a view whose geometry may be known: its slots; else null
    itself: Ptr  # the object that holds the table
    through: I64  # whether what it consists of is recorded, not itself
    recorded: I64  # whether calls can be recorded natively
    entry: Ptr
    node_class: Ptr
    targets: I64
    target_table: I64  # positions of the arguments that have a gradient
    plan_table: I64  # a `PlanRecord` for each set of them


class NamedTable(Struct):
    """How a call that gives arguments by name becomes one of all arguments."""

    table: Ptr  # the words of the `OpTable` for that
    count: I64  # how many arguments there are
    usual: Ptr  # a tuple of them, where none is given
    lead: I64  # how many come before those without names that are one list; -1: none are
    place_table: I64  # where those go that are given by name


def emit_native_dispatch(target: Target, binary: int, unary: int) -> str:
    """The text of a module with `call_packet`, `get_method`, `call_operator`, and special methods `binary_0`,
    `unary_0`, ..."""
    module = ir.Module("rushlight_dispatch")
    kernels = emit_arithmetic(module, target)
    pointer, word = ir.PointerType(), ir.IntType(64)

    def new(name: str, *arguments: Any, result: Any = pointer) -> tuple[Any, DispatchEmitter]:
        function = ir.Function(module, ir.FunctionType(result, arguments), name)
        return function, DispatchEmitter(ir.IRBuilder(function.append_basic_block("entry")), target)

    kinds = (pointer, pointer, word, pointer, pointer, word, pointer, pointer)
    rows, e = new("rows", *kinds, result=ir.VoidType())
    rows.linkage = "internal"
    e.emit_rows(rows)
    compute, e = new("compute", pointer, pointer)
    compute.linkage = "internal"
    e.emit_compute(compute, OpTable, kernels, rows)
    record, e = new("record", pointer, pointer, pointer, pointer, word)
    record.linkage = "internal"
    e.emit_record(record, OpTable)
    view, e = new("view", pointer, pointer, pointer, pointer)
    view.linkage = "internal"
    e.emit_view(view, OpTable)
    perform, e = new("perform", pointer, pointer, pointer)
    perform.linkage = "internal"
    e.emit_perform(perform, compute, view, record)
    given, e = new("given", pointer, pointer)
    given.linkage = "internal"
    e.emit_given(given, perform)
    dispatch, e = new("dispatch", pointer, pointer, word)
    dispatch.linkage = "internal"
    e.emit_dispatch(dispatch, given)
    named, e = new("named", pointer, pointer, word, pointer)
    named.linkage = "internal"
    e.emit_named(named, given)
    function, e = new("call_operator", pointer, pointer, word)
    e.emit_operator(function, perform)
    function, e = new("call_packet", pointer, pointer, word, pointer)
    e.emit_call(function, dispatch, named)
    function, e = new("get_method", pointer, pointer, word)
    e.emit_get(function)
    function, e = new("get_shape", pointer, pointer)
    e.emit_shape(function)
    for i in range(binary + unary):
        name = f"binary_{i}" if i < binary else f"unary_{i - binary}"
        function, e = new(name, pointer, pointer)
        e.emit_special(function, dispatch, i, 2 if i < binary else 1)
    return str(module)


class DispatchEmitter(ComputeEmitter, ViewEmitter, CheckEmitter):
    """Emits the functions."""

    # Entries.

    def emit_call(self, function: Any, dispatch: Any, named: Any) -> None:
        """`Packet.__call__(self, *args, **kwargs)`."""
        b = self.builder
        packet, args, given, names = function.args
        found, otherwise = self.blocks("found", "otherwise")

        def by_types(attribute: str, run: Any, *more: Any) -> list[Any]:
            memory = self.get(packet, attribute)
            self.require_object(memory, otherwise)
            result = self.call(run, [memory, args, given, *more])
            self.api("Py_DecRef", memory)
            return [result]

        (result,) = self.branch(
            self.is_null(names), lambda: by_types("_fast", dispatch), lambda: by_types("_named", named, names)
        )
        b.cbranch(self.is_same(result, self.object("refused")), otherwise, found)
        b.position_at_end(found)
        b.ret(result)
        b.position_at_end(otherwise)
        self.api("PyErr_Clear")
        (more,) = self.branch(
            self.is_null(names), lambda: [self.i64(0)], lambda: [self.api("PyTuple_Size", names)]
        )
        count = self.add(given, more)
        words = self.stack_words(self.add(count, 1))
        self.put_word(packet, words)
        with self.loop(0, count) as i:
            self.put_word(self.word(args, i), self.word_address(words, self.add(i, 1)))
        b.ret(self.api("PyObject_Vectorcall", self.object("call"), words, self.add(given, 1), names))

    def emit_get(self, function: Any) -> None:
        """`Packet.__get__(self, instance, owner)`."""
        b = self.builder
        packet, args, _ = function.args
        instance = self.word(args, 0, self.pointer)
        bound, unbound = self.blocks("bound", "unbound")
        b.cbranch(self.is_same(instance, self.object("none")), unbound, bound)
        b.position_at_end(bound)
        b.ret(self.api("PyMethod_New", packet, instance))
        b.position_at_end(unbound)
        self.api("Py_IncRef", packet)
        b.ret(packet)

    def emit_shape(self, function: Any) -> None:
        """`get_shape(_, tensor)`, what the property `shape` gives."""
        b = self.builder
        tensor = function.args[1]
        otherwise, release, lost = self.blocks("otherwise", "release", "lost")
        self.require_attribute(tensor, "_spec", self.object("none"), otherwise)
        array = self.get(tensor, "_array")
        self.require_object(array, otherwise)
        self.require(self.is_same(self.type_of(array), self.object("ndarray")), release)
        fields = PyArray.at(self, array)
        rank = b.sext(fields.rank, self.i64)
        shape = self.api("PyType_GenericAlloc", self.object("Size"), rank)
        self.require_object(shape, release)
        items = b.gep(shape, [self.i64(TUPLE_ITEMS)], source_etype=self.i8)
        with self.loop(0, rank) as k:
            size = self.api("PyLong_FromLongLong", self.word(fields.dims, k))
            self.require_object(size, lost)
            self.put_word(size, self.word_address(items, k))
        self.api("Py_DecRef", array)
        b.ret(shape)
        b.position_at_end(lost)
        self.api("Py_DecRef", shape)
        b.branch(release)
        b.position_at_end(release)
        self.api("Py_DecRef", array)
        b.branch(otherwise)
        b.position_at_end(otherwise)
        self.api("PyErr_Clear")
        words = self.local(self.pointer)
        self.store(tensor, words)
        b.ret(self.api("PyObject_Vectorcall", self.object("shape"), words, self.i64(1), self.null))

    def emit_special(self, function: Any, dispatch: Any, number: int, given: int) -> None:
        """A special method of Tensor: `specials` has, for each, what its packet remembers and the function of
        Python's that it replaces."""
        b = self.builder
        record = self.word_address(self.object("specials"), 2 * number)
        args = self.stack_words(self.i64(2))
        for i, argument in enumerate(function.args[:given]):
            self.put_word(argument, self.word_address(args, i))
        found, otherwise = self.blocks("found", "otherwise")
        result = self.call(dispatch, [self.word(record, 0, self.pointer), args, self.i64(given)])
        b.cbranch(self.is_same(result, self.object("refused")), otherwise, found)
        b.position_at_end(found)
        b.ret(result)
        b.position_at_end(otherwise)
        method = self.word(record, 1, self.pointer)
        b.ret(self.api("PyObject_Vectorcall", method, args, self.i64(given), self.null))

    def emit_operator(self, function: Any, perform: Any) -> None:
        """`call(op, args)` of an operator and the tuple of all its arguments."""
        b = self.builder
        _, words, given = function.args
        found, otherwise, unknown = self.blocks("found", "otherwise", "unknown")
        self.require(self.compare("==", given, 2), otherwise)
        op, values = (self.word(words, i, self.pointer) for i in range(2))
        table = self.api("PyDict_GetItemWithError", self.object("operators"), op)
        self.require_object(table, unknown)
        self.require(self.is_same(self.type_of(table), self.object("table_type")), otherwise)
        self.require(self.is_same(self.type_of(values), self.object("tuple")), otherwise)
        address = PyArray.at(self, table).data
        size = self.api("PyTuple_Size", values)
        self.require(self.is_same(size, OpTable.at(self, address).given), otherwise)
        args = self.builder.gep(values, [self.i64(TUPLE_ITEMS)], source_etype=self.i8)
        result = self.call(perform, [address, args, values])
        b.cbranch(self.is_same(result, self.object("refused")), otherwise, found)
        b.position_at_end(found)
        b.ret(result)
        b.position_at_end(otherwise)
        self.api("PyErr_Clear")
        b.ret(self.api("PyObject_Vectorcall", self.object("call_operator"), words, given, self.null))
        b.position_at_end(unknown)
        self.api("PyErr_Clear")
        b.ret(self.api("PyObject_Vectorcall", self.object("meet"), words, given, self.null))

    # A call.

    def emit_dispatch(self, function: Any, run: Any) -> None:
        """`dispatch(memory, args, given)`: the result, or an error, or the object `refused`."""
        b = self.builder
        memory, self.args, self.given = function.args
        refused = b.append_basic_block("refused")
        self.require(self.compare("<=", self.given, MOST_ARGUMENTS), refused)
        table = self._find(memory, refused)
        b.ret(self.call(run, [table, self.args]))
        b.position_at_end(refused)
        self.api("PyErr_Clear")
        b.ret(self.object("refused"))

    def emit_named(self, function: Any, run: Any) -> None:
        """`named(memory, args, given, names)`: the same of a call that gives arguments by name, the last ones."""
        b = self.builder
        memory, self.args, given, names = function.args
        refused = b.append_basic_block("refused")
        more = self.api("PyTuple_Size", names)
        self.given = self.add(given, more)
        self.require(self.compare("<=", self.given, MOST_ARGUMENTS), refused)
        address = self._find(memory, refused, given, names)
        table = NamedTable.at(self, address)
        words = self.stack_words(table.count)
        with self.loop(0, table.count) as i:
            self.put_word(self.api("PyTuple_GetItem", table.usual, i), self.word_address(words, i))
        packed = self.compare(">=", table.lead, 0)
        with self.loop(0, self.select(packed, table.lead, given)) as i:
            self.put_word(self.word(self.args, i), self.word_address(words, i))
        listed = self.local(self.pointer)
        self.store(self._taken(self.object("none")), listed)
        with self.when(packed):
            self.store(self.listed(table.lead, given, refused), listed)
            self.put_word(self.load(listed, self.pointer), self.word_address(words, table.lead))
        with self.loop(0, more) as i:
            place = self.word(address, self.add(table.place_table, i))
            self.put_word(self.word(self.args, self.add(given, i)), self.word_address(words, place))
        result = self.call(run, [table.table, words])
        self.api("Py_DecRef", self.load(listed, self.pointer))
        b.ret(result)
        b.position_at_end(refused)
        self.api("PyErr_Clear")
        b.ret(self.object("refused"))

    def emit_given(self, function: Any, perform: Any) -> None:
        """`given(table, args)`: what `perform` does, with tuples in place of lists, which others may change."""
        b = self.builder
        address, args = function.args
        table = OpTable.at(self, address)
        count = table.given
        with self.when(self.compare("==", table.sequences, 0)):
            b.ret(self.call(perform, [address, args, self.null]))
            b.position_at_end(b.append_basic_block("listed"))
        result = self.local(self.pointer)
        self.store(self.null, result)
        words, failed = self.stack_words(count), b.append_basic_block("failed")
        with self.loop(0, count) as i:
            self.put_word(self._taken(self.word(args, i, self.pointer)), self.word_address(words, i))
        with self.loop(0, count) as i, self.when(self.has_bit(self.shift_right(table.sequences, i), 1)):
            before = self.word(words, i, self.pointer)
            made = self.api("PySequence_Tuple", before)
            self.require_object(made, failed)
            self.put_word(made, self.word_address(words, i))
            self.api("Py_DecRef", before)
        self.store(self.call(perform, [address, words, self.null]), result)
        b.branch(failed)
        b.position_at_end(failed)
        with self.loop(0, count) as i:
            self.api("Py_DecRef", self.word(words, i, self.pointer))
        b.ret(self.load(result, self.pointer))

    def emit_perform(self, function: Any, compute: Any, view: Any, record: Any) -> None:
        """`perform(table, args, values)`: the same, once the table is found; `values` is the tuple of all
        arguments, if there is one already."""
        b = self.builder
        self.table_address, self.args, self.values_given = function.args
        self.table = OpTable.at(self, self.table_address)
        self.given = self.table.given
        refused, failed, run, computed = self.blocks("refused", "failed", "run", "computed")
        self.require(self.compare("==", self.word(self.object("paused"), 0), 0), refused)
        self.require_attribute(self.object("ambient"), "keys", self.object("zero"), refused)
        with self.when(self.is_true(self.table.places)):
            self._require_modes((("devices", "empty"),), refused)
            with self.when(self.compare(">=", self.table.device, 0)):
                device = self.word(self.args, self.table.device, self.pointer)
                self.require(self.is_same(device, self.object("cpu")), refused)
        live = self._live_tensors(refused)
        recording = self.local(self.i64)
        self.store(self.i64(0), recording)
        self._check_numbers(refused)
        with self.when(self.is_true(live)):
            self.require(self.compare("==", self.table.inplace, 0), refused)
            self._check_modes(recording, refused)
            by_python = self.and_(self.load(recording, self.i64), self.xor(self.table.recorded, self.i64(1)))
            with self.when(self.has_bit(by_python, 1)):
                b.ret(self._recorded_by_python(failed))
                b.position_at_end(b.append_basic_block("recorded"))
        result = self.local(self.pointer)
        self.store(self.object("refused"), result)
        with self.when(self.compare(">=", self.table.operation, 0)):
            self.store(self.call(compute, [self.table_address, self.args]), result)
        slots = self.table.view_slots
        with self.when(self.not_(self.is_null(slots))):
            made = self.call(view, [self.table_address, self.args, self.values_given, slots])
            self.store(made, result)
        b.cbranch(self.is_same(self.load(result, self.pointer), self.object("refused")), run, computed)
        b.position_at_end(run)
        self.require(self.compare("==", self.table.inplace, 0), refused)
        self.store(self._run(refused, failed), result)
        b.branch(computed)
        b.position_at_end(computed)
        made = self.load(result, self.pointer)
        self.require_object(made, failed)
        with self.when(self.is_true(self.load(recording, self.i64))):
            done = self.call(record, [self.table_address, self.args, self.values_given, made, live])
            with self.when(self.not_(self.is_same(done, made))):  # an error, or refused
                self.api("Py_DecRef", made)
                b.ret(done)
                b.position_at_end(b.append_basic_block("never"))
        b.ret(made)
        b.position_at_end(failed)
        b.ret(self.null)
        b.position_at_end(refused)
        self.api("PyErr_Clear")
        b.ret(self.object("refused"))

    def _find(self, memory: Any, refused: Any, before: Any = None, names: Any = None) -> Any:
        """The table for the types of the arguments, and the names of those that come after `before` others: as
        the types of these, the names, the other types."""
        more = self.i64(0) if names is None else self.sub(self.given, before)
        types = self.api("PyTuple_New", self.add(self.given, more))
        self.require_object(types, refused)
        with self.loop(0, self.given) as i:
            kind = self.type_of(self.word(self.args, i, self.pointer))
            self.api("Py_IncRef", kind)
            after = self.i64(0) if names is None else self.select(self.compare("<", i, before), 0, more)
            self.api("PyTuple_SetItem", types, self.add(i, after), kind)
        if names is not None:
            with self.loop(0, more) as i:
                name = self.api("PyTuple_GetItem", names, i)
                self.api("Py_IncRef", name)
                self.api("PyTuple_SetItem", types, self.add(before, i), name)
        table = self.api("PyDict_GetItemWithError", memory, types)
        self.api("Py_DecRef", types)
        self.require_object(table, refused)
        self.require(self.is_same(self.type_of(table), self.object("table_type")), refused)
        return PyArray.at(self, table).data

    def _recorded_by_python(self, failed: Any) -> Any:
        """Run the operator on all its arguments, where its calls cannot be recorded natively."""
        values = self.all_arguments(failed)
        words = self.stack_words(self.i64(2))
        for i, word in enumerate((self.table.op, values)):
            self.put_word(word, self.word_address(words, i))
        result = self.api("PyObject_Vectorcall", self.object("call_operator"), words, self.i64(2), self.null)
        self.api("Py_DecRef", values)
        return result

    def _run(self, refused: Any, failed: Any) -> Any:
        """Run the operator below autograd on all its arguments."""
        none = self.is_null(self.table.view_slots)
        (run,) = self.branch(
            none, lambda: [self.get(self.table.op, "run")], lambda: [self._taken(self.object("meet_view"))]
        )
        self.require_object(run, failed)
        with self.when(self.is_same(run, self.object("none"))):
            self.api("Py_DecRef", run)
            self.builder.branch(refused)
            self.builder.position_at_end(self.builder.append_basic_block("never"))
        values = self.all_arguments(failed)
        words = self.stack_words(self.i64(3))
        for i, word in enumerate((self.table.op, values, self.table.itself)):
            self.put_word(word, self.word_address(words, i))
        count = self.select(none, self.i64(2), self.i64(3))
        result = self.api("PyObject_Vectorcall", run, words, count, self.null)
        self.api("Py_DecRef", values)
        self.api("Py_DecRef", run)
        return result
