"""What the page of an operator shows, as plain data."""

from __future__ import annotations

import functools
import json
import re
from inspect import cleandoc
from pathlib import Path
from typing import Any

import rushlight.batching.rules
from rushlight._api.link import API
from rushlight.capture.errors import CaptureError
from rushlight.core.documentation import Section, key_of, sections
from rushlight.core.registry import REGISTRY, OpDef
from rushlight.loops.expr import NotRecordable

from . import curves, small_case
from .sources import PACKAGE, sources

MEASURED = Path(__file__).parent / "measured.json"
COVERAGE = PACKAGE / "testing" / "coverage.json"
CONFORMANCE = PACKAGE / "testing" / "conformance.json"
EXPECTED = PACKAGE.parents[1] / "tests" / "conformance" / "expected.json"
COLUMNS = ("eager", "shape", "out", "reverse", "forward", "second", "batching", "decomposition", "compiled")


@functools.cache
def operators() -> dict[str, list[OpDef]]:
    """The registered operators: overloads by name."""
    found: dict[str, list[OpDef]] = {}
    for op in REGISTRY:
        found.setdefault(op.schema.name, []).append(op)
    return found


@functools.cache
def _public() -> dict[str, list[str]]:
    """By operator: the public names under which it is reached."""
    found: dict[str, list[str]] = {}
    tables = [*API.functions.values(), API.methods]
    for number, table in enumerate(tables):
        for packet in table.values():
            name = f"rushlight.{key_of(packet)}"
            if number == len(tables) - 1 and not packet.__qualname__.startswith("Tensor."):
                name = f"rushlight.Tensor.{packet.__name__}"
            for op in packet.overloads:
                names = found.setdefault(op.schema.name, [])
                if name not in names:
                    names.append(name)
    return found


@functools.cache
def _read(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def section_of(name: str) -> Section | None:
    """What is written about an operator, under any of its public names."""
    for public in _public().get(name, []):
        short = public.removeprefix("rushlight.")
        found = sections().get(short) or sections().get(short.removeprefix("Tensor."))
        if found is not None and not short.endswith("_"):
            return found
    text, mark, example = (getattr(rushlight.nn.functional, name, None).__doc__ or "").partition(">>> ")
    return Section(text.strip(), cleandoc(mark + example)) if mark else None


def summary(name: str) -> dict[str, Any]:
    """What the index shows."""
    overloads = operators()[name]
    section = section_of(name)
    return {
        "name": name,
        "family": overloads[0].family,
        "kind": overloads[0].kind.value,
        "text": section.text if section else _by_kind(overloads[0]),
        "public": _public().get(name) or _of_functional(name),
    }


def _of_functional(name: str) -> list[str]:
    """The function of nn.functional that calls an operator of the same name."""
    return [f"rushlight.nn.functional.{name}"] if name in rushlight.nn.functional.__all__ else []


def _by_kind(op: OpDef) -> str:
    """For operators that are no public function: what they are for, from their name and declaration."""
    base = re.sub(r"^_(foreach_)?|_(forward|for_cpu|functional|with_indices|copy)$", "", op.schema.name)
    plain = base.replace("_backward_backward", "").replace("_double_backward", "").replace("_backward", "")
    known = section_of(plain) if plain in operators() and plain != op.schema.name else None
    if "_backward" in op.schema.name or op.schema.name.endswith("_grad"):
        return f"The gradient of `{plain}`, as an operator of its own."
    if known is not None:
        every = "For each tensor of a list" if "_foreach_" in op.schema.name else f"What `{plain}` is made of"
        return f"{every}: {known.text[0].lower()}{known.text[1:]}"
    if op.body is not None and op.body.__doc__:
        return " ".join(op.body.__doc__.split())
    return f"An operator that others are made of ({op.kind.value}, family {op.family})."


def facts(name: str) -> dict[str, Any]:
    """Everything that the page of an operator shows."""
    overloads = operators()[name]
    section = section_of(name)
    curve = curves.curve_of(name)
    measured = _read(MEASURED)
    return {
        **summary(name),
        "example": section.example if section else "",
        "overloads": [_overload(op) for op in overloads],
        "curve": curves.curve(name) if curve else None,
        "case": _case(curve, section),
        "accuracy": measured.get("accuracy", {}).get(name),
        "speed": measured.get("speed", {}).get(name),
        "machine": measured.get("machine", ""),
        "coverage": _coverage(overloads),
        "conformance": _conformance(name),
    }


def _overload(op: OpDef) -> dict[str, Any]:
    return {
        "schema": str(op.schema),
        "kind": op.kind.value,
        "promotion": op.promote.value if op.promote else "",
        "dtypes": sorted(str(dtype).removeprefix("rushlight.") for dtype in op.dtypes) if op.dtypes else [],
        "stages": op.stages(),
        "sources": sources(op),
    }


def _case(curve: OpDef | None, section: Section | None) -> dict[str, str]:
    """Graph, loops and vector code of a small call; what kept it from being compiled is said in their place."""
    try:
        if curve is not None:
            return small_case.of_curve(curve)
        if section is not None:
            return small_case.of_example(section)
    except (CaptureError, NotRecordable, NotImplementedError, RuntimeError, TypeError, ValueError) as error:
        return {"refused": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
    return {}


def _coverage(overloads: list[OpDef]) -> list[dict[str, str]]:
    rows = _read(COVERAGE).get("operators", {})
    return [
        {"overload": op.name, **dict(zip(COLUMNS, rows[op.name], strict=False))}
        for op in overloads
        if op.name in rows
    ]


def _conformance(name: str) -> dict[str, Any]:
    """By entry of PyTorch's OpInfo database, variant and dtype: the samples and how many of them differ from
    PyTorch's results; and why those that are known do."""
    public = {
        re.sub(r"^rushlight\.(Tensor\.)?", "", one) for one in _public().get(name) or _of_functional(name)
    }

    def ours(entry: str) -> bool:
        return entry in public or entry.rpartition(".")[0] in public  # add; std.unbiased

    entries: dict[str, dict[str, dict[str, list[int]]]] = {}
    for cell, counts in _read(CONFORMANCE).items():
        variant, dtype = cell.split()
        for entry in filter(ours, counts):
            entries.setdefault(entry, {}).setdefault(variant, {})[dtype] = counts[entry]
    differs = [
        [cell, entry, why]
        for cell, listed in _read(EXPECTED).items()
        for entry, why in listed.items()
        if ours(entry)
    ]
    return {"entries": entries, "differs": differs}
