"""What a conformance run says: tables for the terminal, lines for failures, JSON for programs."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .families import FAMILIES
from .record import EXCLUDED, FAIL, NOT_APPLICABLE, PASS, Result

Column = tuple[str, str]  # (variant, dtype)


def columns(results: Iterable[Result]) -> list[Column]:
    """(variant, dtype) pairs in the order in which they were asked for."""
    return list(dict.fromkeys((result.variant, result.dtype) for result in results))


def counts(results: Iterable[Result]) -> dict[str, dict[Column, Counter[str]]]:
    """family -> column -> how many results of each status."""
    table: dict[str, dict[Column, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for result in results:
        table[result.family][(result.variant, result.dtype)][result.status] += 1
    return table


def print_summary(console: Console, results: Sequence[Result]) -> None:
    """One row per family, one column per variant and dtype: passed of those that apply."""
    shown, table = columns(results), counts(results)
    view = Table(title="Conformance with PyTorch's OpInfo database", title_justify="left")
    view.add_column("family")
    for variant, dtype in shown:
        view.add_column(f"{variant}\n{dtype}", justify="right")
    for family in sorted(table, key=lambda name: FAMILIES.index(name) if name in FAMILIES else len(FAMILIES)):
        view.add_row(family, *(_cell(table[family][column]) for column in shown))
    view.add_section()
    totals = [sum((table[family][column] for family in table), Counter()) for column in shown]
    view.add_row("[bold]total[/]", *(_cell(total) for total in totals))
    console.print(view)
    for (variant, dtype), total in zip(shown, totals, strict=True):
        console.print(
            f"{variant} {dtype}: [bold]{total[PASS]}[/] of {total.total()} entries pass, {total[FAIL]} fail, "
            f"{total[NOT_APPLICABLE]} do not apply, {total[EXCLUDED]} excluded",
            highlight=False,
        )
    _print_shares(console, results)
    _print_notes(console, results)


def _print_shares(console: Console, results: Sequence[Result]) -> None:
    """How much of what passes forward in float32 holds in the other columns too."""
    base = {r.name for r in results if (r.variant, r.dtype) == ("fwd", "float32") and r.status == PASS}
    for variant, dtype in columns(results):
        both = [r for r in results if (r.variant, r.dtype) == (variant, dtype) and r.name in base]
        passed, applicable = (sum(r.status in kinds for r in both) for kinds in ((PASS,), (PASS, FAIL)))
        if applicable and (variant, dtype) != ("fwd", "float32"):
            console.print(
                f"{variant} {dtype}: {passed / applicable:.1%} ({passed} of {applicable}) of those that pass "
                "fwd float32 and have it",
                highlight=False,
            )


def _cell(counter: Counter[str]) -> str:
    applicable = counter[PASS] + counter[FAIL]
    if not applicable:
        return "[dim]-[/]"
    colour = "green" if not counter[FAIL] else "yellow" if counter[PASS] else "red"
    return f"[{colour}]{counter[PASS]}[/]/{applicable}"


def _print_notes(console: Console, results: Iterable[Result]) -> None:
    entries: Counter[str] = Counter(note for result in results for note in result.notes)
    if entries:
        text = ", ".join(f"{note} in {count}" for note, count in sorted(entries.items()))
        console.print(f"[dim]noted, not failed (entries): {text}[/]", highlight=False)


def print_excluded(console: Console, results: Iterable[Result]) -> None:
    """Entries that cannot apply, each once, with the reason."""
    for name, reason in dict.fromkeys((r.name, r.reason) for r in results if r.status == EXCLUDED):
        console.print(f"[dim]excluded {escape(name)}: {escape(reason)}[/]", highlight=False)


def print_failures(console: Console, results: Iterable[Result], *, verbose: bool) -> None:
    """One line per failing result, with the traceback of its first failure if `verbose`."""
    for result in results:
        if result.status != FAIL:
            continue
        first = result.failures[0]
        count = f" [dim]({result.failed_samples} of {result.samples} samples)[/]" if result.samples else ""
        console.print(
            f"[bold red]{escape(result.name)}[/] {result.variant} \\[{result.dtype}] "
            f"{escape(first.line())}{count}",
            highlight=False,
            soft_wrap=True,
        )
        if verbose:
            for failure in result.failures[1:5]:
                console.print(f"    {escape(failure.line())}", highlight=False, soft_wrap=True)
            console.print(f"[dim]{escape(first.traceback.rstrip())}[/]", highlight=False, soft_wrap=True)


def to_json(results: Sequence[Result]) -> dict[str, Any]:
    totals = {
        f"{variant} {dtype}": dict(
            Counter(r.status for r in results if (r.variant, r.dtype) == (variant, dtype))
        )
        for variant, dtype in columns(results)
    }
    return {"totals": totals, "results": [result.to_json() for result in results]}


def write_json(path: Path, results: Sequence[Result]) -> None:
    path.write_text(json.dumps(to_json(results), indent=1) + "\n", encoding="utf-8")
