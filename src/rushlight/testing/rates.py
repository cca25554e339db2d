"""How much of the OpInfo database holds, over everything that was run: `rushlight conformance --summary`.

Results of several runs (`--json`) come in, a table of variants and dtypes goes out. What counts is a triple
of entry, variant and dtype that applies: PyTorch supports it on the CPU and gives a sample to compare.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .expected import Expected, section_of
from .record import FAIL, PASS, Result

RECORDED = Path(__file__).parent / "conformance.json"  # what the pages of the atlas show


def read(paths: Iterable[Path]) -> list[Result]:
    """All results of some files; of the same entry, variant and dtype the last one stands."""
    found = {}
    for path in paths:
        for item in json.loads(path.read_text(encoding="utf-8"))["results"]:
            result = Result.from_json(item)
            found[result.key] = result
    return list(found.values())


def record(results: Iterable[Result], path: Path = RECORDED) -> int:
    """Keep, by "variant dtype" and entry, how many samples there are and how many of them differ; what was
    recorded before and is not among the results stays. Returns the number of entries that were recorded."""
    cells: dict[str, dict[str, list[int]]] = (
        json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    )
    count = 0
    for result in results:
        cell = cells.setdefault(section_of(result), {})
        cell.pop(result.name, None)
        if result.status in (PASS, FAIL):
            # An entry that failed as a whole has no failed sample of its own.
            differ = max(result.failed_samples, 1) if result.status == FAIL else 0
            cell[result.name] = [max(result.samples, differ), differ]
            count += 1
    tidy = {name: dict(sorted(cell.items())) for name, cell in sorted(cells.items()) if cell}
    path.write_text(json.dumps(tidy, separators=(",", ":")).replace("},", "},\n") + "\n", encoding="utf-8")
    return count


def print_rates(console: Console, results: Sequence[Result], known: Expected) -> None:
    """Passed of those that apply: for each variant and dtype, for each variant, and over all."""
    table: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for result in results:
        table[result.variant][result.dtype][result.status] += 1
    dtypes = list(dict.fromkeys(result.dtype for result in results))
    view = Table(title="Passed of all that applies", title_justify="left")
    view.add_column("variant")
    for dtype in (*dtypes, "all"):
        view.add_column(dtype, justify="right")
    for variant, row in table.items():
        view.add_row(variant, *(_cell(row[dtype]) for dtype in dtypes), _cell(_sum(row.values())))
    columns = [_sum(row[dtype] for row in table.values()) for dtype in dtypes]
    view.add_section()
    view.add_row("[bold]all[/]", *map(_cell, columns), f"[bold]{_cell(_sum(columns))}[/]")
    console.print(view)
    left_over = unlisted(results, known)
    failed = sum(result.status == FAIL for result in results)
    console.print(
        f"{failed} fail: {failed - len(left_over)} of them listed with a reason in expected.json",
        highlight=False,
    )
    for result in left_over:
        console.print(f"not listed: {escape(result.line())}", highlight=False, soft_wrap=True)


def unlisted(results: Iterable[Result], known: Expected) -> list[Result]:
    """Failures for which the list gives no reason."""
    return [
        result
        for result in results
        if result.status == FAIL and result.name not in known.get(section_of(result), {})
    ]


def _sum(counters: Iterable[Counter[str]]) -> Counter[str]:
    return sum(counters, Counter())


def _cell(counter: Counter[str]) -> str:
    applicable = counter[PASS] + counter[FAIL]
    return f"{counter[PASS]}/{applicable}  {counter[PASS] / applicable:.1%}" if applicable else "-"
