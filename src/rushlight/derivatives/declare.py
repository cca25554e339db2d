"""Declaring derivatives: `derivative(name, **formulas)`.

What comes in: an operator's name and, for each tensor argument, a reverse formula whose parameter names say
what it needs. What goes out: `op.derivative`, an `Entry` that the recording layer (autograd/record.py) reads.
All names are checked here, when the package is imported, so that recording a call is a matter of following a
plan.

Nothing in this module computes: it only says what is saved, for whom, and which formula gives which gradient.
"""

from __future__ import annotations

import enum
import sys
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import Any

from ..core.binding import declaring_module, parameter_names, where
from ..core.errors import RegistrationError
from ..core.registry import REGISTRY, Kind, OpDef, operator
from ..core.traits import Trait


class Rule(enum.Enum):
    AUTO_LINEAR = "the tangent is the operator applied to the tangents of its differentiable arguments"
    AUTO_ELEMENTWISE = "the tangent is the sum of the reverse formulas, applied to the tangents"
    AUTO_TRANSPOSE = "the tangent is the transpose of the reverse formulas, which are linear in the gradient"
    NOT_DIFFERENTIABLE = "no gradient flows to this argument"


AUTO_LINEAR, AUTO_ELEMENTWISE = Rule.AUTO_LINEAR, Rule.AUTO_ELEMENTWISE
AUTO_TRANSPOSE, NOT_DIFFERENTIABLE = Rule.AUTO_TRANSPOSE, Rule.NOT_DIFFERENTIABLE


class Take(enum.Enum):
    """What a captured value is."""

    VALUE = "the argument, which holds no tensor"
    TENSOR = "the argument, a tensor"
    TENSORS = "the argument, a list of tensors"
    RESULT = "an output"
    RESULTS = "all outputs"
    SHAPE = "shape"
    DTYPE = "dtype"
    NDIM = "ndim"
    NUMEL = "numel"
    SPEC = "spec"
    DEVICE = "device"


FACTS = {"shape": Take.SHAPE, "dtype": Take.DTYPE, "ndim": Take.NDIM, "numel": Take.NUMEL, "spec": Take.SPEC,
         "device": Take.DEVICE}
HOLDS_TENSORS = frozenset((Take.TENSOR, Take.TENSORS, Take.RESULT, Take.RESULTS))

# (what, argument or output, whether it is an output): one value captured when a call is recorded.
Capture = tuple[Take, int, bool]

FORWARDING = ("rushlight.library", "rushlight._library.")  # modules that pass declarations of users on

GRADS, NEEDS = -1, -2  # sources that are not the gradient of one output
ALL = -1  # of outputs


class Formula:
    """A reverse formula: which arguments it serves and where its parameters come from."""

    __slots__ = ("function", "sources", "targets")

    def __init__(self, function: Callable[..., Any], targets: tuple[int, ...], sources: list[Any]) -> None:
        self.function = function
        self.targets = targets  # positions in Entry.targets
        self.sources = sources  # an int (output number, GRADS or NEEDS) or a Capture, one per parameter


class Step:
    """A formula as a plan runs it: `function(*pick(values))`, for the arguments `targets`."""

    __slots__ = ("function", "needs_at", "pick", "places", "single", "targets")

    def __init__(self, formula: Formula, positions: dict[Any, int]) -> None:
        self.function = formula.function
        self.targets = formula.targets
        self.single = len(formula.targets) == 1
        indices = [positions[source] for source in formula.sources]
        self.needs_at = positions.get(NEEDS) if NEEDS in formula.sources else None
        self.places = tuple(indices)  # of its parameters among the values
        self.pick: Callable[[Sequence[Any]], tuple[Any, ...]]
        if len(indices) == 1:
            only = indices[0]
            self.pick = lambda values: (values[only],)
        else:
            self.pick = itemgetter(*indices) if indices else lambda values: ()


class Plan:
    """What to save and what to run for one set of arguments that need a gradient."""

    __slots__ = ("applied", "captures", "fetch", "lead", "saves_tensors", "steps", "unpack", "values")

    def __init__(self, entry: Entry, mask: int) -> None:
        active = [f for f in entry.formulas if any(mask >> t & 1 for t in f.targets)]
        sources = list(dict.fromkeys(source for f in active for source in f.sources))
        self.lead = tuple(source for source in sources if isinstance(source, int))
        self.captures: tuple[Capture, ...] = tuple(s for s in sources if not isinstance(s, int))
        positions = {source: i for i, source in enumerate((*self.lead, *self.captures))}
        self.steps = tuple(Step(formula, positions) for formula in active)
        self.saves_tensors = any(capture[0] in HOLDS_TENSORS for capture in self.captures)
        # How to save and restore the captures; autograd/saved.py fills these in on first use.
        self.fetch: Any = None
        self.unpack: Any = None
        # The functions that give the values, and run the steps (autograd/backward_functions.py), written on first
        # use.
        self.values: Any = None
        self.applied: Any = None


