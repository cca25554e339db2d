"""Schemas: every signature of ATen and the inventory round-trips; the parts agree with PyTorch's parsers."""

from __future__ import annotations

import csv
import dataclasses
import math
import pickle
import re
from functools import cache
from pathlib import Path

import pytest
import torch
import torchgen.model
from hypothesis import given, settings
from hypothesis import strategies as st

from rushlight.core import dtypes, tokens
from rushlight.core.schema import REQUIRED, Argument, Schema, SchemaError, Type, parse_schema

INVENTORY = Path(__file__).resolve().parents[3] / "shared" / "inventory"  # beside the checkout
# What TorchScript has and native functions have not: generic containers, type variables, tuples, varargs,
# wildcard aliases and alias annotations of whole lists.
NOT_NATIVE = re.compile(
    r"""
    \b(?:Dict|Future|RRef|Any|AnyEnumType)\b | (?:(?<=\()|(?<=,\ )|(?<=->\ ))t(?:1|2|Val)?(?:\W|$)
    | \.\.\. | \(\*\) | \]\( | \(\(""",
    re.VERBOSE,
)


@cache
def registered():
    """The schemas of the aten operators that this build of PyTorch has."""
    return [schema for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("aten::")]


@cache
def registered_texts():
    return [text for schema in registered() if not NOT_NATIVE.search(text := str(schema))]


@cache
def declared_texts():
    """The signatures as native_functions.yaml spells them: enum names as defaults, either kind of quote."""
    path = Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
    return re.findall(r"^- func: (.*?)\s*$", path.read_text(), re.MULTILINE)


@cache
def inventory_texts():
    texts = []
    for path in sorted(INVENTORY.glob("*.csv")):
        with path.open(newline="") as file:
            texts += [row["schema"] for row in csv.DictReader(file) if row.get("schema")]
    return [text for text in texts if not NOT_NATIVE.search(text)]


# --- round trip --------------------------------------------------------------------------------------


def check_round_trip(texts):
    wrong = []
    for text in texts:
        try:
            again = str(parse_schema(text))
        except SchemaError as error:
            again = str(error)
        if again != text:
            wrong.append((text, again))
    assert not wrong


def test_registered_schemas_round_trip():
    assert len(registered_texts()) > 3500
    check_round_trip(registered_texts())


def test_declared_schemas_round_trip():
    assert len(declared_texts()) > 2000
    check_round_trip(declared_texts())


@pytest.mark.skipif(not INVENTORY.is_dir(), reason="the inventory is not part of the repository")
def test_inventory_schemas_round_trip():
    assert len(inventory_texts()) > 1000
    check_round_trip(inventory_texts())


def test_little_is_left_out():
    """What is not expressible is TorchScript's own: nothing that torchgen can parse."""
    left_out = [str(schema) for schema in registered() if NOT_NATIVE.search(str(schema))]
    assert len(left_out) < 200
    for text in left_out:
        with pytest.raises(Exception):
            torchgen.model.FunctionSchema.parse(text.removeprefix("aten::"))
        with pytest.raises(SchemaError):
            parse_schema(text)


# --- parts, against the parsers of PyTorch -----------------------------------------------------------


def expected_default(value, argument: Argument):
    """The default as TorchScript knows it, in the terms of rushlight."""
    if isinstance(value, list):
        return tuple(value)
    if argument.type.base == "ScalarType" and isinstance(value, int):
        return {4: dtypes.int64}[value]
    if argument.type.base == "MemoryFormat" and isinstance(value, int):
        return {0: tokens.contiguous_format}[value]
    return value


