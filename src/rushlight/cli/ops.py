"""`rushlight ops [REGEX]`: search the operator registry."""

from __future__ import annotations

import argparse
import re

from rich.console import Console
from rich.markup import escape
from rich.table import Table

import rushlight.batching.rules  # noqa: F401  fills the registry
from rushlight.cli.main import UsageError
from rushlight.core.registry import REGISTRY, OpDef


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "pattern", nargs="?", default="", metavar="REGEX", help="operators whose schema contains a match"
    )
    parser.add_argument("--family", metavar="NAME", help="operators of one family")
    parser.add_argument("--count", action="store_true", help="count by family instead of listing")


def run(options: argparse.Namespace) -> int:
    found = _find(options.pattern, options.family)
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)
    if not found:
        console.print(f"no operator matches {options.pattern!r}", highlight=False)
        return 1
    console.print(_counts(found) if options.count else _listing(found))
    console.print(f"{len(found)} of {len(REGISTRY.ops)} operators", highlight=False)
    return 0


def _find(pattern: str, family: str | None) -> list[OpDef]:
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise UsageError(f"{pattern!r} is not a regular expression: {error}") from None
    return [
        op for op in REGISTRY.ops.values() if wanted.search(str(op.schema)) and family in (None, op.family)
    ]


def _listing(found: list[OpDef]) -> Table:
    table = Table(box=None, header_style="bold")
    table.add_column("schema", overflow="fold")
    table.add_column("kind")
    table.add_column("family")
    table.add_column("stages")
    for op in found:
        stages = " ".join(name if there else f"[dim strike]{name}[/]" for name, there in op.stages().items())
        table.add_row(escape(str(op.schema)), op.kind.value, op.family, stages)
    return table


def _counts(found: list[OpDef]) -> Table:
    stages = list(found[0].stages())
    table = Table(box=None, header_style="bold")
    table.add_column("family")
    for name in ("operators", *stages):
        table.add_column(name, justify="right")
    for family in sorted({op.family for op in found}):
        here = [op for op in found if op.family == family]
        table.add_row(
            family, str(len(here)), *(str(sum(op.stages()[name] for op in here)) for name in stages)
        )
    return table
