"""Scalar expressions: what one element of a kernel computes, recorded from an operator's body.

`Recorder` is a handler like the NumPy one: running a pointwise body with it gives an `Expr` in place of an
array. Expressions are immutable and shared: equal ones made by one recorder are the same object, so common
subexpressions are computed once.
Every expression has a dtype, the one its value has in registers; memory may hold another (see `Load`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..core.dtypes import DTYPES, DType
from ..core.errors import InternalError
from ..core.index import Index, Indirect, as_index
from ..core.powers import power_by_number
from ..core.symbols import SymInt
from .instructions import CHECKS, COSTS, INSTRUCTIONS, Instruction, ResultType, Role, unknown_instruction

BOOL, INT64 = DTYPES["bool"], DTYPES["int64"]


class Expr:
    """One scalar value, made by `Recorder.make` alone: equal ones of one recorder are one object.

    `op` names an instruction; leaves are "constant", "load", "index", "reduced" and "scalar".
    """

    __slots__ = ("_buffers", "_checks", "_cost", "_loads", "_parts", "args", "data", "dtype", "op")

    def __init__(self, op: str, args: tuple[Expr, ...], dtype: DType, data: Any = None) -> None:
        # see `walk`, `loads_in`, `buffers_in`, `cost` and `has_check`
        self._parts: tuple[Expr, ...] | None = None
        self._loads: tuple[Access, ...] | None = None
        self._buffers: tuple[Any, ...] | None = None
        self._cost: int | None = None
        self._checks: bool | None = None
        self.op = op
        self.args = args
        self.dtype = dtype
        self.data = data

    @property
    def ndim(self) -> int:  # bodies written for arrays may look at it
        return 0

    def __str__(self) -> str:
        return spelled(self)

    __repr__ = __str__


@dataclass(frozen=True, repr=False)
class IndexCheck:
    """What becomes of an index from memory that is out of range: `error` is raised in the name of `place`.

    Negative indices count from the end, or are out of range themselves.
    """

    place: str
    error: type[Exception] = IndexError
    negative: bool = True
    message: str = "index out of range"

    def __repr__(self) -> str:
        return self.place


class Access:
    """An element of a buffer: where in it, with the expressions behind indirect parts of the index."""

    __slots__ = ("_hash", "buffer", "index", "indirect")

    def __init__(self, buffer: Any, index: Index, indirect: tuple[tuple[Indirect, Expr], ...] = ()) -> None:
        self.buffer = buffer
        self.index = index
        self.indirect = indirect
        self._hash = hash((buffer, index, indirect))

    def __eq__(self, other: object) -> bool:
        return self is other or (
            isinstance(other, Access)
            and self._hash == other._hash
            and self.buffer is other.buffer
            and self.index == other.index
            and self.indirect == other.indirect
        )

    def __hash__(self) -> int:
        return self._hash

    def __str__(self) -> str:
        return f"{self.buffer}[{self.index}]"


@dataclass(frozen=True)
class Loop:
    """What a step of an `iterate` computes: new values of the state from `parameters`, which stand for the
    number of the step, the state and what the step takes from outside."""

    parameters: tuple[Expr, ...]
    bodies: tuple[Expr, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.parameters))}) -> ({', '.join(map(str, self.bodies))})"


class Recorder:
    """The handler that records.

    Every instruction of loops/instructions.py that bodies may use is a method; any other name raises.
    """

    def __init__(self) -> None:
        self._shared: dict[tuple[Any, ...], Expr] = {}
        self._indirect: dict[Indirect, Expr] = {}
        self._depth = 0  # of the loops that are being recorded

    def make(self, op: str, args: tuple[Expr, ...], dtype: DType, data: Any = None) -> Expr:
        """The expression, or the equal one made before."""
        key = (op, args, dtype, data)
        found = self._shared.get(key)
        if found is None:
            found = self._shared[key] = Expr(op, args, dtype, data)
        return found

    # Leaves.

    def constant(self, value: Any, like: Expr) -> Expr:
        return self.number(value, like.dtype)

    def number(self, value: Any, dtype: DType) -> Expr:
        """A constant; 0.0 and -0.0, and NaNs, are kept apart by their text. A size that changes is an index."""
        if type(value) is SymInt:
            return self.cast(self.index(value.index, INT64), dtype)
        return self.make("constant", (), dtype, (repr(value), value))

    def load(self, access: Access, dtype: DType) -> Expr:
        return self.make("load", (), dtype, access)

    def index(self, index: Index, dtype: DType) -> Expr:
        """An index as a value."""
        plain: dict[Any, int] = {}
        total: Expr | None = None
        for monomial, coefficient in index.ordered():
            loaded = [atom for atom in monomial if isinstance(atom, Indirect)]
            rest = Index({tuple(a for a in monomial if a not in loaded): coefficient})
            if self.indirect_in(rest):
                raise NotRecordable("an index loaded from memory inside of a division, as a value")
            if not loaded:
                plain[monomial] = coefficient
                continue
            term = self.make("index", (), dtype, rest)
            for atom in loaded:
                term = self.mul(term, self.cast(self._indirect[atom], dtype))
            total = term if total is None else self.add(total, term)
        if total is None:
            return self.make("index", (), dtype, index)
        return self.add(total, self.make("index", (), dtype, Index(plain))) if plain else total

    def indirect(self, value: Expr, extent: int, check: IndexCheck | None) -> Index:
        """An index that is the value of an expression, checked at run time.

        Without `check` the expression itself sees to it that the value is in 0..extent-1.
        """
        source = self.cast(value, INT64)
        if check is not None:
            source = self.make("checked_index", (source,), INT64, (extent, check))
        atom = Indirect(f"x{len(self._indirect)}", extent)
        found = next((a for a, e in self._indirect.items() if e is source and a.extent == extent), atom)
        self._indirect[found] = source
        return as_index(found)

    def indirect_in(self, index: Index) -> tuple[tuple[Indirect, Expr], ...]:
        """The loaded indices in `index`, with their expressions."""
        loaded = [atom for atom in index.atoms() if type(atom) is Indirect] if self._indirect else ()
        return tuple([(atom, self._indirect[atom]) for atom in sorted(loaded, key=str)])

    def keep_checks(self, value: Expr, places: Sequence[Index]) -> Expr:
        """`value`, which is what there is at `places`, with the checks of those on which it does not depend:
        all rows of an expanded tensor are one, but there are only so many."""
        for place in places:
            for _, source in self.indirect_in(place):
                if source.op == "checked_index" and source not in walk(value):
                    extent, check = source.data
                    inside = self.lt(source, self.number(extent, INT64))
                    value = self.checked(value, inside, check.message)
        return value

    def load_at(self, buffer: Any, index: Index, dtype: DType) -> Expr:
        """An element of a buffer, whose index may have loaded parts."""
        return self.load(Access(buffer, index, self.indirect_in(index)), dtype)

    # Types.

    def cast(self, x: Expr, dtype: DType) -> Expr:
        if x.dtype is dtype:
            return x
        if x.op == "cast" and x.args[0].dtype is dtype and (dtype.name, x.dtype.name) == ("int32", "int64"):
            return x.args[0]
        return self.make("cast", (x,), dtype)

    def dtype(self, x: Expr) -> DType:
        return x.dtype

    def bitcast(self, x: Expr, dtype: DType) -> Expr:
        """The same bits as another dtype of the same size."""
        return x if x.dtype is dtype else self.make("bitcast", (x,), dtype)

    def checked(self, x: Expr, allowed: Expr, message: str) -> Expr:
        """`x`; where `allowed` is false, a RuntimeError with that message is reported at run time."""
        return self.make("checked", (x, allowed), x.dtype, message)

    # Instructions with several results.

    def frexp(self, x: Expr) -> tuple[Expr, Expr]:
        return self.make("frexp_mantissa", (x,), x.dtype), self.make("frexp_exponent", (x,), DTYPES["int32"])

    def iterate(
        self, count: Any, state: tuple[Any, ...], step: Callable[..., tuple[Any, ...]]
    ) -> tuple[Any, ...]:
        """A loop whose number of steps is a value; a small constant number is unrolled."""
        if count.op == "constant" and int(count.data[1]) <= MOST_UNROLLED:
            for k in range(int(count.data[1])):
                state = step(self.number(k, state[0].dtype), *state)
            return state
        dtypes = [state[0].dtype, *[s.dtype for s in state]]
        parameters = [self._parameter(i, dtype) for i, dtype in enumerate(dtypes)]
        self._depth += 1
        try:
            bodies = step(*parameters)
        finally:
            self._depth -= 1
        bodies, captured = self._closed(bodies, parameters)
        parameters += [self._parameter(len(dtypes) + i, c.dtype) for i, c in enumerate(captured)]
        loop = Loop(tuple(parameters), bodies)
        operands = (count, *state, *captured)
        return tuple(self.make("iterate", operands, s.dtype, (loop, i)) for i, s in enumerate(state))

    def _parameter(self, number: int, dtype: DType) -> Expr:
        """What stands for a value inside of a loop; loops inside of loops have parameters of their own."""
        return self.make("parameter", (), dtype, (self._depth, number))

    def _closed(
        self, bodies: Sequence[Expr], parameters: Sequence[Expr]
    ) -> tuple[tuple[Expr, ...], list[Expr]]:
        """Bodies in which parameters stand for all that does not change in the loop, and what that is."""
        varying = set(parameters)
        for body in bodies:
            varying.update(node for node in walk(body) if any(a in varying for a in node.args))
        captured: dict[Expr, Expr] = {}
        done: dict[Expr, Expr] = {}

        def closed(node: Expr) -> Expr:
            if node in parameters or node.op == "constant":
                return node
            if node not in varying:
                if node not in captured:
                    captured[node] = self._parameter(len(parameters) + len(captured), node.dtype)
                return captured[node]
            return done[node]

        for body in bodies:
            for node in walk(body):
                if node in varying and node not in done and node.args:
                    done[node] = self.make(
                        node.op, tuple(closed(a) for a in node.args), node.dtype, node.data
                    )
        return tuple(closed(body) for body in bodies), list(captured)

    def div(self, x: Expr, y: Expr) -> Expr:
        """1 / (1 + e**-x) is an instruction of its own, quicker and more precise than its parts."""
        if _is_one(x) and y.op == "add" and _is_one(y.args[0]) and not x.dtype.is_complex:
            power = y.args[1]
            if power.op in ("exp", "exp_nonpositive") and power.args[0].op == "neg":
                return self.make("sigmoid", power.args[0].args, x.dtype)
        return self.make("div", (x, y), x.dtype)

    def exp(self, x: Expr) -> Expr:
        return self.make("exp_nonpositive" if _is_nonpositive(x) else "exp", (x,), x.dtype)

    def pow(self, x: Expr, y: Expr) -> Expr:
        exponent = y.args[0] if y.op == "cast" else y
        if exponent.op == "constant" and (not x.dtype.is_complex or exponent.data[1] == 2):
            floating = x.dtype.is_floating_point
            found: Expr | None = power_by_number(self, x, exponent.data[1], floating=floating)
            if found is not None:
                return found
        return self.make("pow", (x, y), x.dtype)

    # Integer division: a divisor of 0 is reported at run time, as eager code raises.

    def floor_div(self, x: Expr, y: Expr) -> Expr:
        return self._divided("floor_div", x, y)

    def trunc_div(self, x: Expr, y: Expr) -> Expr:
        return self._divided("trunc_div", x, y)

    def remainder(self, x: Expr, y: Expr) -> Expr:
        return self._divided("remainder", x, y)

    def fmod(self, x: Expr, y: Expr) -> Expr:
        return self._divided("fmod", x, y)

    def _divided(self, op: str, x: Expr, y: Expr) -> Expr:
        if not x.dtype.is_floating_point and not (y.op == "constant" and y.data[1]):
            y = self.make("checked_divisor", (y,), y.dtype)
        return self.make(op, (x, y), x.dtype)

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        """Reached only by names that are no methods: see `_method`."""
        raise AttributeError(name if name.startswith("_") else unknown_instruction(name))


def _method(row: Instruction) -> Callable[..., Expr]:
    """The method of the recorder that records an instruction."""
    same = row.result is ResultType.SAME

    def instruction(self: Recorder, *args: Expr) -> Expr:
        if len(args) != row.arity or set(map(type, args)) != {Expr}:
            raise InternalError(f"instruction {row.name} takes {row.arity} values, not {args}")
        return self.make(row.name, args, args[0].dtype if same else result_dtype(row, args))

    return instruction


def result_dtype(row: Instruction, args: tuple[Expr, ...]) -> DType:
    """The dtype of what an instruction gives for operands."""
    if row.result is ResultType.BOOL:
        return BOOL
    if row.result is ResultType.SECOND:
        return args[1].dtype
    dtype = args[0].dtype
    if row.result is ResultType.REAL:
        return dtype.to_real() if dtype.is_complex else dtype
    if row.result is ResultType.COMPLEX:
        return dtype.to_complex()
    if row.result is ResultType.GIVEN:
        raise InternalError(f"the dtype of {row.name} is said when it is made")
    return DTYPES["int32"] if row.result is ResultType.INT32 else dtype


for _row in INSTRUCTIONS.values():
    if _row.role is Role.BODY and _row.name not in vars(Recorder):
        setattr(Recorder, _row.name, _method(_row))


MOST_UNROLLED = 8  # steps of a loop


def _is_one(x: Expr) -> bool:
    return x.op == "constant" and bool(x.data[1] == 1)


def _is_nonpositive(x: Expr) -> bool:
    """Whether it is surely no number above 0: a square, times a number below it."""
    if not x.dtype.is_floating_point:
        return False
    if x.op == "neg":
        return _is_square(x.args[0])
    return x.op == "mul" and any(
        a.op == "constant" and a.data[1] <= 0 and _is_square(b) for a, b in (x.args, x.args[::-1])
    )


def _is_square(x: Expr) -> bool:
    return x.op == "mul" and x.args[0] == x.args[1]


class NotRecordable(Exception):
    """The body does something that has no scalar code; the operator runs as a library call instead."""


def walk(expr: Expr) -> Sequence[Expr]:
    """`expr` and everything it is made of, operands first, each once; indices loaded from memory included.

    Worked out once: expressions do not change.
    """
    if expr._parts is None:
        if not expr.args and not (expr.op == "load" and expr.data.indirect):
            expr._parts = (expr,)
        else:
            expr._parts = tuple(_walk(expr))
    return expr._parts


def _walk(expr: Expr) -> list[Expr]:
    seen: dict[Expr, None] = {}
    stack = [expr]
    while stack:
        node = stack[-1]
        if node._parts is not None:
            seen.update(dict.fromkeys(node._parts))
        left = [operand for operand in operands_of(node) if operand not in seen]
        if left and node not in seen:
            stack.extend(left[::-1])
        else:
            seen[node] = None
            stack.pop()
    return list(seen)


def spelled(expr: Expr) -> str:
    """The text of an expression; parts that are used often and are not short are written once, as t0, ..."""
    nodes = list(walk(expr))
    uses = Counter(operand for node in nodes for operand in operands_of(node))
    texts: dict[Expr, str] = {}
    names: list[str] = []
    for node in nodes:
        texts[node] = _spelled_node(node, texts)
        if uses[node] > 1 and len(texts[node]) > LONG_TEXT:
            names.append(f"t{len(names)} = {texts[node]}")
            texts[node] = f"t{len(names) - 1}"
    return "; ".join([*names, texts[expr]])


LONG_TEXT = 60  # characters


def operands_of(node: Expr) -> Sequence[Expr]:
    """What an instruction takes; indices loaded from memory included."""
    return [e for _, e in node.data.indirect] if node.op == "load" else node.args


def _spelled_node(node: Expr, texts: Mapping[Expr, str]) -> str:
    if node.op == "constant":
        return f"{node.data[1]}:{node.dtype.name}"
    if node.op == "load":
        where = ", ".join(f"{atom} = {texts[e]}" for atom, e in node.data.indirect)
        return f"{node.data} where {where}" if where else str(node.data)
    if node.op in ("index", "reduced", "running", "scalar"):
        return f"{node.op}({node.data})"
    extra = f", {node.data}" if node.data is not None else ""
    return f"{node.op}({', '.join(texts[a] for a in node.args)}{extra})"


def loads_in(expr: Expr) -> Sequence[Access]:
    """The memory that `expr` reads."""
    if expr._loads is None:
        expr._loads = tuple([node.data for node in walk(expr) if node.op == "load"])
    return expr._loads


def buffers_in(expr: Expr) -> tuple[Any, ...]:
    """The buffers that `expr` reads, each once."""
    if expr._buffers is None:
        expr._buffers = tuple(dict.fromkeys([access.buffer for access in loads_in(expr)]))
    return expr._buffers


def cost(expr: Expr) -> int:
    """How many instructions it takes, transcendental ones counting as several."""
    if expr._cost is None:
        expr._cost = sum(
            COSTS[node.op] for node in walk(expr) if node.op not in ("load", "constant", "index")
        )
    return expr._cost


def has_check(expr: Expr) -> bool:
    """Whether it may find an error in the data."""
    if expr._checks is None:
        expr._checks = any(node.op in CHECKS for node in walk(expr))
    return expr._checks


def substitute(recorder: Recorder, expr: Expr, replace: Callable[[Expr], Expr | None]) -> Expr:
    """`expr` rebuilt bottom-up; where `replace` gives an expression, that one is used instead."""
    done: dict[Expr, Expr] = {}
    for node in walk(expr):
        rebuilt = node
        if node.args:
            args = tuple([done[a] for a in node.args])
            if args != node.args:
                rebuilt = recorder.make(node.op, args, node.dtype, node.data)
        elif node.op == "load" and node.data.indirect:
            indirect = tuple((atom, done[e]) for atom, e in node.data.indirect)
            rebuilt = recorder.load(Access(node.data.buffer, node.data.index, indirect), node.dtype)
        other = replace(rebuilt)
        done[node] = rebuilt if other is None else other
    return done[expr]


def reindex(recorder: Recorder, expr: Expr, values: Mapping[Any, Any]) -> Expr:
    """`expr` with loop variables replaced in every index."""

    def moved(node: Expr) -> Expr | None:
        if node.op == "load":
            access = node.data
            return recorder.load(
                Access(access.buffer, access.index.substitute(values), access.indirect), node.dtype
            )
        if node.op == "index":
            return recorder.index(node.data.substitute(values), node.dtype)
        return None

    return substitute(recorder, expr, moved)
