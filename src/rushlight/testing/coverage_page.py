"""The coverage table as one HTML file, which sorts, filters and searches by itself."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

from .coverage import Covered, counts, how

COLUMNS = (
    "schema",
    "eager",
    "shape",
    "out",
    "reverse",
    "forward",
    "second",
    "batching",
    "decomposition",
    "compiled",
)


def write_page(path: Path, covered: Sequence[Covered]) -> None:
    path.write_text(render(covered), encoding="utf-8")


def render(covered: Sequence[Covered]) -> str:
    rows = [
        [
            c.line.table,
            c.line.row,
            " ".join(c.line.marks),
            c.line.op,
            how(c.line),
            *[c.stages[stage] for stage in COLUMNS],
        ]
        for c in covered
    ]
    data = {
        "columns": ["table", "row", "marks", "operator", "how", *COLUMNS],
        "rows": rows,
        "counts": counts(covered),
    }
    text = json.dumps(data, separators=(",", ":")).replace(
        "<", "\\u003c"
    )  # nothing can close the script element
    template = resources.files(__package__).joinpath("coverage_page.html").read_text(encoding="utf-8")
    return template.replace("__DATA__", text)
