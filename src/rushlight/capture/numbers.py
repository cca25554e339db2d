"""Python numbers that stay live: inputs of the graph, not constants of it.

A float or int argument of a compiled function, and whatever `live_number` reads, becomes a `LiveNumber` while
the function is captured: it computes like the number it stands for, and remembers how it was computed.
- As an operand of a tensor operator it becomes a 0-d graph input with a Python number's weak dtype (`x * lr`
  stays float32). The caller computes it anew, in Python, before every run.
- A comparison gives a plain bool and a guard on the outcome: `if lr > 0` compiles once for each sign, not for
  each value.
- `math.sqrt` and its kin compute with it (capture/hooks.py); `math.floor`, `math.ceil` and `round` make a size of
  what is computed of sizes.
- Anything that needs the value itself (a shape, a dimension, `int`, formatting) gets it, with a guard on it: for
  another value there is another specialization.

`Numbers` keeps the roots, guards and used numbers of one capture; `finish` turns them into two functions of
the roots' present values: `holds` and `evaluate`.

For code that keeps numbers elsewhere (an optimizer's hyperparameters):

    lr = live_number(lambda: group["lr"])

is `group["lr"]` outside of a capture, and inside one a number that compiled code reads before each call.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ..core.atoms import INFINITY, Atom, Dim
from ..core.data_sizes import is_data
from ..core.dispatch import AMBIENT
from ..core.dtypes import DTYPES
from ..core.index import Index, as_index
from ..core.shapes import Spec
from ..core.symbol_table import DERIVED, LARGEST, DerivedSize
from ..core.symbols import Symbols, SymInt, install_live_numbers, spelled, symbols_in
from ..graph.ir import Graph, Value, changing_sizes
from .live_inputs import SCOPE, LiveInputs, roots_in
from .locations import MISSING, Place

_DTYPES = {float: DTYPES["float64"], int: DTYPES["int64"]}


def live_number(read: Callable[[], Any]) -> Any:
    """`read()`, as a number that stays live in compiled code.

    Anything but a float or int is taken as it is; compiled code then guards on it.
    """
    trace = AMBIENT.trace
    numbers = None if trace is None else getattr(trace, "numbers", None)
    return read() if numbers is None else numbers.reader(read)


def live_places(places: Sequence[Place]) -> None:
    """Compiled code looks before each call whether these places hold what they do now."""
    numbers = getattr(AMBIENT.trace, "numbers", None)
    if numbers is not None:
        numbers.places.extend(places)


@contextmanager
def live_state(name: str, *containers: dict[Any, Any]) -> Iterator[None]:
    """Inside, the program changes the numbers in these dictionaries by arithmetic, and every run of compiled
    code does so again. A program that needs one of them as a value, of which there is another in every call,
    has no graph.
    """
    trace = AMBIENT.trace
    numbers: Numbers | None = None if trace is None else getattr(trace, "numbers", None)
    if numbers is None or not numbers.open:
        yield
        return
    for container in containers:
        numbers.keep_live(container)
    before = numbers.specialised
    yield
    numbers.keep_constants()
    if numbers.specialised != before and numbers.open:
        AMBIENT.trace.refuse(f"{name} depends on a number that is another one in every call")


def cos(number: Any) -> Any:
    """The cosine of a number, live if that is."""
    return _computed("math.cos({})", math.cos, number) if type(number) is LiveNumber else math.cos(number)


def floor(number: Any) -> Any:
    """The largest integer that is not above a number, live if that is."""
    return (
        _computed("math.floor({})", math.floor, number) if type(number) is LiveNumber else math.floor(number)
    )


def _not_captured(compute: Callable[..., Any], operands: Sequence[Any]) -> None:
    """What no open capture makes of numbers that are data."""


class Numbers:
    """The live numbers of one capture."""

    def __init__(self) -> None:
        self.roots: list[Callable[[list[Any]], Any]] = []  # each gets the leaves of the arguments
        self.names: list[str] = []  # of the roots, in words
        self.guards: dict[tuple[str, str], Any] = {}  # (expression, expected value as text): that value
        self.used: dict[tuple[str, type], int] = {}  # (expression, kind): its place in the input of its kind
        self.values: dict[tuple[str, type], Any] = {}  # what they are in this capture
        self.inputs: dict[type, Value] = {}
        self.open = True
        self.containers: list[Any] = []  # what readers look into: numbers there need no other guard
        self.places: list[Place] = []  # of Python's, that must hold what they do
        self.specialised = 0  # how many guards on values there were
        # dictionaries whose numbers are live: what they held, and what stands for it
        self.states: list[tuple[dict[Any, Any], dict[Any, Any], dict[Any, Any]]] = []
        # single numbers that the program assigns to: where they are, what they were, and what stands for them
        self.counters: list[tuple[dict[Any, Any], Any, Any, Any]] = []
        self.symbols = Symbols()
        self.symbols.numbers = self
        self.sizes: dict[Dim, int] = {}  # symbols, and which root each is
        self._whole: dict[str, SymInt] = {}  # by expression, sizes that Python computes
        self._places: dict[Dim, tuple[Callable[[list[Any]], Any], str]] = {}  # that no root reads yet
        # a number of Python's that is computed of sizes that are data, if there is a form for it
        self.of_data: Callable[[Callable[..., Any], Sequence[Any]], Any] = _not_captured
        self.must_change: dict[str, Any] = {}  # sizes that no guard may make one number, by name

    def close(self) -> None:
        """Let go of the capture, which symbols outlive."""
        self.of_data = _not_captured
        self.symbols.places = {}

    def place(self, hint: int, read: Callable[[list[Any]], Any], name: str, low: Any = 0) -> SymInt:
        """A number that says where an argument lies in its storage: no size of the program unless it is used."""
        place = self.symbols.new_place(hint, low)
        (dim,) = place.index.atoms()
        self._places[dim] = read, name
        return place

    def use_places(self, index: Index) -> None:
        """Compiled code needs an expression: places in it are sizes as any others."""
        for dim in self._places.keys() & index.atoms():
            self.symbols.hints[dim] = self.symbols.places[dim]
            self.sizes[dim] = len(self.roots)
            read, name = self._places.pop(dim)
            self.roots.append(read)
            self.names.append(name)

    def use_places_in(self, graph: Graph, specs: Iterable[Spec | None]) -> None:
        """The same of what nodes and specs of results mention."""
        if not self._places:
            return
        mentioned: list[Any] = list(changing_sizes(graph))
        for spec in specs:
            if spec is not None:
                mentioned += [spec.shape, spec.strides, spec.offset]
        for dim in symbols_in(mentioned):
            self.use_places(as_index(dim))

    def size(self, hint: int, read: Callable[[list[Any]], Any], name: str, low: Any = 2) -> SymInt:
        """A size that may be another one in every call; `read` finds it in the leaves of the arguments."""
        size = self.symbols.new(hint, low)
        (dim,) = size.index.atoms()
        assert isinstance(dim, Dim)
        self.sizes[dim] = len(self.roots)
        self.roots.append(read)
        self.names.append(name)
        return size

    def data_size(
        self,
        what: str,
        hint: int,
        low: Any = 0,
        high: Any = LARGEST,
        read: Callable[[list[Any]], Any] = lambda leaves: None,
    ) -> SymInt:
        """A size that is data: nothing reads it before a run, which finds it; or it is taken to be so."""
        size = self.symbols.new_data(what, hint, low, high)
        (dim,) = size.index.atoms()
        self.sizes[dim] = len(self.roots)
        self.roots.append(read)
        self.names.append(what)
        return size

    def derived_size(self, made: DerivedSize, hint: int, low: Any, high: Any) -> SymInt:
        """A size that follows from others."""
        what = f"{made.kind} of {' and '.join(map(str, made.operands))}"
        if any(map(self.symbols.is_data, made.operands)):
            size = self.data_size(what, hint, low, high)
            (dim,) = symbols_in(size)
            self.symbols.derived[dim] = made
            return size
        for operand in made.operands:
            self.use_places(operand)
        dims = {dim: root for dim, root in self.sizes.items() if any(dim in o.atoms() for o in made.operands)}

        def read(leaves: list[Any]) -> int:
            values: dict[Atom, int] = {dim: self.roots[root](leaves) for dim, root in dims.items()}
            return DERIVED[made.kind](*[index.evaluate(values) for index in made.operands])

        return self.size(hint, read, what, low)

    def whole(self, number: LiveNumber) -> Any:
        """A live int as a size, if it is computed of sizes; the number itself otherwise, with a guard."""
        text = number.expression
        roots = roots_in(text)
        if not self.open or roots.isdisjoint(self.sizes.values()):
            return number.specialise()
        if text not in self._whole:
            compute = formula(number)
            self._whole[text] = self.size(
                number.value,
                lambda leaves: compute({i: self.roots[i](leaves) for i in roots}),
                re.sub(r"v\[(\d+)\]", lambda found: self.names[int(found[1])], text),
                -INFINITY,
            )
        return self._whole[text]

    def spelled(self, index: Index) -> str:
        """An expression of sizes as one of the roots."""
        self.use_places(index)
        return spelled(index, lambda dim: f"v[{self.sizes[dim]}]")

    def argument(self, index: int, value: Any) -> Any:
        """The number that is leaf `index` of the arguments."""
        self.roots.append(operator.itemgetter(index))
        self.names.append(f"argument {index}")
        return LiveNumber(self, value, f"v[{len(self.roots) - 1}]")

    def reader(self, read: Callable[[], Any]) -> Any:
        value = read()
        if type(value) is LiveNumber:
            return value
        self.containers.extend(_contents(read))
        self.roots.append(lambda leaves: read())
        self.names.append(f"read {len(self.roots)}")
        name = f"v[{len(self.roots) - 1}]"
        if type(value) is float or type(value) is int:
            return LiveNumber(self, value, name)
        self.guard(name, value)
        return value

    def guard(self, expression: str, value: Any) -> None:
        if self.open:
            self.specialised += type(value) in (int, float)
            self.guards[expression, f"{type(value).__name__} {value!r}"] = value

    def keep_live(self, container: dict[Any, Any]) -> None:
        """Put live numbers in place of those in a dictionary that the program changes."""
        if any(known is container for known, _, _ in self.states):
            return
        held = dict(container)
        for key, value in held.items():
            if type(value) in (int, float):
                container[key] = self.reader(functools.partial(operator.getitem, container, key))
        self.states.append((container, held, dict(container)))
        self.containers.append(container)

    def count(self, container: dict[Any, Any], key: Any) -> None:
        """Put a live number in place of one that the program assigns to, as in `self.calls += 1`: every run
        reads it and puts the new one there."""
        held = container[key]
        live = self.reader(functools.partial(operator.getitem, container, key))
        self.counters.append((container, key, held, live))
        container[key] = live

    def counted(self) -> Iterator[tuple[dict[Any, Any], Any, Any]]:
        """The new numbers: (where, key, value); MISSING for what is gone."""
        for container, key, _, live in self.counters:
            value = container.get(key, MISSING)
            if value is not live:
                yield container, key, value

    def keep_constants(self) -> None:
        """Numbers that the program put there as they are stay what they are, whatever is there before a call."""
        for container, key, value in list(self.state_changes()):
            if type(value) in (int, float) and self.open:
                container[key] = LiveNumber(self, value, _expression(value) or "")

    def state_changes(self) -> Iterator[tuple[dict[Any, Any], Any, Any]]:
        """What the program put into such dictionaries: (where, key, value); MISSING for what is gone."""
        for container, _, live in self.states:
            for key in live.keys() | container.keys():
                value = container.get(key, MISSING)
                if value is not live.get(key, MISSING):
                    yield container, key, value

    def restore_states(self) -> None:
        """Make such dictionaries what they were before the program."""
        for container, held, _ in self.states:
            container.clear()
            container.update(held)
        for container, key, held, _ in self.counters:
            container[key] = held
        self.states = []

    # Compiled code.

    def finish(self) -> LiveInputs:
        self.open = False
        orders: dict[type, list[str]] = {float: [], int: []}
        for expression, kind in self.used:
            orders[kind].append(expression)
        return LiveInputs(self, {kind: texts for kind, texts in orders.items() if texts})


def _contents(read: Callable[[], Any]) -> list[Any]:
    """The variables that a reader refers to."""
    found = []
    for cell in getattr(read, "__closure__", None) or ():
        try:
            found.append(cell.cell_contents)
        except ValueError:
            continue
    code = getattr(read, "__code__", None)
    around = getattr(read, "__globals__", {})
    return found + [around[name] for name in (code.co_names if code is not None else ()) if name in around]


def numbers_spec(kind: type, count: int) -> Spec:
    return Spec((count,), _DTYPES[kind], (1,), 0)


def formula(number: LiveNumber | SymInt) -> Callable[[Any], Any]:
    """The function of the roots' values that computes a live number, or a size."""
    found: Callable[[Any], Any] = eval(f"lambda v: {_expression(number)}", dict(SCOPE))
    return found


