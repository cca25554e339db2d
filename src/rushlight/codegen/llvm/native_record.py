"""The native function that records a call for autograd: the edges, the node and what it saves.

It does what `record` and `capture_values` (autograd/) do for plain tensors: an operator with one result. Edges
that must be found by looking at views or leaves, and values that are more than arguments, are asked of these.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from .python_objects import NUMPY_API, PYTHON_API, ObjectEmitter, PyArray
from .struct import I64, Ptr, Struct

# Names of attributes and modes, and other objects, in the order of their addresses in the table.
NAMES = (
    "_array",
    "_keys",
    "_base",
    "dtype",
    "keys",
    "_node",
    "_output_nr",
    "_inference",
    "_versions",
    "_seen",
    "_fast",
    "_named",
    "value",
    "run",
    "is_differentiable",
    "__dict__",
    "grad",
    "inference",
    "dual_levels",
    "anomaly",
    "silent",
    "saved_hooks",
    "devices",
    "_strides",
    "_storage",
    "_offset",
    "storage_object",
    "buffer",
    "version_counter",
    "_view_of",
    "_creation",
    "_seen_version",
    "no_grad",
    "_spec",
    "derivative",
    "plans",
)
# What a node keeps in slots: the table has the places of these in bytes.
SLOTS = ("_next", "_meta", "_sequence", "_hooks", "_trace", "entry", "plan", "counts", "saved")
OBJECTS = (
    "Tensor",
    "ndarray",
    "int",
    "float",
    "tuple",
    "Size",
    "shape",
    "table_type",
    "operators",
    "call_operator",
    "meet",
    "meet_view",
    "ambient",
    "cpu",
    "modes",
    "zero",
    "one",
    "none",
    "true",
    "false",
    "empty",
    "empty_set",
    "refused",
    "paused",
    "specials",
    "call",
    "sequence",
    "edge_of",
    "capture_values",
    "save_output",
    "spec",
    "descr_float32",
    "descr_float64",
    "descr_int64",
    "descr_bool",
    "dtype_float32",
    "dtype_float64",
    "dtype_int64",
    "dtype_bool",
    *(f"name_{name}" for name in NAMES),
    *(f"slot_{name}" for name in SLOTS),
)
FUNCTIONS = {
    **PYTHON_API,
    **NUMPY_API,
    "PyTuple_New": ("p", "n"),
    "PyTuple_SetItem": ("i", "pnp"),
    "PyTuple_GetItem": ("p", "pn"),
    "PyTuple_Size": ("n", "p"),
    "PySequence_Tuple": ("p", "p"),
    "PyMethod_New": ("p", "pp"),
    "PyIter_Next": ("p", "p"),
    "PyObject_Vectorcall": ("p", "ppnp"),
    "PyLong_AsLongLongAndOverflow": ("n", "pp"),
    "PyFloat_AsDouble": ("d", "p"),
    "PyErr_Occurred": ("p", ""),
}


class Saving(IntEnum):
    """What a node saves, and how."""

    ARGUMENT = 0  # as it is
    CONSTANT = 1  # an argument that was not given
    TENSOR = 2  # an argument: with its version and node
    SHAPE = 3  # the sizes of an argument
    SPEC = 4  # the geometry and dtype of an argument
    RESULT = 5  # the result: without its node, with its version


class PlanRecord(Struct):
    """How a call is recorded for one set of arguments that need a gradient."""

    plan: Ptr
    captures: I64  # how many values it saves; -1: Python does it
    capture_table: I64  # place of pairs: a `Saving`, and which argument or object


class RecordEmitter(ObjectEmitter):
    """Emits `record`, and what other functions need of it."""

    objects = OBJECTS
    functions = FUNCTIONS
    table: Any
    table_address: Any
    args: Any
    given: Any
    values_given: Any

    def all_arguments(self, failed: Any) -> Any:
        """A tuple of all arguments of the operator, of which a reference is held then."""

        def held() -> list[Any]:
            self.api("Py_IncRef", self.values_given)
            return [self.values_given]

        return self.branch(self.is_null(self.values_given), lambda: [self.arguments(failed)], held)[0]

    def tuple_of(self, items: list[Any], failed: Any) -> Any:
        """A tuple that takes over the references to its items."""
        made = self.api("PyTuple_New", self.i64(len(items)))
        self.require_object(made, failed)
        for i, item in enumerate(items):
            self.api("PyTuple_SetItem", made, self.i64(i), item)
        return made

    def arguments(self, failed: Any) -> Any:
        """A tuple of all arguments of the operator."""
        table = self.table
        lead = table.lead
        packed = self.compare(">=", lead, 0)
        single = self.select(packed, lead, self.given)  # arguments that are given one by one
        rest = table.rest
        more = self.api("PyTuple_Size", rest)
        listed = self.builder.zext(packed, self.i64)
        values = self.api("PyTuple_New", self.add(self.add(single, listed), more))
        self.require_object(values, failed)
        with self.loop(0, single) as i:
            self.api("PyTuple_SetItem", values, i, self._argument(i, failed))
        with self.when(packed):
            self.api("PyTuple_SetItem", values, lead, self.listed(lead, self.given, failed))
        start = self.add(single, listed)
        with self.loop(0, more) as i:
            item = self.api("PyTuple_GetItem", rest, i)
            self.api("Py_IncRef", item)
            self.api("PyTuple_SetItem", values, self.add(start, i), item)
        return values

    def listed(self, first: Any, end: Any, failed: Any) -> Any:
        """A tuple of the arguments from one to another."""
        several = self.api("PyTuple_New", self.sub(end, first))
        self.require_object(several, failed)
        with self.loop(first, end) as i:
            item = self._taken(self.word(self.args, i, self.pointer))
            self.api("PyTuple_SetItem", several, self.sub(i, first), item)
        return several

    def _argument(self, i: Any, failed: Any) -> Any:
        """An argument made of what is given, to be taken over."""
        value = self.word(self.args, i, self.pointer)
        fix = self.word(self.table_address, self.add(self.table.fix_table, i))

        def one() -> list[Any]:
            return [self.tuple_of([self._taken(value)], failed)]

        return self.branch(self.compare("==", fix, 2), one, lambda: [self._taken(value)])[0]

    # Recording.

    def emit_record(self, function: Any, layout: Any) -> None:
        """`record(table, args, values, result, live)`: the result; null if there was an error; the object
        `refused` if the derivative is not the one that the table knows."""
        b = self.builder
        self.table_address, self.args, self.values_given, result, live = function.args
        self.table = layout.at(self, self.table_address)
        self.given = self.table.given
        failed, dropped, done, unknown = self.blocks("failed", "dropped", "done", "unknown")
        self.require_attribute(self.table.op, "derivative", self.table.entry, unknown)
        dtype = self.get(result, "dtype")
        self.require_object(dtype, failed)
        self.api("Py_DecRef", dtype)
        differentiable = self.get(dtype, "is_differentiable")
        self.require_object(differentiable, failed)
        self.api("Py_DecRef", differentiable)
        self.require(self.is_same(differentiable, self.object("true")), done)
        edges = self.api("PyTuple_New", self.table.targets)
        self.require_object(edges, failed)
        (mask,) = self.fold(
            0,
            self.table.targets,
            1,
            [self.i64(0)],
            lambda i, mask: (self.or_(mask, self._put_edge(i, live, edges, dropped)),),
        )
        with self.when(self.compare("==", mask, 0)):
            self.api("Py_DecRef", edges)
            b.branch(done)
            b.position_at_end(b.append_basic_block("never"))
        place = self.add(self.table.plan_table, self.mul(mask, PlanRecord.word_count()))
        plan = PlanRecord.at(self, self.word_address(self.table_address, place))
        self._require_plan(plan, mask, edges, unknown, failed)
        self._make_node(result, dtype, edges, plan, dropped, failed)
        b.branch(done)
        b.position_at_end(dropped)
        self.api("Py_DecRef", edges)
        b.branch(failed)
        b.position_at_end(failed)
        b.ret(self.null)
        b.position_at_end(unknown)
        b.ret(self.object("refused"))
        b.position_at_end(done)
        b.ret(result)

    def _require_plan(self, plan: Any, mask: Any, edges: Any, unknown: Any, failed: Any) -> None:
        """Go on if the entry still has that plan."""
        b = self.builder
        dropped, changed = self.blocks("dropped", "changed")
        plans = self.get(self.table.entry, "plans")
        self.require_object(plans, dropped)
        number = self.api("PyLong_FromLongLong", mask)
        self.require_object(number, dropped)
        found = self.api("PyDict_GetItemWithError", plans, number)
        same = self.is_same(found, plan.plan)
        self.api("Py_DecRef", plans)
        self.api("Py_DecRef", number)
        self.require(same, changed)
        good = b.append_basic_block("good")
        b.branch(good)
        for block, following in ((dropped, failed), (changed, unknown)):
            b.position_at_end(block)
            self.api("Py_DecRef", edges)
            b.branch(following)
        b.position_at_end(good)

    def _put_edge(self, i: Any, live: Any, edges: Any, failed: Any) -> Any:
        """Find the edge of a target; its bit, if there is one."""
        position = self.word(self.table_address, self.add(self.table.target_table, i))
        there = self.compare("<", position, self.given)
        asked = self.and_(there, self.has_bit(self.shift_right(live, position), 1))

        def look() -> list[Any]:
            return [self._edge(self.word(self.args, position, self.pointer), failed)]

        def nothing() -> list[Any]:
            self.api("Py_IncRef", self.object("none"))
            return [self.object("none")]

        (edge,) = self.branch(asked, look, nothing)
        self.api("PyTuple_SetItem", edges, i, edge)
        none = self.is_same(edge, self.object("none"))
        return self.select(none, self.i64(0), self.shift_left(self.i64(1), i))

    def _edge(self, tensor: Any, failed: Any) -> Any:
        base, node = (self.get(tensor, name) for name in ("_base", "_node"))
        self.require_object(base, failed)
        self.require_object(node, failed)
        none = self.object("none")
        own = self.and_(self.is_same(base, none), self.not_(self.is_same(node, none)))
        self.api("Py_DecRef", base)

        def direct() -> list[Any]:
            number = self.get(tensor, "_output_nr")
            self.require_object(number, failed)
            return [self.tuple_of([node, number], failed)]

        def ask() -> list[Any]:
            self.api("Py_DecRef", node)
            words = self.local(self.pointer)
            self.store(tensor, words)
            found = self.api("PyObject_Vectorcall", self.object("edge_of"), words, self.i64(1), self.null)
            self.require_object(found, failed)
            return [found]

        return self.branch(own, direct, ask)[0]

    def _make_node(self, result: Any, dtype: Any, edges: Any, plan: Any, dropped: Any, failed: Any) -> None:
        """Make the node and give it to the result."""
        b = self.builder
        broken = b.append_basic_block("broken")
        node = self.api("PyType_GenericAlloc", self.table.node_class, self.i64(0))
        self.require_object(node, dropped)
        self._fill(node, "_next", edges)
        for name, value in (
            ("_hooks", self.object("none")),
            ("_trace", self.object("none")),
            ("counts", self.object("none")),
            ("entry", self.table.entry),
            ("plan", plan.plan),
        ):
            self.api("Py_IncRef", value)
            self._fill(node, name, value)
        self._fill_made(node, "_meta", self._meta(result, dtype, broken), broken)
        self._fill_made(node, "_sequence", self.api("PyIter_Next", self.object("sequence")), broken)
        self._fill_made(node, "saved", self._saved(plan, result, broken), broken)
        given = self.set(result, "_node", node)
        keys = self.get(result, "_keys")  # those of a view say already that it may have history
        self.require_object(keys, broken)
        self.api("Py_DecRef", keys)
        (counted,) = self.branch(
            self.is_same(keys, self.object("zero")),
            lambda: [self.set(result, "_keys", self.object("one"))],
            lambda: [self.i32(0)],
        )
        with self.when(self.is_true(self.table.is_view)):
            self._follow_base(result, broken)
        self.require(self.compare("==", self.or_(given, counted), 0), broken)
        self.api("Py_DecRef", node)
        good = b.append_basic_block("good")
        b.branch(good)
        b.position_at_end(broken)
        self.api("Py_DecRef", node)
        b.branch(failed)
        b.position_at_end(good)

    def _fill(self, node: Any, name: str, value: Any) -> None:
        """Put an object into an empty slot, which takes it over."""
        place = self.word(self.objects_table(), self.objects.index(f"slot_{name}"))
        self.store(value, self.builder.gep(node, [place], source_etype=self.i8))

    def _fill_made(self, node: Any, name: str, made: Any, failed: Any) -> None:
        """The same of what a function made, if it could."""
        self.require_object(made, failed)
        self._fill(node, name, made)

    def _follow_base(self, view: Any, failed: Any) -> None:
        base = self.get(view, "_base")
        self.require_object(base, failed)
        with self.when(self.not_(self.is_same(base, self.object("none")))):
            node = self.get(base, "_node")
            self.api("Py_DecRef", base)
            self.require_object(node, failed)
            self.set(view, "_seen", node)
            self.api("Py_DecRef", node)
        with self.when(self.is_same(base, self.object("none"))):
            self.api("Py_DecRef", base)

    def _meta(self, result: Any, dtype: Any, failed: Any) -> Any:
        """((shape, dtype, False),)"""
        shape = self._shape(result, failed)
        for value in (dtype, self.object("false")):
            self.api("Py_IncRef", value)
        return self.tuple_of([self.tuple_of([shape, dtype, self.object("false")], failed)], failed)

    def _shape(self, tensor: Any, failed: Any) -> Any:
        """The sizes of a plain tensor as a tuple."""
        array = self.get(tensor, "_array")
        self.require_object(array, failed)
        fields = PyArray.at(self, array)
        rank = self.builder.sext(fields.rank, self.i64)
        shape = self.api("PyTuple_New", rank)
        self.api("Py_DecRef", array)
        self.require_object(shape, failed)
        with self.loop(0, rank) as k:
            size = self.api("PyLong_FromLongLong", self.word(fields.dims, k))
            self.api("PyTuple_SetItem", shape, k, size)
        return shape

    def _saved(self, plan: Any, result: Any, failed: Any) -> Any:
        """What the node saves: a list, or nothing."""
        count = plan.captures

        def nothing() -> list[Any]:
            self.api("Py_IncRef", self.object("empty"))
            return [self.object("empty")]

        def several() -> list[Any]:
            return self.branch(
                self.compare("<", count, 0),
                lambda: [self._ask_values(plan, result, failed)],
                lambda: [self._list(plan, count, result, failed)],
            )

        return self.branch(self.compare("==", count, 0), nothing, several)[0]

    def _ask_values(self, plan: Any, result: Any, failed: Any) -> Any:
        values = self.all_arguments(failed)
        self.api("Py_IncRef", result)
        results = self.tuple_of([result], failed)
        words = self.stack_words(self.i64(3))
        for i, value in enumerate((plan.plan, values, results)):
            self.put_word(value, self.word_address(words, i))
        function = self.object("capture_values")
        saved = self.api("PyObject_Vectorcall", function, words, self.i64(3), self.null)
        self.api("Py_DecRef", values)
        self.api("Py_DecRef", results)
        return saved

    def _list(self, plan: Any, count: Any, result: Any, failed: Any) -> Any:
        saved = self.api("PyList_New", count)
        self.require_object(saved, failed)
        with self.loop(0, count) as i:
            pair = self.word_address(self.table_address, self.add(plan.capture_table, self.mul(i, 2)))
            kind, which = self.word(pair, 0), self.word(pair, 1)
            constant = self.compare("==", kind, int(Saving.CONSTANT))
            place = self.select(constant, self.word_address(pair, 1), self.word_address(self.args, which))
            own = self.compare("==", kind, int(Saving.RESULT))
            value = self.select(own, result, self.load(place, self.pointer))
            self.api("PyList_SetItem", saved, i, self._saved_item(kind, value, failed))
        return saved

    def _saved_item(self, kind: Any, value: Any, failed: Any) -> Any:
        there = self.not_(self.is_same(value, self.object("none")))
        tensor = self.and_(there, self.compare("==", kind, int(Saving.TENSOR)))
        shape = self.and_(there, self.compare("==", kind, int(Saving.SHAPE)))

        spec = self.and_(there, self.compare("==", kind, int(Saving.SPEC)))
        output = self.compare("==", kind, int(Saving.RESULT))

        def by_python() -> list[Any]:
            function = self.select(output, self.object("save_output"), self.object("spec"))
            words = self.local(self.pointer)
            self.store(value, words)
            found = self.api("PyObject_Vectorcall", function, words, self.i64(1), self.null)
            self.require_object(found, failed)
            return [found]

        def rest() -> list[Any]:
            return self.branch(self.or_(spec, output), by_python, lambda: [self._taken(value)])

        def other() -> list[Any]:
            return self.branch(shape, lambda: [self._shape(value, failed)], rest)

        return self.branch(tensor, lambda: [self._with_version(value, failed)], other)[0]

    def _taken(self, value: Any) -> Any:
        self.api("Py_IncRef", value)
        return value

    def _with_version(self, tensor: Any, failed: Any) -> Any:
        """(tensor, version, node)"""
        counter = self.get(tensor, "_versions")
        self.require_object(counter, failed)
        none = self.is_same(counter, self.object("none"))
        (version,) = self.branch(
            none, lambda: [self._taken(self.object("zero"))], lambda: [self.get(counter, "value")]
        )
        self.api("Py_DecRef", counter)
        node = self.get(tensor, "_node")
        self.require_object(node, failed)
        return self.tuple_of([self._taken(tensor), version, node], failed)