def test_parts_agree_with_torchscript():
    compared = 0
    for theirs in registered():
        text = str(theirs)
        if NOT_NATIVE.search(text):
            continue
        schema = parse_schema(text)
        assert f"{schema.namespace}::{schema.name}" == theirs.name
        assert schema.overload == theirs.overload_name
        assert schema.argument_names == tuple(argument.name for argument in theirs.arguments)
        assert len(schema.returns) == len(theirs.returns)
        assert [mine.name for mine in schema.returns] == [other.name or "" for other in theirs.returns]
        for mine, other in zip(schema.arguments, theirs.arguments, strict=True):
            compared += 1
            assert mine.keyword_only == other.kwarg_only, text
            assert mine.is_required is not other.has_default_value(), text
            assert mine.is_mutable == (other.alias_info is not None and other.alias_info.is_write), text
            if not mine.is_required:
                expected = expected_default(other.default_value, mine)
                assert mine.default == expected, (text, mine)
                assert type(mine.default) is type(expected), (text, mine)
            assert mine.type.optional == isinstance(other.type, torch.OptionalType), text
    assert compared > 12000


def test_kinds_agree_with_torchgen():
    kinds = torchgen.model.SchemaKind
    seen = set()
    for text in declared_texts():
        schema, theirs = parse_schema(text), torchgen.model.FunctionSchema.parse(text)
        kind = theirs.kind()
        seen.add(kind)
        assert schema.is_inplace is (kind is kinds.inplace), text
        assert schema.has_out is (kind is kinds.out), text
        assert schema.full_name == str(theirs.name), text
        assert [schema.arguments[i].name for i in schema.out_arguments] == [
            argument.name for argument in theirs.arguments.out
        ]
        assert [argument.name for argument in schema.positional] == [
            argument.name for argument in theirs.arguments.flat_positional
        ], text
        tensors = [argument.name for argument in theirs.arguments.flat_all if argument.type.is_tensor_like()]
        assert [schema.arguments[i].name for i in schema.tensor_arguments] == tensors, text
        for argument in schema.arguments:
            theirs_argument = next(a for a in theirs.arguments.flat_all if a.name == argument.name)
            assert argument.type.is_list is (theirs_argument.type.is_list_like() is not None), text
            is_optional = isinstance(theirs_argument.type, torchgen.model.OptionalType)
            assert argument.type.optional is is_optional, text
            assert str(argument.type).split("(")[0] in str(theirs_argument.type), text
    assert {kinds.functional, kinds.inplace, kinds.out} <= seen


# --- the data ----------------------------------------------------------------------------------------


def test_an_ordinary_schema():
    schema = parse_schema("add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor")
    assert (schema.namespace, schema.name, schema.overload) == ("", "add", "Tensor")
    assert schema.full_name == "add.Tensor"
    assert schema.argument_names == ("self", "other", "alpha")
    assert [argument.name for argument in schema.positional] == ["self", "other"]
    assert [argument.name for argument in schema.keyword_only] == ["alpha"]
    assert schema.arguments == schema.positional + schema.keyword_only
    assert schema.tensor_arguments == (0, 1)
    assert schema.mutable_arguments == schema.out_arguments == ()
    assert not schema.is_inplace
    assert not schema.has_out
    alpha = schema.argument("alpha")
    assert (alpha.default, alpha.default_text, alpha.is_required) == (1, "1", False)
    assert schema.argument("self").default is REQUIRED
    assert schema.argument("self").is_required
    assert schema.returns == (Argument("", Type("Tensor")),)
    with pytest.raises(KeyError, match=r"add\.Tensor has no argument 'beta'; it has self, other, alpha"):
        schema.argument("beta")


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("Tensor", {"base": "Tensor", "is_tensor": True, "is_tensor_list": False, "optional": False}),
        ("Tensor?", {"base": "Tensor", "is_tensor": True, "optional": True, "element_optional": False}),
        ("Tensor[]", {"is_tensor": False, "is_tensor_list": True, "is_list": True, "size": None}),
        ("Tensor?[]", {"is_tensor_list": True, "element_optional": True, "optional": False}),
        ("Tensor?[]?", {"is_tensor_list": True, "element_optional": True, "optional": True}),
        ("Tensor(a!)", {"is_tensor": True, "is_mutable": True}),
        ("Tensor(a)", {"is_tensor": True, "is_mutable": False}),
        ("Tensor(a!)[]", {"is_tensor_list": True, "is_mutable": True}),
        ("Tensor(a -> *)", {"is_tensor": True, "is_mutable": False}),
        ("Tensor(a|b)", {"is_tensor": True, "is_mutable": False}),
        ("SymInt", {"name": "SymInt", "base": "int", "is_int": True}),
        ("SymInt[2]", {"name": "SymInt", "base": "int", "is_int": False, "is_int_list": True, "size": 2}),
        ("int[1]?", {"is_int_list": True, "size": 1, "optional": True, "element_optional": False}),
        ("SymBool", {"base": "bool", "is_bool": True}),
        ("float?", {"base": "float", "is_float": True, "optional": True}),
        ("Scalar", {"base": "Scalar", "is_scalar": True}),
        ("Scalar[]", {"base": "Scalar", "is_scalar": False, "is_list": True}),
        (
            "__torch__.torch.classes.rnn.CellParamsBase[]",
            {"base": "__torch__.torch.classes.rnn.CellParamsBase"},
        ),
    ],
)
def test_types(text, fields):
    schema = parse_schema(f"f({text} x) -> {text}")
    found = schema.arguments[0].type
    assert {name: getattr(found, name) for name in fields} == fields
    assert str(found) == text
    assert schema.returns[0].type == found