class LiveNumber:
    """A number that is known only when the compiled program runs; `value` is what it is in this capture."""

    __slots__ = ("expression", "numbers", "value")

    def __init__(self, numbers: Numbers, value: Any, expression: str) -> None:
        self.numbers, self.value, self.expression = numbers, value, expression

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.value)  # isinstance(number, float) holds

    def specialise(self) -> Any:
        """The plain number, with a guard on it."""
        self.numbers.guard(self.expression, self.value)
        return self.value

    def place(self) -> tuple[type, int]:
        """Where compiled code finds it: the kind of its input, and which element."""
        kind = type(self.value)
        used = self.numbers.used
        found = used.get((self.expression, kind))
        if found is None:
            found = used[self.expression, kind] = sum(k is kind for _, k in used)
            self.numbers.values[self.expression, kind] = self.value
        return kind, found

    __float__ = lambda self: float(self.specialise())  # noqa: E731
    __int__ = lambda self: int(self.specialise())  # noqa: E731
    __complex__ = lambda self: complex(self.specialise())  # noqa: E731
    __trunc__ = lambda self: whole_number("math.trunc({})", math.trunc, self)  # noqa: E731
    __floor__ = lambda self: whole_number("math.floor({})", math.floor, self)  # noqa: E731
    __ceil__ = lambda self: whole_number("math.ceil({})", math.ceil, self)  # noqa: E731

    def __round__(self, digits: int | None = None) -> Any:
        if digits is None:
            return whole_number("round({})", round, self)
        return _computed("round({}, {})", round, self, digits)

    def __hash__(self) -> int:
        return hash(self.specialise())

    def __repr__(self) -> str:
        return repr(self.specialise())

    def __str__(self) -> str:
        return str(self.specialise())

    def __index__(self) -> int:
        return operator.index(self.specialise())

    def __format__(self, spec: str) -> str:
        return format(self.specialise(), spec)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.array(self.specialise(), dtype)

    def __reduce__(self) -> Any:
        return type(self.value), (self.specialise(),)

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __bool__(self) -> bool:
        outcome = bool(self.value)
        self.numbers.guard(f"bool({self.expression})", outcome)
        return outcome

    def __getattr__(self, name: str) -> Any:
        return getattr(self.specialise(), name)  # is_integer(), hex(), real, ...


