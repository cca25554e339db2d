"""The table of operators: what each one is, and what every stage knows about it.

An operator is declared once, on the ops (or decompositions) floor, by `pointwise`, `view`, `composite` or
`define`. Other floors attach their stage to it by name (`kernel`, later `derivative`, `lowering`, ...).
Attaching twice raises.
Names and schemas are ATen's.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, TypedDict, TypeVar, Unpack, overload

from .binding import by_name, declaring_module, family_of, parameter_names
from .dtypes import DType
from .errors import RegistrationError
from .promotion import Promotion
from .schema import Schema, parse_schema
from .traits import Trait

Rule = TypeVar("Rule", bound=Callable[..., Any])


class Kind(enum.Enum):
    POINTWISE = "pointwise"  # a scalar body over a handler
    VIEW = "view"  # index arithmetic on the storage of its first argument
    COMPOSITE = "composite"  # a function of simpler operators
    STRUCTURAL = "structural"  # a shape rule and a kernel
    SPARSE = "sparse"  # makes, or looks inside of, tensors that are not strided; its kernel takes tensors
    QUANTIZED = "quantized"  # makes, or looks inside of, quantized tensors; its kernel takes tensors


class Api(enum.Flag):
    """Under which names a user reaches an operator."""

    NONE = 0
    FUNCTION = enum.auto()  # rushlight.name(...)
    METHOD = enum.auto()  # tensor.name(...)
    INPLACE = enum.auto()  # tensor.name_(...), and rushlight.name_ where FUNCTION is set
    OUT = enum.auto()  # rushlight.name(..., out=tensor)
    # tensor.name_(...) whether or not there is a tensor.name; no rushlight.name_
    INPLACE_METHOD = enum.auto()
    INPLACE_FUNCTION = enum.auto()  # rushlight.name_(...) whether or not there is a rushlight.name
    EXACT = enum.auto()  # with OUT: out= has the result's dtype
    APART = enum.auto()  # with OUT: out= shares no memory with an input
    APART_INPLACE = enum.auto()  # with INPLACE: no argument shares memory with the tensor that is written
    OVERLAPS = enum.auto()  # with OUT: out= may share memory with an input in any way
    FLAT = enum.auto()  # with OUT: an output with as many elements keeps its shape
    REFITS = enum.auto()  # with OUT: an output of another shape is resized without a warning
    CASTS = enum.auto()  # with OUT: out= has any dtype
    LEGACY = enum.auto()  # numbers that are keywords may be given before the tensors, which is deprecated
    NUMBERS = enum.auto()  # with FUNCTION: every tensor may be given as a number
    EXPANDED = enum.auto()  # with INPLACE and OUT: an expanded tensor can be written (fill_)
    EXPANDED_WARNS = enum.auto()  # with INPLACE: so it can, but it is deprecated (masked_fill_)


FUNCTION, METHOD, INPLACE, OUT = Api.FUNCTION, Api.METHOD, Api.INPLACE, Api.OUT
INPLACE_METHOD, APART_OUT, EXACT_OUT = (
    Api.INPLACE_METHOD,
    Api.OUT | Api.APART,
    Api.OUT | Api.APART | Api.EXACT,
)
INTERNAL = Api.NONE


class Facts(TypedDict, total=False):
    """What may be said of any operator where it is declared."""

    namespace: str  # "" or "linalg", "special", ...: where the public function lives
    public_name: str  # if it is not that of the schema
    traits: Trait
    moves: bool  # copies elements without arithmetic, so half types need no wider type


class PointwiseFacts(Facts, total=False):
    dtypes: frozenset[DType] | None  # restricts the common dtype
    parameters: Sequence[str]  # arguments that stay Python values
    instruction: str  # the handler instruction that equals the body when parameters have defaults


class StructuralFacts(Facts, total=False):
    random: bool
    data_dependent: bool  # the output's shape depends on values
    # of an operator that fills a tensor: the number, or the name of the argument that is the number
    fill: int | str | None


class OpFacts(PointwiseFacts, StructuralFacts, total=False):
    tracked: bool  # of a view: it knows its base, so that a write through it gives the base a new history


class OpDef:
    """One overload of one operator. Floors above core fill in `derivative`, `lowering` and `batching`."""

    __slots__ = (
        "api",
        "autocast",
        "batching",
        "body",
        "check",
        "checks_numbers",
        "conditions",
        "data_dependent",
        "declared",
        "decomposition",
        "defaults",
        "derivative",
        "device_position",
        "dtypes",
        "exact",
        "family",
        "fill",
        "instruction",
        "kernel",
        "kernel_reads",
        "kind",
        "linear",
        "list_positions",
        "lowering",
        "moves",
        "name",
        "namespace",
        "operands",
        "own_run",
        "parameters",
        "plans",
        "promote",
        "promote_by",
        "public_name",
        "quantized",
        "random",
        "reaches_storage",
        "result_names",
        "rule",
        "run",
        "schema",
        "settings",
        "sparse",
        "tensor_positions",
        "tracked",
        "traits",
    )

    def __init__(
        self,
        schema: Schema,
        kind: Kind,
        family: str,
        *,
        api: Api,
        promote: Promotion | None = None,
        body: Callable[..., Any] | None = None,
        rule: Callable[[tuple[Any, ...]], Any] | None = None,
        **facts: Unpack[OpFacts],
    ) -> None:
        self.schema = schema
        self.name = schema.full_name
        self.kind = kind
        self.family = family
        self.api = api
        self.promote = promote
        self.body = body
        self.rule = rule
        self.namespace = facts.pop("namespace", "")
        self.public_name = facts.pop("public_name", "") or schema.name
        self.traits = facts.pop("traits", Trait.NONE)
        self.reaches_storage = bool(self.traits & Trait.STORAGE)
        self.moves = facts.pop("moves", False)
        self.random = facts.pop("random", False)
        self.data_dependent = facts.pop("data_dependent", False)
        self.fill = facts.pop("fill", None)
        self.dtypes = facts.pop("dtypes", None)
        self.instruction = facts.pop("instruction", "")
        self.tracked = facts.pop("tracked", True)
        self.parameters = tuple(facts.pop("parameters", ()))
        if facts:
            raise TypeError(f"{self.name}: there is no {', '.join(facts)} to say of an operator")
        self._attach_nothing()
        self._read(schema)
        # Filled in by `pointwise` alone.
        self.check: Callable[[tuple[Any, ...]], Any] | None = None
        # the check looks at the values of numbers, so that types do not decide it
        self.checks_numbers = False
        # promotion that depends on an argument
        self.promote_by: Callable[[tuple[Any, ...]], Promotion] | None = None
        self.conditions: frozenset[int] = frozenset()  # operands that are not promoted: bool, as they come
        # operands whose 0-d value is not rounded to a narrow common dtype
        self.exact: frozenset[int] = frozenset()

    def _attach_nothing(self) -> None:
        """The stages that other floors attach."""
        self.kernel: Callable[[tuple[Any, ...]], Any] | None = None
        self.kernel_reads: frozenset[int] = frozenset()  # positions of the arguments that the kernel names
        self.sparse: SparseKernel | None = None  # how it runs where an argument is not strided
        # how it runs where an argument is quantized
        self.quantized: Callable[[tuple[Any, ...]], Any] | None = None
        self.autocast: Any = None  # in which dtype it computes under autocast (autocast.Policy)
        self.derivative: Any = None
        self.decomposition: Callable[..., Any] | None = self.body if self.kind is Kind.COMPOSITE else None
        self.lowering: Any = None
        self.batching: Any = None
        # by stage: the module that declared it ("lowering.shape"), for whoever looks for it
        self.declared: dict[str, str] = {}
        # eager execution, set by dispatch on first use
        self.run: Callable[[OpDef, tuple[Any, ...]], Any] | None = None
        self.own_run: Any = None  # what alone runs it on data, set by dispatch.run_by
        self.plans: dict[Any, Any] = {}  # of pointwise ones by dtypes, of views by geometries

    def _read(self, schema: Schema) -> None:
        """What the schema says, as dispatch wants it."""
        arguments = schema.arguments
        # (lists, not generators, here and below: this is a good part of every import)
        self.defaults = tuple([argument.default for argument in arguments])
        self.tensor_positions = tuple([i for i, a in enumerate(arguments) if a.type.is_tensor])
        self.list_positions = tuple([i for i, a in enumerate(arguments) if a.type.is_tensor_list])
        names = tuple([r.name for r in schema.returns])
        self.result_names = names if len(names) > 1 and all(names) else None
        given = schema.argument_names
        self.device_position = given.index("device") if "device" in given else None
        self.operands = tuple(
            [
                i
                for i, a in enumerate(arguments)
                if a.type.base in ("Tensor", "Scalar") and a.name not in self.parameters
            ]
        )
        self.settings = tuple([i for i in range(len(arguments)) if i not in self.operands])

    def stages(self) -> dict[str, bool]:
        """Which stages know this operator."""
        return {
            "shape": self.rule is not None or self.kind not in (Kind.VIEW, Kind.STRUCTURAL),
            "eager": (self.kernel or self.sparse or self.quantized) is not None
            or self.kind in (Kind.POINTWISE, Kind.VIEW, Kind.COMPOSITE),
            "derivative": self.derivative is not None,
            "decomposition": self.decomposition is not None,
            "lowering": self.lowering is not None or self.kind in (Kind.POINTWISE, Kind.VIEW),
            "batching": self.batching is not None,
        }

    def __repr__(self) -> str:
        return f"<rushlight operator {self.name}>"


class Registry:
    """All operators by full name ("add.Tensor"), in order of declaration."""

    def __init__(self) -> None:
        self.ops: dict[str, OpDef] = {}
        self._overloads: dict[str, list[OpDef]] = {}
        self.frozen = False

    def add(self, op: OpDef) -> OpDef:
        if self.frozen:
            raise RegistrationError(
                f"{op.name}: the registry is frozen; use rushlight.library to add operators"
            )
        if op.name in self.ops:
            raise RegistrationError(f"{op.name} is already defined in {self.ops[op.name].family}")
        op.declared["definition"] = declaring_module()
        self.ops[op.name] = op
        self._overloads.setdefault(op.schema.name, []).append(op)
        return op

    def overloads(self, name: str) -> list[OpDef]:
        """The operators of that name without overload ("add"), in order of declaration."""
        return list(self._overloads.get(name, ()))

    def __getitem__(self, name: str) -> OpDef:
        try:
            return self.ops[name]
        except KeyError:
            near = [known for known in self.ops if known.split(".")[0] == name.split(".", maxsplit=1)[0]]
            hint = f"; did you mean {', '.join(near)}?" if near else ""
            raise RegistrationError(f"there is no operator {name}{hint}") from None

    def __contains__(self, name: object) -> bool:
        return name in self.ops

    def __iter__(self) -> Iterator[OpDef]:
        """Those that there are now: a library may define others meanwhile, on another thread."""
        return iter(list(self.ops.values()))

    def __len__(self) -> int:
        return len(self.ops)


REGISTRY = Registry()
# Operators that are no part of the package's table: those of users (rushlight.library) and facts (facts.py).
LIBRARY = Registry()


def operator(name: str) -> OpDef:
    """The operator of the package or of a program that is called `name`."""
    return LIBRARY.ops.get(name) or REGISTRY[name]


def _add(op: OpDef) -> OpDef:
    """Add a declared operator: to the package's table, or once that is frozen, if it has a namespace of its
    own, to the table of users' operators."""
    if not REGISTRY.frozen or op.schema.namespace in ("", "aten"):
        return REGISTRY.add(op)
    if op.name in REGISTRY:
        raise RegistrationError(f"{op.name} is already defined in {REGISTRY[op.name].family}")
    op.family = "library"
    return LIBRARY.add(op)


