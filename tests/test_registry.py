"""The registry is complete and consistent: every operator runs, and says what its derivative is."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import rushlight
from rushlight.core import registry
from rushlight.core.declare_pointwise import instruction, pointwise
from rushlight.core.errors import RegistrationError
from rushlight.core.promotion import Promotion
from rushlight.core.registry import REGISTRY, Api, Kind, OpDef, composite, define, kernel, view
from rushlight.core.schema import parse_schema
from rushlight.derivatives.declare import NOT_DIFFERENTIABLE, Rule, derivative, needs_entry

PACKAGE = Path(rushlight.__file__).parent
OPS = sorted(REGISTRY, key=lambda op: op.name)

# Operators that say nothing about a tensor argument, and why.
WITHOUT_DERIVATIVE: dict[str, str] = {}


def names(ops: Iterator[OpDef] | list[OpDef]) -> list[str]:
    return [op.name for op in ops]


# Every operator has what it needs.


def test_every_operator_runs() -> None:
    """A kernel or a body: structural operators have the one, pointwise and composite ones the other."""
    assert not names([op for op in OPS if op.kind is Kind.STRUCTURAL and op.kernel is None])
    assert not names([op for op in OPS if op.kind in (Kind.POINTWISE, Kind.COMPOSITE) and op.body is None])
    assert not names([op for op in OPS if op.kind in (Kind.STRUCTURAL, Kind.VIEW) and op.rule is None])
    assert all(op.stages()["eager"] and op.stages()["shape"] for op in OPS)


def test_every_operator_runs_in_one_way() -> None:
    assert not names([op for op in OPS if op.kernel is not None and op.body is not None])
    # a composite whose result has a shape that depends on data says what is known without running it
    assert not names(
        [op for op in OPS if op.rule is not None and op.body is not None and not op.data_dependent]
    )
    assert not names([op for op in OPS if op.kernel is not None and op.kind is not Kind.STRUCTURAL])
    assert not names([op for op in OPS if op.kind is Kind.COMPOSITE and op.decomposition is not op.body])


def unanswered(op: OpDef) -> list[str]:
    """The tensor arguments that neither have a formula nor are said to have none."""
    entry = op.derivative
    said = set() if entry is None else {*entry.targets, *entry.not_differentiable}
    return [op.schema.argument_names[i] for i in (*op.tensor_positions, *op.list_positions) if i not in said]


def test_every_tensor_argument_has_a_derivative() -> None:
    """A formula or NOT_DIFFERENTIABLE; composites without an entry differentiate through their bodies."""
    silent = {
        op.name: unanswered(op)
        for op in OPS
        if (needs_entry(op) or op.derivative is not None) and unanswered(op)
    }
    assert silent.keys() == WITHOUT_DERIVATIVE.keys(), {
        n: a for n, a in silent.items() if n not in WITHOUT_DERIVATIVE
    }


def test_derivatives_are_consistent() -> None:
    for op in OPS:
        entry = op.derivative
        if entry is None:
            continue
        assert entry.op is op
        assert not set(entry.targets) & entry.not_differentiable, op.name
        served = sorted(target for formula in entry.formulas for target in formula.targets)
        assert served == list(range(len(entry.targets))), f"{op.name}: one formula for each target"
        assert entry.forward is not Rule.NOT_DIFFERENTIABLE, op.name
        if entry.outputs is not None:
            assert entry.targets, f"{op.name} names differentiable outputs but has no formula"
            assert all(0 <= i < len(op.schema.returns) for i in entry.outputs), op.name


def test_results_without_a_gradient_have_no_formula() -> None:
    """A pointwise operator that gives bool has nothing to differentiate."""
    always = [op for op in OPS if op.kind is Kind.POINTWISE and op.promote is Promotion.BOOLEAN]
    assert always
    assert not names([op for op in always if op.derivative.targets])


# Names and schemas.


@pytest.mark.parametrize("family", sorted({op.family for op in OPS}))
def test_schemas_are_what_they_say(family: str) -> None:
    for op in OPS:
        if op.family != family:
            continue
        text = str(op.schema)
        assert parse_schema(text) == op.schema and str(parse_schema(text)) == text
        assert op.schema.full_name == op.name and REGISTRY[op.name] is op
        assert len(set(op.schema.argument_names)) == len(op.schema.argument_names), op.name


def test_in_place_and_out_forms_are_derived() -> None:
    """What a call may write besides its result (running statistics) is neither its first argument nor out=.
    Collectives that write are operators of their own: they wait, which those that begin one do not."""
    written = [
        op.name
        for op in OPS
        if op.family != "collective"
        and any(a.type.is_mutable and (i == 0 or a.keyword_only) for i, a in enumerate(op.schema.arguments))
    ]
    assert not written


def test_aliases_are_declared_by_views_alone() -> None:
    """A structural operator gives new memory; a pointwise one as well."""
    wrong = [
        op.name
        for op in OPS
        if op.kind in (Kind.POINTWISE, Kind.STRUCTURAL)
        and any(r.type.alias is not None for r in op.schema.returns)
    ]
    assert not wrong


def test_families_are_files() -> None:
    """A family is the first word of the names of the modules that declare its operators."""
    files = {
        path.stem.partition("_")[0]
        for floor in ("ops", "decompositions")
        for path in (PACKAGE / floor).glob("*.py")
        if path.stem != "__init__"
    }
    families = {op.family for op in OPS}
    assert families <= files, families - files
    for floor in ("kernels", "derivatives", "batching", "lowering"):
        known = {
            "control",  # flow: operators that capture makes, which are in no family
            "declare",
            "helpers",
            "handler",
            "accumulate",
            "vmap",
            "lower",
            "lowered",
            "folding",  # of equal layers, before they are lowered
            "origins",  # of definitions, for people who look at a program
            "updates",  # of inputs, composed of operators of any family
            "rules",
            "dtype",
            "assemble",
            "cost",
            "scatter",
        }
        stray = (
            {
                path.stem.partition("_")[0]
                for path in (PACKAGE / floor).glob("*.py")
                if not path.stem.startswith("__")
            }
            - families
            - known
        )
        assert not stray, f"{floor}: {stray}"


def test_parts_stay_in_their_family() -> None:
    """A derivative is declared in a file of its operator's family."""
    wrong = []
    for op in OPS:
        if op.derivative is None:
            continue
        file = Path(re.sub(r":\d+$", "", op.derivative.where))
        if file.parent == PACKAGE / "derivatives" and file.stem.partition("_")[0] != op.family:
            wrong.append(f"{op.name} ({op.family}) in {file.name}")
    assert not wrong, "\n".join(wrong)