def test_alias_sets():
    def alias_of(text):
        return parse_schema(f"f(Tensor({text}) x) -> ()").arguments[0].type.alias

    assert (alias_of("a!").before, alias_of("a!").write, alias_of("a!").after) == (("a",), True, ())
    assert (alias_of("a -> *").before, alias_of("a -> *").after) == (("a",), ("*",))
    assert alias_of("b|a").before == ("b", "a")
    assert parse_schema("f(Tensor x) -> ()").arguments[0].type.alias is None


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("int x=3", 3),
        ("int x=-1", -1),
        ("SymInt x=2", 2),
        ("int x=Mean", 1),
        ("bool x=True", True),
        ("bool x=False", False),
        ("float x=0", 0.0),
        ("float x=0.", 0.0),
        ("float x=1e-05", 1e-5),
        ("float x=inf", math.inf),
        ("float x=-inf", -math.inf),
        ("Scalar x=1", 1),
        ("Scalar x=0.5", 0.5),
        ("Scalar x=True", True),
        ("Scalar x=-1e-8", -1e-8),
        ("int? x=None", None),
        ("int[1]? x=None", None),
        ("int[2] x=1", (1, 1)),
        ("int[2] x=[0,1]", (0, 1)),
        ("int[2] x=[0, 1]", (0, 1)),
        ("int[] x=[]", ()),
        ("SymInt[3] x=0", (0, 0, 0)),
        ("float[] x=[1,2.5]", (1.0, 2.5)),
        ("bool[1] x=[True]", (True,)),
        ('str x="mean"', "mean"),
        ("str x='constant'", "constant"),
        ('str x=""', ""),
        ('str x="a, b) -> c"', "a, b) -> c"),
        ("str? x='it\\'s'", "it's"),
        ('str x="\\n\\t"', "\n\t"),
        ("ScalarType? x=long", dtypes.int64),
        ("ScalarType x=4", dtypes.int64),
        ("ScalarType x=11", dtypes.bool_),
        ("Layout x=strided", tokens.strided),
        ("MemoryFormat x=contiguous_format", tokens.contiguous_format),
        ("MemoryFormat x=1", tokens.preserve_format),
        ("complex x=1j", 1j),
    ],
)
def test_defaults(argument, expected):
    text = f"f({argument}) -> ()"
    found = parse_schema(text).arguments[0]
    assert found.default == expected
    assert type(found.default) is type(expected)
    assert str(parse_schema(text)) == text


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (0, "uint8"),
        (1, "int8"),
        (2, "int16"),
        (3, "int32"),
        (4, "int64"),
        (5, "float16"),
        (6, "float32"),
        (7, "float64"),
        (8, "complex32"),
        (9, "complex64"),
        (10, "complex128"),
        (11, "bool"),
        (15, "bfloat16"),
    ],
)
def test_scalar_type_codes_are_torchs(code, name):
    """TorchScript prints the default of a ScalarType as its position in PyTorch's enum."""
    assert parse_schema(f"f(ScalarType x={code}) -> ()").arguments[0].default is dtypes.DTYPES[name]
    assert torch.ops.aten.to.dtype(torch.ones(1), code).dtype is getattr(torch, name)