class Tangent:
    """A forward formula for some outputs."""

    __slots__ = ("function", "output", "parameters")

    def __init__(self, function: Callable[..., Any], output: int | None,
                 parameters: list[tuple[str, Any]]) -> None:
        self.function = function
        self.output = output  # None: it returns the tangents of all outputs
        self.parameters = parameters  # ("t" | "p" | "result", position) each


class Entry:
    """The derivative of one overload."""

    def __init__(self, op: OpDef, node_name: str) -> None:
        self.op = op
        self.node_name = node_name
        self.targets: tuple[int, ...] = ()  # argument positions that have a reverse formula, in schema order
        self.lists: tuple[bool, ...] = ()  # for each target: is it a list of tensors
        self.any_lists = False
        self.not_differentiable: frozenset[int] = frozenset()
        self.formulas: list[Formula] = []
        self.forward: Rule | list[Tangent] = AUTO_TRANSPOSE
        self.outputs: frozenset[int] | None = None  # differentiable outputs, None for all of floating dtype
        self.plans: dict[int, Plan] = {}
        self.number_as_tensor = False  # whether PyTorch takes its number for a tensor
        self.node_class: Any = None  # the class of its nodes, made when the first is (autograd/saved.py)
        self.where = ""

    def plan(self, mask: int) -> Plan:
        """The plan for the targets whose bits are set in `mask`."""
        plan = self.plans.get(mask)
        if plan is None:
            plan = self.plans[mask] = Plan(self, mask)
        return plan

    def __repr__(self) -> str:
        return f"<derivative of {self.op.name}>"


def derivative(names: str | Sequence[str], /, *rest: Any, differentiable_outputs: Sequence[int] | None = None,
               **formulas: Any) -> None:
    """Declare the derivative of one operator, or of several overloads that share their formulas.

    `argument=formula` gives the gradient of one argument, `("a", "b"), formula` in `rest` a tuple of
    gradients at once, `result=` the tangent. NOT_DIFFERENTIABLE stands for a formula, or in `rest` for the
    whole operator. A formula for an argument that some of the overloads lack (or have as a number) is left
    out for those.
    """
    overloads = [names] if isinstance(names, str) else list(names)
    place, module = _caller(), declaring_module()
    ops = [_operator(name, place) for name in overloads]
    groups = _groups(rest, formulas, place)
    tensors = dict.fromkeys([name for op in ops for name in _tensor_arguments(op)])
    for names_of_group, _ in groups:
        for name in names_of_group:
            if name not in tensors:
                listed = ", ".join(tensors)
                raise RegistrationError(f"{place}: {', '.join(overloads)} has no tensor argument {name}; its "
                                        f"tensor arguments are {listed}")
    for op in ops:
        entry = _entry(op, place)
        if rest and rest[0] is NOT_DIFFERENTIABLE:
            entry.not_differentiable = frozenset((*op.tensor_positions, *op.list_positions))
        _fill_reverse(entry, groups, place)
        _fill_forward(entry, {k: v for k, v in formulas.items() if _is_result(k)}, place)
        if differentiable_outputs is not None:
            entry.outputs = frozenset(differentiable_outputs)
        op.derivative = entry
        op.declared["derivative"] = module


def _caller() -> str:
    """The file and line of the declaration: of the first caller that does not only pass one on."""
    frame = sys._getframe(2)
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(FORWARDING):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def _operator(name: str, place: str) -> OpDef:
    try:
        op = operator(name)
    except RegistrationError as error:
        raise RegistrationError(f"{place}: {error}") from None
    if op.derivative is not None:
        raise RegistrationError(f"{place}: {name} already has a derivative, from {op.derivative.where}")
    return op


def _is_result(key: str) -> bool:
    return key.startswith("result") and (key == "result" or key[6:].isdecimal())


def _tensor_arguments(op: OpDef) -> list[str]:
    return [a.name for a in op.schema.arguments if a.type.base == "Tensor"]


