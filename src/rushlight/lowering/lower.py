"""A graph becomes a program of definitions.

In: a functional graph of operators that are pointwise, views, or structural with a lowering rule; anything
else is a call of its eager kernel. Out: a `Program`: the definitions in order, the buffers of inputs and
outputs. Every graph output is
computed into a contiguous buffer of its own, or is an input's buffer as it is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ..core.dtypes import BY_NUMPY, DTYPES, DType
from ..core.index import Index, as_index, dot
from ..core.pointwise import plan_for
from ..core.registry import Kind
from ..core.shapes import Shape, Spec, memory_order, strides_in_order, surely_dense
from ..core.symbols import exact, hint
from ..core.tensor import meta_tensor
from ..core.traits import Trait
from ..graph.ir import Graph, Node, Value, map_values, symbols_of
from ..loops.expr import Expr, NotRecordable, Recorder, loads_in
from ..loops.kernels import Extern
from ..loops.nest import Buffer, MemoryKind
from ..loops.program import Program
from ..loops.rewrite import rename_definition
from .cost import DEEPEST
from .lowered import Indices, Lowered, Lowerer
from .origins import Origins


def lower(graph: Graph, origins: Origins | None = None) -> Program:
    """The definitions that compute the outputs of `graph`; `origins` learns which nodes each is of."""
    return _GraphLowering(graph, origins).run()


class _GraphLowering:
    def __init__(self, graph: Graph, origins: Origins | None) -> None:
        self.graph = graph
        self.origins = origins
        self.low = Lowerer()
        self.values: dict[Value, Lowered] = {}
        self.input_buffers: dict[Value, Buffer] = {}
        self._taken: dict[Buffer, Buffer] = {}  # temporaries that are outputs after all
        users = graph.users()
        self._outputs = outputs = set(graph.outputs)
        self.use_count = {value: len(nodes) + (value in outputs) for value, nodes in users.items()}
        self._users = users
        self._known_casts: dict[tuple[Any, ...], dict[int, list[DType]]] = {}
        self._depths: dict[Value, int] = dict.fromkeys(graph.inputs, 0)  # how many operators make an element

    def run(self) -> Program:
        for value in self.graph.inputs:
            self._lower_input(value)
        for node in self.graph.nodes:
            self._lower_node(node)
        outputs = [self._output(value) for value in self.graph.outputs]
        if self.origins is not None:
            self.origins.close(self.low.definitions)
        recorder = self.low.recorder
        definitions = tuple(rename_definition(recorder, d, self._taken) for d in self.low.definitions)
        return Program(
            recorder,
            definitions,
            self.input_buffers,
            tuple(outputs),
            tuple(self._updates(outputs)),
            symbols=symbols_of(self.graph),
        )

    def _updates(self, outputs: list[Buffer]) -> list[tuple[Buffer, Buffer]]:
        found = []
        for output, given in self.graph.updates.items():
            new, old = self.graph.outputs[output], self.graph.inputs[given]
            alike = (
                new.dtype is old.dtype
                and new.shape == old.shape
                and (new.spec.known_strides() == old.spec.known_strides())
            )
            if alike and old.constant is None and surely_dense(old.shape, old.spec.known_strides()):
                found.append((outputs[output], self.input_buffers[old]))
        counts = Counter(outputs)
        return [pair for pair in found if pair[0].memory is MemoryKind.OUTPUT and counts[pair[0]] == 1]

    def _lower_input(self, value: Value) -> None:
        """Memory as the caller lays it out; the pointer given at run time is that of the first element."""
        memory = MemoryKind.CONSTANT if value.constant is not None else MemoryKind.INPUT
        shape, strides = value.shape, value.spec.known_strides()
        extent = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
        buffer = self.low.fresh_buffer(value.dtype, (extent,), memory, value.name)
        self.input_buffers[value] = buffer
        self.values[value] = self.low.stored(buffer, shape, strides)

    def _output(self, value: Value) -> Buffer:
        lowered = self.values[value]
        taken = lowered.buffer
        wanted = value.spec.known_strides()
        temporary = taken is not None and taken.memory is MemoryKind.TEMPORARY and taken not in self._taken
        if taken is not None and temporary and lowered.strides == wanted:
            self._taken[taken] = replace(taken, memory=MemoryKind.OUTPUT)
            return self._taken[taken]
        buffer = self.low.fresh_buffer(value.dtype, value.shape, MemoryKind.OUTPUT)
        Lowered(self.low, lowered.shape, lowered.dtype, lowered.load, None, wanted).realize(buffer)
        return buffer

    # Nodes.

    def _lower_node(self, node: Node) -> None:
        if self.origins is not None:
            self.origins.begin(node, len(self.low.definitions))
        results = self._results(node)
        for value, lowered in zip(node.outputs, results, strict=True):
            if node.op.kind is not Kind.VIEW:
                lowered = lowered.laid_out(self._layout(value, lowered))
                if lowered.buffer is None and self._multiplied_and_more(value):
                    placed = lowered.placed()
                    if placed is None or placed[1] != value.spec.known_strides():
                        lowered = lowered.realize()  # once for all: products take stored operands
            depth = 1 + max((self._depths[operand] for operand in node.inputs()), default=0)
            if lowered.buffer is None and depth > DEEPEST:
                lowered = lowered.realize()
            if self.origins is not None:
                self.origins.watch(lowered, node)
            lowered = self.values[value] = lowered.shared(self.use_count[value])
            self._depths[value] = depth if lowered.buffer is None else 0
            if (
                node.op.kind is not Kind.VIEW
                and lowered.buffer is not None
                and (lowered.strides != value.spec.known_strides())
            ):
                self.low.permuted.add(lowered.buffer)

    def _layout(self, value: Value, lowered: Lowered) -> Shape:
        """Strides to store a value with: as it says itself, or, inside of a program, as that lies in memory
        which it is computed from, where that lies otherwise than it says (the result of a convolution)."""
        wanted, permuted = value.spec.known_strides(), self.low.permuted
        if lowered.buffer is not None or not permuted or value in self._outputs:
            return wanted
        if self._multiplied_and_more(value):
            return wanted
        variables = self.low.sample_point(value.shape)
        near = Counter(
            d
            for access in loads_in(lowered.example())
            if access.buffer in permuted
            for d, var in enumerate(variables)
            if access.index.stride(var) == 1
        )
        order = memory_order(value.shape, wanted)
        if not near or (last := near.most_common(1)[0][0]) == order[-1]:
            return wanted
        order.remove(last)
        return strides_in_order(value.shape, [*order, last])

    def _multiplied_and_more(self, value: Value) -> bool:
        """Whether a value is an operand of products and used by others as well, views of it included."""
        users = {bool(node.op.traits & Trait.PRODUCT) for node in self._through_views(value)}
        return len(users) == 2

    def _through_views(self, value: Value) -> list[Node]:
        found: list[Node] = []
        for node in self._users.get(value, ()):
            if node.op.kind is Kind.VIEW:
                found.extend(user for output in node.outputs for user in self._through_views(output))
            else:
                found.append(node)
        return found

    def _results(self, node: Node) -> tuple[Lowered, ...]:
        op = node.op
        before, copies = len(self.low.definitions), len(self.low.operands)
        try:
            if op.kind is Kind.POINTWISE:
                return self._pointwise(node)
            if op.kind is Kind.VIEW:
                return tuple(self._view(node, value) for value in node.outputs)
            if callable(op.lowering):
                specs: Any = (
                    tuple(v.spec for v in node.outputs) if node.returns_list else node.outputs[0].spec
                )
                results = op.lowering((*map_values(node.args, self.values.__getitem__), self.low, specs))
                results = results if isinstance(results, tuple) else (results,)
                for result in results:
                    self.low.check(result.example())
                return results
        except NotRecordable:
            del self.low.definitions[before:]  # what a rule defined before it gave up
            for key in list(self.low.operands)[copies:]:
                del self.low.operands[key]
        return self._extern(node)

    def _extern(self, node: Node) -> tuple[Lowered, ...]:
        """Call the operator's eager kernel on whole buffers."""
        inputs = [self.values[value].realize() for value in node.inputs()]
        if node.op.traits & Trait.COLLECTIVE and node.op.schema.name != "wait_tensor":
            inputs = [x.contiguous() for x in inputs]  # MPI sends memory as it lies
        outputs = [self.low.fresh_buffer(value.dtype, value.shape) for value in node.outputs]
        self.low.definitions.append(
            Extern(
                f"call{len(self.low.definitions)}",
                node,
                tuple(x.buffer for x in inputs if x.buffer is not None),
                tuple(outputs),
                tuple((x.shape, x.strides) for x in inputs),
            )
        )
        return tuple(
            self.low.stored(buffer, value.shape) for buffer, value in zip(outputs, node.outputs, strict=True)
        )

    # Pointwise: the scalar body, recorded.

    def _pointwise(self, node: Node) -> tuple[Lowered, ...]:
        op = node.op
        if 0 in node.outputs[0].shape:  # nothing is computed, so that nothing can be wrong with it
            return tuple(self.low.full(value.shape, 0, value.dtype) for value in node.outputs)
        casts = self._casts(node)
        shape = node.outputs[0].shape
        operands = {
            i: self.values[node.args[i]].expand(shape) for i in op.operands if isinstance(node.args[i], Value)
        }
        result_dtypes = [value.dtype for value in node.outputs]

        def elements(index: Indices) -> tuple[Expr, ...]:
            ops = self.low.recorder
            full = list(node.args)
            for i in op.operands:
                known = operands.get(i)
                full[i] = operand(ops, None if known is None else known.load(index), node.args[i], casts[i])
            result = op.body(ops, *full)  # type: ignore[misc]
            results = result if isinstance(result, tuple) else (result,)
            return tuple(ops.cast(r, dtype) for r, dtype in zip(results, result_dtypes, strict=True))

        # raises NotRecordable before anything depends on it
        point = tuple(as_index(v) for v in self.low.sample_point(shape))
        here = elements(point)
        for element in here:
            self.low.check(element)
        results = tuple(
            self.low.generated(shape, value.dtype, _component(elements, i))
            for i, value in enumerate(node.outputs)
        )
        for result, element in zip(results, here, strict=True):
            result.know(point, element)
        return results

    def _casts(self, node: Node) -> dict[int, list[DType]]:
        """As `casts_of`, worked out once for operands of one kind."""
        op = node.op
        operands = [node.args[i] for i in op.operands]
        kinds = [(a.dtype, a.number, not a.shape) if isinstance(a, Value) else type(a) for a in operands]
        key = (op, *kinds)
        found = self._known_casts.get(key)
        if found is None or op.promote_by is not None:  # which looks at other arguments as well
            found = self._known_casts[key] = casts_of(node)
        return found

    # Views: index arithmetic between the virtual layouts of the view and of its root.

    def _view(self, node: Node, value: Value) -> Lowered:
        root = _root(value)
        if root in self.input_buffers and value.dtype is root.dtype:
            buffer, spec = self.input_buffers[root], value.spec
            result = self.low.stored(
                buffer, value.shape, spec.known_strides(), spec.offset - root.spec.offset
            )
        else:
            result = self._view_of_root(root, value)
        result = _with_lazy_bits(result, value)
        self.low.check(result.example())
        return result

    def _view_of_root(self, root: Value, value: Value) -> Lowered:
        source = self.values[root]
        if _repeats(value.spec):
            source = source.cheap()
        strides, offset = value.spec.known_strides(), value.spec.offset
        if value.dtype is root.dtype:
            return source.reindex(value.shape, lambda index: _unravel(root.spec, dot(index, strides, offset)))
        return self._bits_as(value, self._memory_of(root, source))

    def _memory_of(self, root: Value, source: Lowered) -> Callable[[Index], Expr]:
        """What lies at a position of the storage of `root`; the storage of an input may have gaps."""
        buffer = self.input_buffers.get(root)
        if buffer is None:
            return lambda position: source.load(_unravel(root.spec, position))
        ops, first = self.low.recorder, root.spec.offset
        return lambda position: ops.load_at(buffer, position - first, buffer.dtype)

    def _bits_as(self, value: Value, at: Callable[[Index], Expr]) -> Lowered:
        """The memory of the root as another dtype: its bits, a part of them, or those of several elements."""
        strides, offset = value.spec.known_strides(), value.spec.offset
        ops, dtype = self.low.recorder, value.dtype

        def element(index: Indices) -> Expr:
            position = dot(index, strides, offset)
            inside = _root(value).dtype.itemsize // dtype.itemsize
            if inside > 1:
                return _part_of(ops, at(position // inside), position % inside, dtype)
            across = dtype.itemsize // _root(value).dtype.itemsize
            parts = tuple(at(position * across + i) for i in range(across))
            if dtype.is_complex and parts[0].dtype is dtype.to_real():
                return ops.complex(*parts)
            return ops.make("bits_join" if across > 1 else "bitcast", parts, dtype)

        return self.low.generated(value.shape, dtype, element)


INT64 = DTYPES["int64"]


def _part_of(ops: Recorder, whole: Expr, part: Index, dtype: DType) -> Expr:
    """Part number `part` of an element's bits; of a complex number, one of its parts."""
    if not (whole.dtype.is_complex and dtype is whole.dtype.to_real()):
        return ops.make("bits_part", (whole, ops.index(part, INT64)), dtype)
    if part.constant_value() is not None:
        return ops.imag(whole) if part == 1 else ops.real(whole)
    odd = ops.eq(ops.index(part, INT64), ops.number(1, INT64))
    return ops.where(odd, ops.imag(whole), ops.real(whole))


def _component(elements: Callable[[Indices], tuple[Expr, ...]], i: int) -> Callable[[Indices], Expr]:
    return lambda index: elements(index)[i]


def _stand_in(value: Value) -> Any:
    """What promotion sees of a value: a tensor without data, or a Python number."""
    return meta_tensor(_described(value.spec)) if value.number is None else value.number(1)


def _described(spec: Spec) -> Spec:
    return Spec(spec.known_shape(), spec.dtype)


def casts_of(node: Node) -> dict[int, list[DType]]:
    """For each operand of a pointwise operator the dtypes it is converted to, one after the other."""
    described = map_values(node.args, _stand_in)
    plan = plan_for(node.op, described, [described[i] for i in node.op.operands])
    return {i: [BY_NUMPY[d] for d in cast] for i, cast in zip(node.op.operands, plan.casts, strict=True)}


def operand(ops: Recorder, expr: Expr | None, argument: Any, casts: list[DType]) -> Any:
    """One operand of a body: an element or a number, converted step by step to the compute dtype."""
    if expr is not None:
        pass
    elif argument is None:
        return None
    else:
        expr, casts = ops.number(argument, casts[0]), casts[1:]
    for dtype in casts:
        expr = ops.cast(expr, dtype)
    return expr


def _root(value: Value) -> Value:
    """The value whose storage `value` is a view of."""
    while value.node is not None and value.node.op.kind is Kind.VIEW:
        value = value.node.args[0]
    return value


def _unravel(spec: Spec, position: Index) -> list[Index]:
    """The index of the element at `position` of a dense storage laid out as `spec`."""
    shape, strides = spec.known_shape(), spec.known_strides()
    return [
        position // stride % size if size > 1 else as_index(0)
        for size, stride in zip(shape, strides, strict=True)
    ]


def _repeats(spec: Spec) -> bool:
    shape, strides = spec.known_shape(), exact(spec.known_strides())
    return any(stride == 0 and hint(size) > 1 for size, stride in zip(shape, strides, strict=True))


def _with_lazy_bits(result: Lowered, value: Value) -> Lowered:
    """Conjugated or negated, where the view's bits say so."""
    if value.spec.conj and result.dtype.is_complex:
        result = result.map(lambda ops, x: ops.conj(x), result.dtype)
    if value.spec.neg:
        result = result.map(lambda ops, x: ops.neg(x), result.dtype)
    return result