def test_in_place_settings_are_of_operators_with_an_in_place_form() -> None:
    assert not names(
        [
            op
            for op in OPS
            if op.api & (Api.EXPANDED_WARNS | Api.APART_INPLACE)
            and not op.api & (Api.INPLACE | Api.INPLACE_METHOD)
        ]
    )
    assert not names(
        [
            op
            for op in OPS
            if op.api & Api.EXPANDED and not op.api & (Api.INPLACE | Api.INPLACE_METHOD | Api.OUT)
        ]
    )
    assert not names(
        [
            op
            for op in OPS
            if op.api & (Api.FLAT | Api.REFITS | Api.CASTS | Api.OVERLAPS) and not op.api & Api.OUT
        ]
    )
    assert not names(
        [op for op in OPS if op.api & Api.INPLACE and not (op.tensor_positions or op.list_positions)]
    )


# Declaring.


@pytest.fixture
def open_registry(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As while the package is imported; a refused declaration leaves the registry as it is."""
    before = dict(REGISTRY.ops)
    monkeypatch.setattr(REGISTRY, "frozen", False)
    yield
    assert REGISTRY.ops == before


DECLARATIONS = [
    lambda text: pointwise(text)(lambda ops, self: self),
    lambda text: instruction(text, name="sin"),
    lambda text: view(text, lambda self: self),
    lambda text: composite(text)(lambda self: self),
    lambda text: define(text, shape=lambda self: self),
]


@pytest.mark.parametrize("declare", DECLARATIONS)
def test_declaring_twice_raises(open_registry: None, declare: Callable[[str], object]) -> None:
    with pytest.raises(RegistrationError, match=r"^sin is already defined in pointwise$"):
        declare("sin(Tensor self) -> Tensor")


@pytest.mark.parametrize("declare", DECLARATIONS)
def test_the_registry_is_frozen_after_import(declare: Callable[[str], object]) -> None:
    with pytest.raises(RegistrationError, match=r"^some_new_operator: the registry is frozen"):
        declare("some_new_operator(Tensor self) -> Tensor")
    assert "some_new_operator" not in REGISTRY


def test_attaching_twice_raises() -> None:
    with pytest.raises(RegistrationError, match=r"^flip already has a kernel$"):
        kernel("flip", lambda self: self)
    with pytest.raises(RegistrationError, match=r"sin already has a derivative, from .*pointwise\w*\.py"):
        derivative("sin", self=lambda grad: grad)
    with pytest.raises(RegistrationError, match=r"^addmm already has a decomposition$"):
        registry.decomposition("addmm")(lambda self: self)


def test_only_structural_operators_have_kernels() -> None:
    with pytest.raises(RegistrationError, match=r"^sin is pointwise; only structural operators have kernels"):
        kernel("sin", lambda self: self)
    assert REGISTRY["sin"].kernel is None


def test_unknown_operators_are_named_with_their_neighbours() -> None:
    with pytest.raises(RegistrationError, match=r"no operator add\.Nothing; did you mean add\.Tensor"):
        REGISTRY["add.Nothing"]
    with pytest.raises(RegistrationError, match=r"test_registry\.py:\d+: there is no operator nothing$"):
        derivative("nothing", NOT_DIFFERENTIABLE)


def test_rules_that_name_unknown_arguments_are_refused(open_registry: None) -> None:
    with pytest.raises(RegistrationError, match="other"):
        define("some_new_operator(Tensor self) -> Tensor", shape=lambda other: other)
    with pytest.raises(RegistrationError, match="other"):
        composite("some_new_operator(Tensor self) -> Tensor")(lambda other: other)