def _groups(rest: tuple[Any, ...], formulas: dict[str, Any], place: str) -> list[tuple[tuple[str, ...], Any]]:
    """(argument names, formula or NOT_DIFFERENTIABLE) of every reverse formula."""
    groups: list[tuple[tuple[str, ...], Any]] = [((k,), v) for k, v in formulas.items() if not _is_result(k)]
    if rest and rest[0] is NOT_DIFFERENTIABLE:
        if len(rest) > 1 or formulas:
            raise RegistrationError(f"{place}: an operator that is NOT_DIFFERENTIABLE as a whole has no "
                                    "formulas")
        return groups
    if len(rest) % 2:
        raise RegistrationError(f"{place}: formulas for several arguments are given as ('a', 'b'), formula")
    for names, formula in zip(rest[::2], rest[1::2], strict=True):
        if not isinstance(names, tuple) or not callable(formula):
            raise RegistrationError(f"{place}: formulas for several arguments are given as ('a', 'b'), "
                                    "formula")
        groups.append((names, formula))
    if not groups:
        raise RegistrationError(f"{place}: no formula; say NOT_DIFFERENTIABLE where there is none")
    return groups


_numbers: dict[str, int] = {}


def _entry(op: OpDef, place: str) -> Entry:
    entry = Entry(op, _node_name(op))
    entry.number_as_tensor = _is_number_as_tensor(op)
    entry.where = place
    return entry


def _is_number_as_tensor(op: OpDef) -> bool:
    return bool(op.traits & Trait.NUMBER_AS_TENSOR) and op.schema.overload.startswith("Scalar")


def _node_name(op: OpDef) -> str:
    """PyTorch's name of the node: overloads are numbered in the order in which they are declared."""
    base = op.schema.name.removesuffix("_functional")
    if base == "copy":
        return "CopyBackwards"
    number = _numbers.get(base, 0)
    _numbers[base] = number + 1
    if _is_number_as_tensor(op):
        twin = REGISTRY.ops.get(f"{base}.{op.schema.overload.replace('Scalar', 'Tensor')}")
        if twin is not None and twin.derivative is not None:
            return str(twin.derivative.node_name)
    return "".join(part.title() for part in base.split("_")) + f"Backward{number}"


# Reverse formulas.

def _fill_reverse(entry: Entry, groups: list[tuple[tuple[str, ...], Any]], place: str) -> None:
    op = entry.op
    names = op.schema.argument_names
    tensors = _tensor_arguments(op)
    present = [(tuple([n for n in group if n in tensors]), group, formula) for group, formula in groups]
    covered = [n for kept, _, _ in present for n in kept]
    if len(set(covered)) != len(covered):
        twice = next(n for n in covered if covered.count(n) > 1)
        raise RegistrationError(f"{place}: {op.name} has two formulas for {twice}")
    no_gradient = {names.index(n) for kept, _, f in present if f is NOT_DIFFERENTIABLE for n in kept}
    entry.not_differentiable |= no_gradient
    targets = sorted(names.index(n) for kept, _, f in present if f is not NOT_DIFFERENTIABLE for n in kept)
    entry.targets = tuple(targets)
    entry.lists = tuple(t in op.list_positions for t in targets)
    entry.any_lists = any(entry.lists)
    for kept, group, formula in present:
        if formula is NOT_DIFFERENTIABLE or not kept:
            continue
        if not callable(formula):
            raise RegistrationError(f"{place}: the formula of {op.name} for {', '.join(kept)} must be a "
                                    "function or NOT_DIFFERENTIABLE")
        if len(kept) != len(group):
            raise RegistrationError(f"{place}: {op.name} lacks "
                                    f"{', '.join(n for n in group if n not in kept)} of a formula for "
                                    "several arguments; declare this overload on its own")
        sources = [_source(op, name, formula) for name in asked_names(formula)]
        entry.formulas.append(Formula(formula, tuple(targets.index(names.index(n)) for n in group), sources))


def asked_names(formula: Callable[..., Any]) -> tuple[str, ...]:
    """The parameters of a formula that are to be filled in: those without a default."""
    names = parameter_names(formula)
    optional = len(formula.__defaults__ or ()) + len(formula.__kwdefaults__ or ())
    return names[:len(names) - optional]


def _results(op: OpDef) -> list[str]:
    """The names of the outputs: result, or result0, result1, ...; none for an output that is a list."""
    count = len(op.schema.returns)
    return ["result"] if count == 1 else [f"result{i}" for i in range(count)]


def _source(op: OpDef, name: str, formula: Callable[..., Any]) -> Any:
    """Where the parameter `name` of a reverse formula comes from."""
    if name == "grad":
        return 0
    if name == "grads":
        return GRADS
    if name == "needs":
        return NEEDS
    if name.startswith("grad") and name[4:].isdecimal():
        if int(name[4:]) >= len(op.schema.returns):
            raise _unknown(op, name, formula)
        return int(name[4:])
    found = _capture(op, name)
    if found is not None:
        return found
    stem, _, suffix = name.rpartition("_")
    found = _capture(op, stem) if stem else None
    if suffix == "p" and found is not None:  # the argument of a backward operator that is itself called grad
        return found
    if suffix in FACTS and found is not None and found[0] is not Take.VALUE:
        return (FACTS[suffix], found[1], found[2])
    raise _unknown(op, name, formula)


