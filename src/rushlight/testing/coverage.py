"""Coverage: for each row of the tables, what each stage has, and how that was found out.

In: the rows (coverage_rows), and measurements of the operators that serve them (measure), which are kept in
coverage.json since they take minutes. Out: `table()`, one `Covered` for each row; `counts()`, the sums that
docs/coverage.md shows between two markers; `floors()`, below which no sum may fall.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from rushlight.core.registry import REGISTRY

from . import inventory
from .coverage_rows import INPLACE, Line, rows
from .measure import BODY, BREAK, EXTERN, NATIVE, NONE, STAGES, TEMPLATE, VIEW, measure
from .witness import CONSTANT, OK

MEASURED = Path(__file__).with_name("coverage.json")
FLOORS = Path(__file__).with_name("coverage_floors.json")
PAGE = Path("docs/coverage.md")
BEGIN, END = "<!-- coverage: rushlight coverage --update-page -->", "<!-- end of coverage -->"
HOLD = (OK, CONSTANT, inventory.FORMULA)
NOT_MEASURED = "not measured"

Measurements = dict[str, dict[str, dict[str, str]]]  # "operators", "derivatives" -> name -> stage -> outcome


@dataclass(frozen=True)
class Covered:
    """A row with what each stage has."""

    line: Line
    stages: dict[str, str]  # outcome by stage; "-" where a stage does not concern the row

    @property
    def decomposed(self) -> bool:
        """It is defined by simpler operators, by a scalar body, or by index arithmetic alone."""
        return self.stages["decomposition"] in (OK, BODY, VIEW)

    @property
    def lowered(self) -> str:
        """native, template, view, extern, break; or "" where it does not compile."""
        word = self.stages["compiled"].partition(":")[0]
        return word if word in (NATIVE, TEMPLATE, VIEW, EXTERN, BREAK) else ""

    def holds(self, stage: str) -> bool:
        return self.stages[stage] in HOLD


# Measurements.


def load(path: Path = MEASURED) -> Measurements:
    if not path.exists():
        return {"operators": {}, "derivatives": {}}
    stored = json.loads(path.read_text(encoding="utf-8"))
    return {
        "operators": {
            name: dict(zip(STAGES, found, strict=True)) for name, found in stored["operators"].items()
        },
        "derivatives": {
            name: dict(zip(inventory.STAGES, found, strict=True))
            for name, found in stored["derivatives"].items()
        },
    }


def save(measured: Measurements, path: Path = MEASURED) -> None:
    """As lists, one operator on a line, so that changes are easy to review."""
    parts = []
    for kind in ("operators", "derivatives"):
        lines = [
            f"  {json.dumps(name)}: {json.dumps(list(found.values()), ensure_ascii=False)}"
            for name, found in sorted(measured[kind].items())
        ]
        parts.append(f' "{kind}": {{\n' + ",\n".join(lines) + "\n }")
    path.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def wanted() -> dict[str, list[str]]:
    """What there is to measure."""
    return {
        "operators": sorted({key for line in rows() if line.present for key in (line.key, line.op)}),
        "derivatives": [line.row for line in rows() if line.table == "derivatives" and line.present],
    }


def update(measured: Measurements, pattern: str | None, tell: Callable[[str], None]) -> Measurements:
    """Measure what matches `pattern`; without one, what was never measured. What is gone is dropped."""
    result: Measurements = {}
    facts = {fact["op"]: fact for fact in inventory.table()}
    for kind, names in wanted().items():
        known = {name: measured[kind][name] for name in names if name in measured[kind]}
        chosen = [
            name for name in names if (re.search(pattern, name) if pattern is not None else name not in known)
        ]
        for name in chosen:
            tell(name)
            if kind == "operators":
                known[name] = measure(name)
            else:
                row = inventory.check_row(facts[name])
                known[name] = {stage: getattr(row, stage) for stage in inventory.STAGES}
        result[kind] = known
    return result


# Rows with their stages.


def table(measured: Measurements) -> list[Covered]:
    return [Covered(line, _stages(line, measured)) for line in rows()]


def _stages(line: Line, measured: Measurements) -> dict[str, str]:
    if not line.present:
        return dict.fromkeys(("schema", *STAGES), NONE)
    found = measured["operators"].get(line.key, dict.fromkeys(STAGES, NOT_MEASURED))
    stages = {"schema": OK, **found}
    if line.form == INPLACE:  # the functional operator's result, written
        stages |= {
            stage: measured["operators"].get(line.op, found)[stage]
            for stage in ("reverse", "forward", "second", "decomposition")
        }
    if line.table == "derivatives":
        stages |= measured["derivatives"].get(line.row, dict.fromkeys(inventory.STAGES, NOT_MEASURED))
    return stages


def how(line: Line) -> str:
    """How the derivative, and how the code of a row come about."""
    if not line.present:
        return line.reason or "missing"
    op = REGISTRY[line.op]
    words = [op.kind.value, line.form]
    if op.lowering is not None and not callable(op.lowering):
        words.append(str(op.lowering))
    return ", ".join(words)


# Sums.


def counts(covered: Iterable[Covered]) -> dict[str, int]:
    """Every sum by its name: "table.part.what"."""
    covered = list(covered)
    sums: dict[str, int] = {}
    for title, chosen in parts(covered):
        here = [c for c in chosen if c.line.present]
        sums[f"{title}.rows"] = len(chosen)
        sums[f"{title}.apart"] = sum(bool(c.line.reason) for c in chosen)
        sums[f"{title}.present"] = len(here)
        sums[f"{title}.eager"] = sum(c.holds("eager") for c in here)
        if title.startswith("derivatives"):
            sums |= {f"{title}.{stage}": sum(c.holds(stage) for c in here) for stage in inventory.STAGES}
        elif title.startswith("decompositions"):
            sums[f"{title}.decomposed"] = sum(c.decomposed for c in here)
        else:
            sums |= {
                f"{title}.{word}": sum(c.lowered == word for c in here)
                for word in (NATIVE, VIEW, TEMPLATE, EXTERN, BREAK)
            }
            sums[f"{title}.compiled"] = sum(c.lowered in (NATIVE, VIEW, TEMPLATE, EXTERN) for c in here)
    return sums


def parts(covered: list[Covered]) -> list[tuple[str, list[Covered]]]:
    def of(name: str, mark: str = "") -> list[Covered]:
        return [c for c in covered if c.line.table == name and (not mark or mark in c.line.marks)]

    return [
        ("derivatives.all", of("derivatives")),
        *[(f"decompositions.{mark or 'all'}", of("decompositions", mark)) for mark in ("first", "core", "")],
        *[(f"lowerings.{mark or 'all'}", of("lowerings", mark)) for mark in ("first", "fallback", "")],
    ]


def floors() -> dict[str, int]:
    known: dict[str, int] = json.loads(FLOORS.read_text(encoding="utf-8")) if FLOORS.exists() else {}
    return known


# Sums that should not grow: rows of the tables are what they are, and a native row is better than the others.
FREE = ("rows", "apart", TEMPLATE, VIEW, NATIVE, EXTERN, BREAK)


def fallen(sums: dict[str, int], least: dict[str, int]) -> list[str]:
    """Sums below what was reached before, one line each."""
    return [
        f"{name} fell from {least[name]} to {sums.get(name, 0)}"
        for name in least
        if sums.get(name, 0) < least[name]
    ]


def raised(sums: dict[str, int], least: dict[str, int]) -> dict[str, int]:
    """The floors with everything that was reached since; native code counts whichever form it has."""
    reached = {name: count for name, count in sums.items() if name.rpartition(".")[2] not in FREE}
    return {name: max(count, least.get(name, 0)) for name, count in reached.items()}


# The page of docs/.


def block(sums: dict[str, int]) -> str:
    """The counts as the page has them."""

    def cells(*values: object) -> str:
        return "| " + " | ".join(str(value) for value in values) + " |"

    def of(part: str) -> dict[str, int]:
        return {
            name.rpartition(".")[2]: count for name, count in sums.items() if name.rpartition(".")[0] == part
        }

    d = of("derivatives.all")
    lines = [
        cells("derivative table", "rows", "present", "reverse", "forward", "double backward"),
        cells("---", *["---:"] * 5),
        cells("all", d["rows"], d["present"], d["reverse"], d["forward"], d["second"]),
        "",
        cells("decomposition table", "rows", "present", "runs", "decomposed"),
        cells("---", *["---:"] * 4),
    ]
    for name in ("first", "core", "all"):
        part = of(f"decompositions.{name}")
        lines.append(cells(name, part["rows"], part["present"], part["eager"], part["decomposed"]))
    lines += [
        "",
        cells(
            "lowering table",
            "rows",
            "apply",
            "present",
            "native loops",
            "native template",
            "library call",
            "no graph",
        ),
        cells("---", *["---:"] * 7),
    ]
    for name in ("first", "fallback", "all"):
        part = of(f"lowerings.{name}")
        lines.append(
            cells(
                name,
                part["rows"],
                part["rows"] - part["apart"],
                part["present"],
                part[NATIVE] + part[VIEW],
                part[TEMPLATE],
                part[EXTERN],
                part[BREAK],
            )
        )
    return "\n".join(lines)


def written(text: str, sums: dict[str, int]) -> str:
    """The page with the counts between its markers."""
    before, found, rest = text.partition(BEGIN)
    _, closed, after = rest.partition(END)
    if not found or not closed:
        raise ValueError(f"docs/coverage.md has no lines {BEGIN} and {END} between which counts could stand")
    return f"{before}{BEGIN}\n{block(sums)}\n{END}{after}"
