"""The rows of the coverage tables, and which operator serves each of them.

derivatives.csv, decompositions.csv and lowerings.csv name what PyTorch has: entries of its derivative table,
of its decomposition table, and what Inductor lowers. `rows()` gives one `Line` for each of them: the operator
here, in its functional, in-place or out= form, or the reason why the row names nothing that could be here.
In-place and out= forms are derived, so such a row is served by the functional operator with the same
arguments.
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import rushlight  # noqa: F401  fills the registry
from rushlight.core.aten import namespace
from rushlight.core.registry import REGISTRY, OpDef
from rushlight.core.schema import Argument, Schema, SchemaError, parse_schema

TABLES = ("derivatives", "decompositions", "lowerings")
FUNCTIONAL, INPLACE, OUT = "functional", "in-place", "out="

# Rows that name nothing a tensor library could have, and why. The first match counts.
APART: tuple[tuple[str, str], ...] = (
    ("belongs to the way PyTorch shards or shares memory", r"(symm_mem|_dtensor|fsdp)\..*"),
    ("names a kernel of another library", r"(mkldnn|mkl|onednn|quantized|_quantized)\..*"),
    (
        "belongs to PyTorch's own compiler",
        r"(inductor|_inductor_test|streams|rngprims)\..*|prims\.inductor_.*|"
        r"prims\.(_make_token|_sink_tokens|prepare_softmax_online|_low_memory_.*|_unsafe_index_put_).*|_foobar.*|"
        r"triton_kernel_.*|auto_functionalized|control_deps|with_effects|inline_asm_elementwise|foreach_map|"
        r"run_.*rng.*|graphsafe_.*|invoke_.*|sym_constrain_range.*|prims\.xor_sum|out_dtype",
    ),
    (
        "a function of Python functions, not an operator",
        r"cond|while_loop.*|associative_scan|flex_attention.*",
    ),
    (
        "on Python's lists, dictionaries and strings",
        r"\w+\.(t|left_t|right_|Dict_\w+|list_\w+|Tensor_list|enum|str|str_list)",
    ),
)
_APART = tuple((reason, re.compile(pattern)) for reason, pattern in APART)

# Operators of the namespace `prims` that have another name here; the others are those of the same name.
PRIMS = {
    "convert_element_type": "_to_copy",
    "broadcast_in_dim": "expand",
    "view_of": "alias",
    "rev": "flip",
    "device_put": "_to_copy",
    "iota": "arange.start_step",
    "bessel_j0": "special_bessel_j0",
    "bessel_j1": "special_bessel_j1",
    "spherical_bessel_j0": "special_spherical_bessel_j0",
    "erfcx": "special_erfcx",
    "ndtri": "special_ndtri",
    "zeta": "special_zeta",
    "copy_strided": "copy",
    "add": "add.Tensor",
    "sub": "sub.Tensor",
    "fma": "addcmul",
    "frexp": "frexp.Tensor",
    "sum": "sum.dim_IntList",
    "var": "var.correction",
}

# Rows whose operator has another name here.
NAMES = {
    "normal_": "normal_functional",
    "bernoulli_.float": "bernoulli.p",
    "transpose_": "transpose.int",
    "split": "split_with_sizes",
    "fill_": "fill.Scalar",
    "copy_.Tensor": "copy",
    "copy_.int": "fill.Scalar",
    "copy_.float": "fill.Scalar",
}

# Rows without an overload stand for all of them; the lowering is that of this one, not of the plain name.
PACKETS = {"where": "where.self"}

# Rows that are methods of a tensor: they return no new one.
METHODS = {
    "sym_size.int": "size",
    "sym_stride.int": "stride",
    "sym_numel": "numel",
    "resize_": "resize_",
    "resize_as_": "resize_as_",
    "set_.source_Tensor": "set_",
}

# What makes or places a result and is no part of what it is: out= forms have it from their target.
_OPTIONS = frozenset(
    ("dtype", "layout", "device", "pin_memory", "memory_format", "generator", "non_blocking")
)


@dataclass(frozen=True)
class Line:
    """A row: the operator that serves it (and in which form), or why there is none."""

    table: str
    row: str
    marks: tuple[str, ...]  # of a decomposition: first, core; of a lowering: first, native or fallback
    op: str = ""
    form: str = FUNCTIONAL
    reason: str = ""  # why the row needs no operator

    @property
    def present(self) -> bool:
        return bool(self.op)

    @property
    def key(self) -> str:
        """What is measured for this row: the operator, or its in-place form."""
        return f"{self.op} in place" if self.form == INPLACE else self.op


@functools.cache
def rows() -> tuple[Line, ...]:
    """Every row of every table."""
    return tuple(line for table in TABLES for line in _lines(table))


def facts(table: str) -> list[dict[str, str]]:
    """A table as it was written down."""
    with Path(__file__).with_name(f"{table}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def _lines(table: str) -> Iterator[Line]:
    for fact in facts(table):
        marks = [name for name in ("first", "core") if fact.get(name)]
        marks += [fact["inductor"]] if "inductor" in fact else []
        line = Line(table, fact["op"], tuple(marks))
        served = _served(
            line, fact["op"].removesuffix(".default"), fact.get("schema", "").removeprefix("aten::")
        )
        # derivatives.csv names formulas, whose operators are reached by other names, too
        yield line if served.present and table != "derivatives" and not is_reachable(fact["op"]) else served


def is_reachable(row: str) -> bool:
    """Whether a program finds the operator of a row, such as `add.out`, as an attribute of `ops`."""
    space, _, rest = row.partition(".")
    if space not in _namespaces() | {"prims"}:
        space, rest = "aten", row
    name, _, overload = rest.partition(".")
    packet = getattr(namespace(space), name, None)
    if packet is None:
        return False
    return not overload or hasattr(packet, overload)


def _served(line: Line, name: str, text: str) -> Line:
    def by(op: str, form: str = FUNCTIONAL) -> Line:
        return Line(line.table, line.row, line.marks, op, form)

    space, _, rest = name.partition(".")
    if space in _namespaces():
        name = f"{space}::{rest}"
    name = name.removeprefix("prims.")
    if line.row.startswith("prims.") and name in PRIMS:
        return by(PRIMS[name])
    if line.row in PACKETS:
        return by(PACKETS[line.row])
    if name in REGISTRY:
        return by(name)
    base, _, overload = name.partition(".")
    if name in NAMES:
        return by(NAMES[name], INPLACE if base.endswith("_") else FUNCTIONAL)
    reason = next(
        (reason for reason, pattern in _APART if pattern.fullmatch(line.row.removesuffix(".default"))), ""
    )
    reason = f"no operator but the method Tensor.{METHODS[name]}" if name in METHODS else reason
    schema = _parsed(text)
    if not reason and schema is not None and not _concerns_tensors(schema):
        reason = "on Python's numbers; no tensor takes part"
    if reason:
        return Line(line.table, line.row, line.marks, reason=reason)
    form, wanted = FUNCTIONAL, base
    if schema is not None and schema.out_arguments:
        form = OUT
    elif not overloads(base) and base.startswith("__i"):
        form, wanted = INPLACE, f"__{base[3:]}"
    elif not overloads(base) and base.endswith("_"):
        form, wanted = INPLACE, base[:-1]
    found = _matching(schema, wanted) if schema is not None else next(iter(overloads(wanted)), None)
    if found is None and form is INPLACE:
        found = REGISTRY.ops.get(f"{wanted}.{overload}" if overload else wanted)
    return line if found is None else by(found.name, form)


def _parsed(text: str) -> Schema | None:
    try:
        return parse_schema(text) if text else None
    except SchemaError:
        return None


def _concerns_tensors(schema: Schema) -> bool:
    return any(
        part.type.base in ("Tensor", "Storage", "Layout") for part in (*schema.arguments, *schema.returns)
    )


def overloads(name: str) -> list[OpDef]:
    return _by_name().get(name, [])


@functools.cache
def _namespaces() -> frozenset[str]:
    """The namespaces of operators that are not ATen's."""
    return frozenset(op.schema.namespace for op in REGISTRY) - {"", "aten"}


@functools.cache
def _by_name() -> dict[str, list[OpDef]]:
    found: dict[str, list[OpDef]] = {}
    for op in REGISTRY:
        if op.schema.namespace in _namespaces():
            continue
        found.setdefault(op.schema.name, []).append(op)
    return found


def _matching(schema: Schema, name: str) -> OpDef | None:
    """The overload of `name` with the arguments of `schema`, apart from those that are written to."""
    outs = schema.out_arguments
    wanted = [a for i, a in enumerate(schema.arguments) if i not in outs]
    for whole in (True, False):
        for op in overloads(name):
            if _signature(op.schema.arguments, whole) == _signature(wanted, whole):
                return op
    return None


def _signature(arguments: tuple[Argument, ...] | list[Argument], whole: bool) -> list[tuple[str, str, bool]]:
    return [(a.name, a.type.base, a.type.is_list) for a in arguments if whole or a.name not in _OPTIONS]