def _capture(op: OpDef, name: str) -> Capture | None:
    """The argument or output called `name`."""
    names = op.schema.argument_names
    if name in names:
        i = names.index(name)
        single = Take.TENSOR if i in op.tensor_positions else Take.VALUE
        take = Take.TENSORS if i in op.list_positions else single
        return (take, i, False)
    if name == "results" or (name == "result" and op.schema.returns[0].type.is_list):
        return (Take.RESULTS, ALL, True)
    if name in _results(op):
        return (Take.RESULT, _results(op).index(name), True)
    returned = [r.name for r in op.schema.returns]
    return (Take.RESULT, returned.index(name), True) if name in returned else None


def _unknown(op: OpDef, name: str, formula: Callable[..., Any],
             extra: Sequence[str] = ()) -> RegistrationError:
    count = len(op.schema.returns)
    scope = extra or [*(["grad"] if count == 1 else [f"grad{i}" for i in range(count)]),
                      "grads", "needs", *op.schema.argument_names, *_results(op),
                      *[r.name for r in op.schema.returns if r.name]]
    facts = "" if extra else f", and _{', _'.join(FACTS)} of a tensor among them"
    return RegistrationError(f"{where(formula)}: the derivative of {op.name} asks for {name}; in scope are "
                             f"{', '.join(scope)}{facts}")


# Forward formulas.

def _fill_forward(entry: Entry, given: dict[str, Any], place: str) -> None:
    op = entry.op
    if not given:
        return
    if not entry.targets:
        raise RegistrationError(f"{place}: {op.name} has a forward formula but no differentiable argument")
    rule = given.get("result")
    if isinstance(rule, Rule):
        if rule is NOT_DIFFERENTIABLE or len(given) > 1:
            raise RegistrationError(f"{place}: {op.name}: a forward rule is AUTO_LINEAR, AUTO_ELEMENTWISE or "
                                    "a formula")
        if rule is AUTO_ELEMENTWISE and any(len(f.targets) != 1 for f in entry.formulas):
            raise RegistrationError(f"{place}: {op.name}: AUTO_ELEMENTWISE needs one reverse formula per "
                                    "argument")
        entry.forward = rule
        return
    tangents = []
    for key, function in given.items():
        output = None if key == "result" and len(op.schema.returns) > 1 else int(key[6:] or 0)
        if output is not None and output >= len(op.schema.returns):
            raise RegistrationError(f"{place}: {op.name} has no output {key}")
        sources = [_tangent_source(entry, name, function) for name in asked_names(function)]
        tangents.append(Tangent(function, output, sources))
    entry.forward = tangents


def _tangent_source(entry: Entry, name: str, function: Callable[..., Any]) -> tuple[str, Any]:
    op = entry.op
    names = op.schema.argument_names
    stem, _, suffix = name.rpartition("_")
    if suffix == "t" and stem in names and names.index(stem) in entry.targets:
        return "t", names.index(stem)
    if suffix == "p" and stem in names:
        return "p", names.index(stem)
    found = _capture(op, name)
    if found is not None:
        return ("results", 0) if found[0] is Take.RESULTS else ("result" if found[2] else "p", found[1])
    if suffix in FACTS and stem:
        found = _capture(op, stem)
        if found is not None and found[0] is not Take.VALUE:
            return "fact", (FACTS[suffix], found[1], found[2])
    tangents = [f"{names[t]}_t" for t in entry.targets]
    raise _unknown(op, name, function, [*tangents, *[f"{names[t]}_p" for t in entry.targets], *names,
                                        *_results(op)])


def missing(op: OpDef) -> Entry:
    """A stand-in for an operator nobody declared a derivative for: its outputs require grad, and backward
    refuses."""
    entry = Entry(op, "".join(part.title() for part in op.schema.name.split("_")) + "Backward")
    entry.targets = tuple(sorted((*op.tensor_positions, *op.list_positions)))
    entry.lists = tuple(t in op.list_positions for t in entry.targets)
    entry.any_lists = any(entry.lists)

    def refuse(grads: Any) -> Any:
        raise NotImplementedError(f"derivative for {op.name} is not implemented")

    entry.formulas = [Formula(refuse, tuple(range(len(entry.targets))), [GRADS])]
    entry.where = "nowhere"
    return entry


def needs_entry(op: OpDef) -> bool:
    """Whether the completeness test asks for a derivative: composites may differentiate through their body.
    """
    through = op.kind is Kind.SPARSE and op.sparse is not None and op.sparse.through
    return op.kind is not Kind.COMPOSITE and not through and bool(op.tensor_positions or op.list_positions)