def _family() -> str:
    """The family of the module that called a declaration function."""
    return family_of(declaring_module())


@overload
def view(
    schema: str, *, api: Api = ..., namespace: str = ..., tracked: bool = ..., traits: Trait = ...
) -> Callable[[Rule], Rule]: ...
@overload
def view(
    schema: str,
    rule: Callable[..., Any],
    *,
    api: Api = ...,
    namespace: str = ...,
    tracked: bool = ...,
    traits: Trait = ...,
) -> Any: ...
def view(
    schema: str,
    rule: Callable[..., Any] | None = None,
    *,
    api: Api = FUNCTION | METHOD,
    namespace: str = "",
    tracked: bool = True,
    traits: Trait = Trait.NONE,
) -> Any:
    """Declare a view by its rule, which returns the Spec(s) of the alias: shape, strides, offset, dtype.

    Views that are not `tracked` have no base: `detach`, which still shares the version counter of its source,
    and those whose schema declares no alias (`_unsafe_view`), which do not.
    """
    family = _family()

    def declare(rule: Callable[..., Any]) -> Callable[..., Any]:
        parsed = parse_schema(schema)
        _add(
            OpDef(
                parsed,
                Kind.VIEW,
                family,
                api=api,
                moves=True,
                namespace=namespace,
                tracked=tracked,
                traits=traits,
                rule=by_name(rule, parsed.argument_names, f"view rule of {parsed.full_name}"),
            )
        )
        return rule

    return declare if rule is None else declare(rule)


