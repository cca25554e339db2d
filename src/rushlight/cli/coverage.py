"""`rushlight coverage`: what is there of PyTorch's tables of operators, stage by stage."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from rushlight.cli.main import UsageError
from rushlight.testing import coverage
from rushlight.testing.coverage_page import write_page


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write every row as a page that sorts and searches"
    )
    parser.add_argument("--missing", action="store_true", help="list the rows that nothing serves")
    parser.add_argument("--failures", action="store_true", help="list what does not hold, row by row")
    parser.add_argument(
        "--measure",
        nargs="?",
        const="",
        metavar="REGEX",
        help="measure operators again whose name contains a match; without REGEX those that never were",
    )
    parser.add_argument(
        "--update-page",
        action="store_true",
        help="put the counts into docs/coverage.md, and raise the floors below which they may not fall",
    )


def run(options: argparse.Namespace) -> int:
    console = Console() if sys.stdout.isatty() else Console(width=160)
    measured = coverage.load()
    if options.measure is not None:
        with console.status("measuring") as status:
            measured = coverage.update(
                measured, options.measure or None, lambda name: status.update(f"measuring {name}")
            )
        coverage.save(measured)
    covered = coverage.table(measured)
    sums = coverage.counts(covered)
    for shown in _tables(sums):
        console.print(shown)
    if options.missing:
        _list(
            console,
            [f"{c.line.table}: {c.line.row}" for c in covered if not c.line.present and not c.line.reason],
        )
    if options.failures:
        _list(
            console,
            [
                f"{c.line.table}: {c.line.row} ({c.line.op}): {stage}: {text}"
                for c in covered
                for stage, text in c.stages.items()
                if "Error" in text or text == coverage.NOT_MEASURED
            ],
        )
    if options.html is not None:
        write_page(options.html, covered)
        console.print(f"{options.html}: {len(covered)} rows", highlight=False)
    if options.update_page:
        _update_page(sums)
    lower = coverage.fallen(sums, coverage.floors())
    _list(console, lower)
    return 1 if lower else 0


def _update_page(sums: dict[str, int]) -> None:
    if not coverage.PAGE.exists():
        raise UsageError("there is no docs/coverage.md here; run it in the root of a checkout")
    coverage.PAGE.write_text(
        coverage.written(coverage.PAGE.read_text(encoding="utf-8"), sums), encoding="utf-8"
    )
    floors = coverage.raised(sums, coverage.floors())
    coverage.FLOORS.write_text(json.dumps(floors, indent=1) + "\n", encoding="utf-8")


def _tables(sums: dict[str, int]) -> list[Table]:
    found: dict[str, dict[str, dict[str, int]]] = {}
    for name, count in sums.items():
        table, part, what = name.split(".")
        found.setdefault(table, {}).setdefault(part, {})[what] = count
    tables = []
    for title, parts in found.items():
        shown = Table(title=f"{title}.csv", box=None, header_style="bold", title_justify="left")
        shown.add_column("rows that are", min_width=14)
        for what in next(iter(parts.values())):
            shown.add_column(what, justify="right")
        for part, columns in parts.items():
            shown.add_row(part, *[str(count) for count in columns.values()])
        tables.append(shown)
    return tables


def _list(console: Console, lines: list[str]) -> None:
    for line in lines:
        console.print(line, highlight=False, markup=False)