def _expression(operand: Any) -> str | None:
    if type(operand) is LiveNumber:
        return operand.expression
    if type(operand) is SymInt:
        return operand.symbols.numbers.spelled(operand.index)
    if type(operand) in (int, float, bool):
        return (
            f"float({str(operand)!r})"
            if operand != operand or operand in (math.inf, -math.inf)
            else f"({operand!r})"
        )
    return None


def _computed(symbol: str, compute: Callable[..., Any], *operands: Any) -> Any:
    """The result of Python's arithmetic, live where it is a float or int; NotImplemented for others."""
    texts = [_expression(o) for o in operands]
    if None in texts:
        return NotImplemented
    values = [o.value if type(o) is LiveNumber else o.hint if type(o) is SymInt else o for o in operands]
    numbers = next(_numbers_of(o) for o in operands if type(o) in (LiveNumber, SymInt))
    result = compute(*values)
    expression = symbol.format(*texts)
    if not numbers.open:
        return result
    if type(result) is float or type(result) is int:
        return LiveNumber(numbers, result, expression)
    numbers.guard(expression, result)
    return result


def whole_number(symbol: str, compute: Callable[..., Any], *operands: Any) -> Any:
    """What a function of numbers that gives an int makes of live ones: a size, if these are computed of sizes."""
    result = live_result(symbol, compute, *operands)
    return result.numbers.whole(result) if type(result) is LiveNumber else result


