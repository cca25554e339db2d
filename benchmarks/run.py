"""`make bench`: side-by-side timings of Rushlight and its peers, with the bars they must meet.

    python benchmarks/run.py [--rows REGEX] [--quick] [--json FILE] [--page FILE] [--distributed]

The exit status is 1 when a bar is missed. More rows: add a function to ROWS, or a case to compiled.CASES.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from changing_sizes import CHANGING_SIZES
from compiled import CASES, cached_row, cold_row, floor_row, memory_row, run_row
from control_flow import CONTROL_FLOW
from depth import DEEP, depth_row
from eager import EAGER_ROWS, summary
from first_use import FIRST_USE
from rushlight.runtime.target import host
from timing import BEST, OURS, Outcome, Row, measure, quantity, timed
from training import TRAINING

PEERS = ("torch",)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    if options.distributed:
        return subprocess.call([sys.executable, str(Path(__file__).with_name("distributed.py"))])
    wanted = re.compile(options.rows)
    console = Console()
    if not console.is_terminal:
        console = Console(width=180)
    outcomes = []
    for name, make in ROWS.items():
        if wanted.search(name):
            with console.status(f"measuring {name}"):
                outcomes.append(measure(make(name, options.quick)))
    console.print(_table(outcomes))
    if options.json:
        data = [
            {
                "name": o.row.name,
                "best": o.best,
                "bars": dict(o.row.bars),
                "ratios": {peer: ratio for peer, ratio, _ in o.verdicts()},
            }
            for o in outcomes
        ]
        options.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
    if options.page:
        options.page.write_text(_page(outcomes), encoding="utf-8")
    if text := summary(outcomes):
        console.print(text)
    missed = [o.row.name for o in outcomes if not o.met]
    console.print(f"{len(outcomes) - len(missed)} of {len(outcomes)} rows meet their bars")
    return int(bool(missed))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Side-by-side timings, best of many interleaved rounds.")
    parser.add_argument("--rows", default="", metavar="REGEX", help="only rows whose name contains a match")
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and without torch.compile")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the numbers")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the table as Markdown")
    parser.add_argument(
        "--distributed",
        action="store_true",
        help="training in two processes against PyTorch's, and nothing else",
    )
    return parser.parse_args(arguments)


# --- rows ------------------------------------------------------------------------------------------


def import_time(name: str, quick: bool) -> Row:
    """Seconds until `import x` is done, in a fresh interpreter, less the interpreter's own start."""
    contestants = {each: functools.partial(_import_seconds, each) for each in (OURS, *_installed())}
    return Row(name, contestants, {BEST: 0.25}, 3 if quick else 7)


def _import_seconds(module: str) -> float:
    code = f"import time; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=_with_bytecode()
    )
    return float(done.stdout)


@functools.cache
def _with_bytecode() -> dict[str, str]:
    """The environment with a bytecode cache of its own: an installed package has its bytecode beside it."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    return environment | {"PYTHONPYCACHEPREFIX": tempfile.mkdtemp(prefix="rushlight-bench-")}


def small_add(name: str, quick: bool) -> Row:
    """`a + b` on two tensors of four numbers: the cost of a call, not of arithmetic."""

    def contestant(module: str) -> Callable[[], float]:
        library = importlib.import_module(module)
        a, b = library.ones(4), library.ones(4)
        return timed(lambda: a + b)

    contestants = {each: contestant(each) for each in (OURS, *_installed())}
    return Row(name, contestants, {BEST: 1.3}, 10 if quick else 50)


def backward_chain(name: str, quick: bool) -> Row:
    """Backward through 1,000 operators on four numbers: the cost of the engine, not of arithmetic."""

    def contestant(module: str) -> Callable[[], float]:
        library = importlib.import_module(module)
        x, w = library.ones(4).requires_grad_(), library.full((4,), 1.0001).requires_grad_()
        y = x
        for step in range(1000):
            y = y * w if step % 2 else y + w
        loss = y.sum()
        return timed(lambda: loss.backward(retain_graph=True))

    contestants = {each: contestant(each) for each in (OURS, *_installed())}
    return Row(name, contestants, {BEST: 1.5}, 5 if quick else 20)


def _of_case(make: Callable[[str, bool], Row], case: str, name: str, quick: bool) -> Row:
    return make(case, quick)


ROWS: dict[str, Callable[[str, bool], Row]] = {
    "import": import_time,
    "a + b, 4 elements": small_add,
    "backward, 1,000 operators": backward_chain,
    "multiplications of the GPT training step alone": floor_row,
    **{
        f"{title}{case}": functools.partial(_of_case, make, case)
        for title, make in (("compiled ", run_row), ("cold compile, ", cold_row), ("from disk, ", cached_row))
        for case in CASES
    },
    **EAGER_ROWS,
    **FIRST_USE,
    **CHANGING_SIZES,
    **CONTROL_FLOW,
    f"cold compile, GPT training step of {DEEP} layers": depth_row,
    **{f"peak memory, {case}": functools.partial(_of_case, memory_row, case) for case in TRAINING},
}


# --- report ----------------------------------------------------------------------------------------


def _installed() -> list[str]:
    return [peer for peer in PEERS if importlib.util.find_spec(peer) is not None]


def _table(outcomes: Sequence[Outcome]) -> Table:
    names = list(dict.fromkeys(name for outcome in outcomes for name in outcome.best))
    table = Table(title=f"Best of interleaved rounds, {time.strftime('%Y-%m-%d')}", title_justify="left")
    table.add_column("row")
    for name in names:
        table.add_column(name, justify="right")
    table.add_column("ratio, bar")
    table.add_column("")
    for outcome in outcomes:
        table.add_row(
            outcome.row.name,
            *(quantity(outcome.best.get(name), outcome.row.unit) for name in names),
            *_verdict(outcome),
        )
    return table


def _page(outcomes: Sequence[Outcome]) -> str:
    names = list(dict.fromkeys(name for outcome in outcomes for name in outcome.best))
    versions = ", ".join(
        f"{name} {importlib.metadata.version(name)}"
        for name in (*_installed(), "jax")
        if importlib.util.find_spec(name) is not None
    )
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench ARGS='--page docs/benchmarks.md'` on a quiet machine: "
        f"{os.cpu_count()} cores, {host().cpu}, {versions}.",
        "",
        "Best of interleaved rounds; ratios are ours over the peer's, smaller is better; the bar "
        "is what a row is held to.",
        "",
        f"| row | {' | '.join(names)} | ratio, bar | |",
        f"| --- |{' ---: |' * len(names)} --- | --- |",
    ]
    for outcome in outcomes:
        verdict = "<br>".join(
            f"{'not measured' if ratio is None else f'{ratio:.2f}'} of {peer}, {bar:.2f}"
            for peer, ratio, bar in outcome.verdicts()
        )
        numbers = " | ".join(quantity(outcome.best.get(name), outcome.row.unit) for name in names)
        met = "met" if outcome.met else "**missed**"
        lines.append(f"| {outcome.row.name} | {numbers} | {verdict} | {met} |")
    return "\n".join(lines) + "\n"


def _verdict(outcome: Outcome) -> tuple[str, str]:
    parts = []
    for peer, ratio, bar in outcome.verdicts():
        text = "not measured" if ratio is None else f"{ratio:.2f}"
        parts.append(f"{text} of {peer}, bar {bar:.2f}")
    return "\n".join(parts), "[green]met[/]" if outcome.met else "[red]missed[/]"


if __name__ == "__main__":
    sys.exit(main())
