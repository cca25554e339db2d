"""The page of a compiled call: everything that `explain` knows, in one file for a browser."""

from __future__ import annotations

import platform
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import pages
from ..runtime.engine import engine
from .anatomy import Anatomy

if TYPE_CHECKING:
    from .explain import Explanation

LONGEST = 3000  # lines of a source file that is shown whole
AROUND = 30  # lines before and after those of a longer one
CODE = frozenset(("emit", "assemble"))  # shown by function


def render_page(told: Explanation) -> str:
    data = page_data(told)
    return pages.render(
        "program",
        data,
        ["plot", "cytoscape", "dagre", "highlight"],
        title=f"{told.name} · Rushlight",
        later=_take_texts(data),
        lazy=True,
    )


def _take_texts(data: dict[str, Any]) -> dict[str, Any]:
    """Take the long texts out of the data of a page: it opens without them, and unpacks them when it is there."""
    functions = []
    for program in data["programs"]:
        code = {name: (each["llvm"], each["assembly"]) for name, each in program["functions"].items()}
        functions.append(code)
        program["functions"] = {
            name: {
                "kernels": each["kernels"],
                "lines": {"llvm": _line_count(each["llvm"]), "assembly": _line_count(each["assembly"])},
            }
            for name, each in program["functions"].items()
        }
    passes = [each.pop("text") for each in data["passes"]]
    for each, text in zip(data["passes"], passes, strict=True):
        each["changed"] = bool(text)
    return {"functions": functions, "passes": passes, "guards": data.pop("guards")}


def _line_count(text: str) -> int:
    return len(text.splitlines())


def page_data(told: Explanation) -> dict[str, Any]:
    """What the script of the page (pages/templates/program.js) draws."""
    programs = told.programs
    target = engine().target
    return {
        "name": told.name,
        "machine": {"cpu": target.cpu, "triple": target.triple, "system": platform.platform()},
        "programs": [program.to_data() for program in programs],
        "sources": _sources(programs, told.breaks),
        "passes": _passes(told),
        "call": told.call_path,
        "guards": told.guards,
        "symbols": told.symbols,
        "reasons": told.reasons,
        "breaks": told.breaks,
        "measured": None if told.measurement is None else told.measurement.to_data(),
    }


def _sources(programs: Iterable[Anatomy], breaks: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The files that nodes are of, those with most of them first."""
    lines: dict[str, list[int]] = {}
    for program in programs:
        for node in program.nodes:
            if node["line"]:
                lines.setdefault(node["file"], []).append(node["line"])
    for found in breaks:
        if found["line"]:
            lines.setdefault(found["file"], []).append(found["line"])
    sources = []
    for file, used in sorted(lines.items(), key=lambda item: -len(item[1])):
        try:
            text = Path(file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError):
            continue  # a cell of a notebook that is gone, a string that was executed
        shown = _shown(len(text), set(used))
        parts = [{"first": first + 1, "lines": text[first:last]} for first, last in shown]
        sources.append({"file": file, "name": Path(file).name, "parts": parts})
    return sources


def _shown(length: int, used: set[int]) -> list[tuple[int, int]]:
    """Which lines of a file are shown, as ranges counted from 0."""
    if length <= LONGEST:
        return [(0, length)]
    ranges: list[tuple[int, int]] = []
    for line in sorted(used):
        first, last = max(0, line - 1 - AROUND), min(length, line + AROUND)
        if ranges and first <= ranges[-1][1]:
            ranges[-1] = ranges[-1][0], last
        else:
            ranges.append((first, last))
    return ranges


def _passes(told: Explanation) -> list[dict[str, Any]]:
    """Every pass with its time, and its text where that is another than before."""
    found: list[dict[str, Any]] = []
    before = ""
    for stage in told.stages:
        text = "" if stage.name in CODE or stage.text == before else stage.text
        before = stage.text if stage.name not in CODE else before
        found.append(
            {"program": stage.program.strip(), "name": stage.name, "seconds": stage.seconds, "text": text}
        )
    return found