def _numbers_of(operand: Any) -> Numbers:
    numbers: Numbers = operand.numbers if type(operand) is LiveNumber else operand.symbols.numbers
    return numbers


def _of_sizes(text: str, compute: Callable[..., Any], operands: Sequence[Any]) -> Any:
    data = [operand for operand in operands if is_data(operand)]
    if data:
        symbols = data[0].symbols
        found = symbols.numbers.of_data(compute, operands)
        if found is None:
            raise symbols.cannot_tell(f"computes {text.format(*operands)} of a size that is data")
        return found
    return _computed(text, compute, *operands)


install_live_numbers(_of_sizes)


def live_result(text: str, compute: Callable[..., Any], *operands: Any) -> Any:
    """What a function of numbers makes of live ones, and of sizes."""
    return _of_sizes(text, compute, operands)


def _install() -> None:
    for name, symbol in {
        "add": "+",
        "sub": "-",
        "mul": "*",
        "truediv": "/",
        "floordiv": "//",
        "mod": "%",
        "pow": "**",
    }.items():
        text, compute = f"({{}} {symbol} {{}})", getattr(operator, name)
        setattr(LiveNumber, f"__{name}__", lambda a, b, t=text, c=compute: _computed(t, c, a, b))
        setattr(LiveNumber, f"__r{name}__", lambda a, b, t=text, c=compute: _computed(t, c, b, a))
    for name, symbol in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items():
        text, compute = f"({{}} {symbol} {{}})", getattr(operator, name)
        setattr(LiveNumber, f"__{name}__", lambda a, b, t=text, c=compute: _computed(t, c, a, b))
    for name, text in {"neg": "(-{})", "pos": "(+{})", "abs": "abs({})"}.items():
        compute = getattr(operator, name)
        setattr(LiveNumber, f"__{name}__", lambda a, t=text, c=compute: _computed(t, c, a))
    for name in ("and", "or", "xor", "lshift", "rshift", "divmod"):  # of ints, and rare: by value
        compute = divmod if name == "divmod" else getattr(operator, f"__{name}__")
        setattr(LiveNumber, f"__{name}__", lambda a, b, c=compute: c(a.specialise(), _plain(b)))
        setattr(LiveNumber, f"__r{name}__", lambda a, b, c=compute: c(_plain(b), a.specialise()))


def _plain(operand: Any) -> Any:
    return operand.specialise() if type(operand) is LiveNumber else operand


_install()