def test_scalar_types_that_are_not_supported_are_refused():
    with pytest.raises(SchemaError, match="16 is not a value of type ScalarType"):  # quint4x2
        parse_schema("f(ScalarType x=16) -> ()")


def test_inplace_and_out():
    inplace = parse_schema("add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)")
    assert inplace.is_inplace
    assert not inplace.has_out
    assert inplace.mutable_arguments == (0,)
    out = parse_schema(
        "max.dim_max(Tensor self, int dim, *, Tensor(a!) max, Tensor(b!) max_values) -> "
        "(Tensor(a!) values, Tensor(b!) indices)"
    )
    assert out.has_out
    assert not out.is_inplace
    assert out.mutable_arguments == out.out_arguments == (2, 3)
    assert [result.name for result in out.returns] == ["values", "indices"]
    assert parse_schema("__ior__.Tensor(Tensor(a!) self, Tensor other) -> Tensor(a!)").is_inplace
    assert not parse_schema("__or__.Tensor(Tensor self, Tensor other) -> Tensor").is_inplace
    assert not parse_schema("f_(Tensor self) -> Tensor").is_inplace


def test_spacing_is_normalised():
    spaced = parse_schema(
        "  f.x( Tensor self ,int dim=0,  *,\n bool keepdim=False )   ->  ( Tensor a , Tensor b ) "
    )
    assert str(spaced) == "f.x(Tensor self, int dim=0, *, bool keepdim=False) -> (Tensor a, Tensor b)"
    assert str(parse_schema("f( ) -> ( )")) == "f() -> ()"
    assert str(parse_schema("f() -> (Tensor)")) == "f() -> Tensor"


def test_schemas_are_cached_immutable_and_hashable():
    text = "sum.dim_IntList(Tensor self, int[1]? dim, bool keepdim=False, *, ScalarType? dtype=None) -> int"
    schema = parse_schema(text)
    assert parse_schema(text) is schema
    for value in (schema, schema.arguments[0], schema.arguments[0].type):
        hash(value)
        with pytest.raises(dataclasses.FrozenInstanceError):
            value.name = "x"
    assert schema == Schema("", "sum", "dim_IntList", schema.arguments, schema.returns)
    assert schema != parse_schema(text.replace("sum.", "prod."))
    again = pickle.loads(pickle.dumps(schema))
    assert again == schema
    assert again.arguments[0].default is REQUIRED
    assert repr(REQUIRED) == "REQUIRED"