def composite(
    *schemas: str,
    promote: Promotion | None = None,
    api: Api = FUNCTION | METHOD,
    random: bool = False,
    shape: Callable[..., Any] | None = None,
    namespace: str = "",
    public_name: str = "",
    traits: Trait = Trait.NONE,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare an operator as a function of simpler ones; several schemas are overloads with the same body.

    With `promote`, tensor inputs are first cast to the compute dtype and the results rounded once to the
    result dtype. `shape` is for results whose shape depends on data: it gives their Specs, without a shape,
    or None for arguments that tell it.
    """
    family = _family()

    def declare(body: Callable[..., Any]) -> Callable[..., Any]:
        for text in schemas:
            schema = parse_schema(text)
            _add(
                OpDef(
                    schema,
                    Kind.COMPOSITE,
                    family,
                    api=api,
                    promote=promote,
                    random=random,
                    body=by_name(body, schema.argument_names, f"composite {schema.full_name}"),
                    data_dependent=shape is not None,
                    rule=None
                    if shape is None
                    else by_name(shape, schema.argument_names, f"shape rule of {schema.full_name}"),
                    namespace=namespace,
                    public_name=public_name,
                    traits=traits,
                )
            )
        return body

    return declare


def define(
    schema: str,
    *,
    shape: Callable[..., Any],
    api: Api = FUNCTION | METHOD | OUT,
    promote: Promotion | None = None,
    **facts: Unpack[StructuralFacts],
) -> None:
    """Declare a structural operator.

    `shape` validates the arguments it names and returns the Spec(s) of the output.
    """
    parsed = parse_schema(schema)
    _add(
        OpDef(
            parsed,
            Kind.STRUCTURAL,
            _family(),
            api=api,
            promote=promote,
            rule=by_name(shape, parsed.argument_names, f"shape rule of {parsed.full_name}"),
            **facts,
        )
    )


@overload
def kernel(*names: str) -> Callable[[Rule], Rule]: ...
@overload
def kernel(*names: Any) -> Any: ...
def kernel(*names: Any) -> Any:
    """Attach an eager kernel: `kernel("flip", function)` or `@kernel("flip", "other")`.

    A kernel names the schema arguments it needs, and `out` for the Spec(s) its shape rule gave; tensors come
    as ndarrays and it returns ndarrays that alias no input. Half-precision inputs come as float32 and the
    result is rounded once,
    unless the operator only moves elements.
    """
    if callable(names[-1]):
        function, names = names[-1], names[:-1]
        _attach_kernel([str(name) for name in names], function)
        return function

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        _attach_kernel([str(name) for name in names], function)
        return function

    return declare


def _attach_kernel(names: Sequence[str], function: Callable[..., Any]) -> None:
    module = declaring_module()
    for name in names:
        op = operator(name)
        if op.kernel is not None:
            raise RegistrationError(f"{name} already has a kernel")
        if op.kind is not Kind.STRUCTURAL:
            raise RegistrationError(f"{name} is {op.kind.value}; only structural operators have kernels")
        op.kernel = by_name(function, (*op.schema.argument_names, "out"), f"kernel of {name}")
        op.declared["kernel"] = module
        named = parameter_names(function)
        op.kernel_reads = frozenset(
            i for i, argument in enumerate(op.schema.argument_names) if argument in named
        )


class SparseKernel(NamedTuple):
    """How an operator runs on arguments that are not strided."""

    function: Callable[[tuple[Any, ...]], Any]
    layouts: frozenset[Any] | None  # the layouts it knows, None for all of them
    through: bool  # it is made of operators, through which it is differentiated
    layout_at: int | None = None  # the argument that asks for a layout, if it makes tensors of such


def decomposition(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Attach what structural operators are in terms of simpler ones, for stages that want it.

    Eager runs the kernel.
    """
    module = declaring_module()

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            op = operator(name)
            if op.decomposition is not None:
                raise RegistrationError(f"{name} already has a decomposition")
            op.decomposition = by_name(function, op.schema.argument_names, f"decomposition of {name}")
            op.declared["decomposition"] = module
        return function

    return declare