# --- errors ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "position", "message"),
    [
        ("", 0, "expected an operator name"),
        ("add", 0, "expected an operator name"),
        ("add(", 4, "expected an argument"),
        ("add(Tensor self", 15, "not closed"),
        ("add(Tensor self) Tensor", 17, "expected '->'"),
        ("add(Tensor self) ->", 19, "expected a return"),
        ("add(Tensor self) -> (Tensor, Tensor", 35, "parentheses"),
        ("add(Tensor self) -> Tensor, Tensor", 28, "several returns need parentheses"),
        ("add(Tensor self) -> Tensor)", 27, "do not match"),
        ("add(Tensor self) -> (Tensor) x", 29, "unexpected text"),
        ("add(Tensor self) -> () x", 22, "unexpected text"),
        ("add(Tensor self) -> (int x=1, Tensor)", 21, "a return cannot have a default"),
        ("add(Tensor self,) -> Tensor", 16, "expected an argument"),
        ("add(Tensor self Tensor other) -> Tensor", 4, "expected an argument"),
        ("add(Tenosr self) -> Tensor", 4, "unknown type 'Tenosr'"),
        ("add(Tensor) -> Tensor", 4, "has no name"),
        ("add(Tensor self, int self) -> Tensor", 17, "already an argument called 'self'"),
        ("add(Tensor self, *) -> Tensor", 17, "a '\\*' must come once"),
        ("add(Tensor self, *, int a, *, int b) -> Tensor", 27, "a '\\*' must come once"),
        ("add(Tensor self, int dim=x) -> Tensor", 25, "x is not a value of type int"),
        ("add(int dim=None) -> Tensor", 12, "None is not a value of type int"),
        ("add(int dim=1.5) -> Tensor", 12, "1.5 is not a value of type int"),
        ("add(int[] dims=1) -> Tensor", 15, "1 is not a value of type int\\[\\]"),
        ("add(int[2] dims=[0,x]) -> Tensor", 16, "not a value"),
        ("add(bool x=1) -> Tensor", 11, "1 is not a value of type bool"),
        ("add(str x=mean) -> Tensor", 10, "mean is not a value of type str"),
        ("add(Tensor x=1) -> Tensor", 13, "1 is not a value of type Tensor"),
        ("add(MemoryFormat x=columns) -> Tensor", 19, "columns is not a value"),
        ("add(ScalarType x=int7) -> Tensor", 17, "int7 is not a value"),
        ("add(Tensor(a!!) self) -> Tensor", 11, "expected an alias"),
        ("add(Tensor[ self) -> Tensor", 4, "expected an argument"),
        ("add.(Tensor self) -> Tensor", 0, "expected an operator name"),
    ],
)
def test_malformed_schemas(text, position, message):
    with pytest.raises(SchemaError, match=message) as caught:
        parse_schema(text)
    assert f"at position {position}\n" in str(caught.value)
    assert text in str(caught.value)
    assert str(caught.value).endswith("\n  " + " " * position + "^")


schema_characters = st.text(alphabet="Tensor int[]?()!*,->=.x: 1\"'", max_size=60)


@settings(deadline=None)
@given(schema_characters)
def test_any_text_parses_or_raises_schema_error(text):
    for candidate in (text, f"f({text}) -> Tensor", f"f(Tensor self) -> {text}"):
        try:
            schema = parse_schema(candidate)
        except SchemaError:
            continue
        assert parse_schema(str(schema)) == schema


NAMES = st.from_regex(r"[a-z][a-z0-9_]{0,8}", fullmatch=True)
TYPES = st.sampled_from(
    [
        "Tensor",
        "Tensor?",
        "Tensor[]",
        "Tensor(a!)",
        "Tensor(b -> *)",
        "Tensor?[]",
        "int",
        "SymInt",
        "SymInt[2]",
        "int[1]?",
        "float",
        "bool",
        "Scalar",
        "str?",
        "ScalarType?",
        "Device?",
    ]
)
ARGUMENTS = st.lists(st.tuples(TYPES, NAMES), max_size=8, unique_by=lambda pair: pair[1])


@settings(deadline=None)
@given(NAMES, st.none() | NAMES, ARGUMENTS, st.integers(0, 8), st.lists(TYPES, max_size=4))
def test_generated_schemas_round_trip(name, overload, arguments, star, returns):
    parts = [f"{kind} {argument}{'=None' if kind.endswith('?') else ''}" for kind, argument in arguments]
    if star < len(parts):
        parts.insert(star, "*")
    results = returns[0] if len(returns) == 1 else f"({', '.join(returns)})"
    text = f"{name}{'.' + overload if overload else ''}({', '.join(parts)}) -> {results}"
    schema = parse_schema(text)
    assert str(schema) == text
    assert [(str(argument.type), argument.name) for argument in schema.arguments] == arguments
    assert len(schema.keyword_only) == max(0, len(arguments) - star)
