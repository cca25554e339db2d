"""`rushlight conformance`: run PyTorch's OpInfo database against Rushlight and say what holds.

The exit status is 0 when nothing failed, 1 when something did, 2 when the question was wrong.
"""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from rushlight.cli.main import UsageError
from rushlight.testing import require_oracle
from rushlight.testing.expected import SWEEPS, load

if TYPE_CHECKING:
    from rushlight.testing.conformance import Task
    from rushlight.testing.entries import Entry
    from rushlight.testing.record import Result

    Answered = tuple[Task, list[Result]]
    Sweep = tuple[Sequence[str], Sequence[str]]

VARIANTS = (
    "fwd", "out", "meta", "bwd", "fwad", "gradgrad", "vmap", "adjoint", "jacobian", "hessian", "decomposed",
    "compiled", "compiled_dynamic", "compiled_bwd", "compiled_writes", "compiled_writes_bwd", "native",
    "operands", "out_views",
)  # fmt: skip
DTYPES = (
    "float32",
    "float64",
    "float16",
    "bfloat16",
    "complex32",
    "complex64",
    "complex128",
    "bool",
    "uint8",
    "int8",
    "int16",
    "int32",
    "int64",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
_FEW = 12  # up to so many entries, failures are printed without being asked for


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--ops",
        metavar="REGEX",
        help="entries whose name, or name.variant, contains a match "
        "(anchor with ^ and $ for exact names: '^(sum|mean)$')",
    )
    parser.add_argument("--family", metavar="NAME", help="entries of one family (pointwise, reduction, ...)")
    parser.add_argument("--dtypes", metavar="LIST", help="comma-separated (default: float32)")
    parser.add_argument(
        "--variants", metavar="LIST", help=f"comma-separated, of {', '.join(VARIANTS)} (default: fwd)"
    )
    parser.add_argument(
        "--errors",
        action="store_true",
        help="check that calls which must raise do, with the right type (alone, or beside --variants)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=None,
        metavar="N",
        help="processes (default: one per core; 0: in this process, for a debugger)",
    )
    parser.add_argument(
        "--timeout",
        type=float,
        default=60.0,
        metavar="S",
        help="seconds for one entry, dtype and variant (default: 60)",
    )
    parser.add_argument(
        "--failures",
        action="store_true",
        help=f"print each failing entry with its first failing sample (always done for up to {_FEW} entries)",
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="--failures with tracebacks")
    parser.add_argument("--list", action="store_true", help="print the selected entries and stop")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all results")
    parser.add_argument("--html", type=Path, metavar="FILE", help="write one page to sort and search")
    parser.add_argument(
        "--summary",
        type=Path,
        nargs="+",
        metavar="FILE",
        help="run nothing; read results written with --json and print what share holds, by variant, dtype "
        "and over all (status 1 if a failure is not in tests/conformance/expected.json)",
    )
    parser.add_argument(
        "--record",
        action="store_true",
        help="with --summary: keep the numbers of samples for the pages of the atlas",
    )
    parser.add_argument(
        "--update-expected",
        action="store_true",
        help="rewrite tests/conformance/expected.json from this run, keeping the written reasons; without "
        "--variants and --dtypes, run all that the tests look at",
    )
    parser.add_argument("--oracle-only", action="store_true", help="self-test: compare PyTorch with itself")


def run(options: argparse.Namespace) -> int:
    if options.update_expected and options.oracle_only:
        raise UsageError("--update-expected is about Rushlight; leave out --oracle-only")
    console = Console()
    if not console.is_terminal:
        console = Console(width=200)  # a file or a pipe: tables should not be squeezed into 80 columns
    if options.summary:
        return _summarise(console, options.summary, options.record)
    if options.record:
        raise UsageError("--record keeps what --summary reads; give it files written with --json")
    sweeps = _sweeps(options)
    require_oracle()
    with console.status("loading PyTorch and its samples"):
        from rushlight.testing import conformance
    chosen = _chosen(options)
    if options.list:
        for entry in chosen:
            console.print(f"{entry.full_name}  [dim]{entry.family}[/]", highlight=False)
        return 0
    results: list[Result] = []
    for variants, dtypes in sweeps:
        results += _run_all(console, options, conformance.tasks(chosen, dtypes, variants))
    _report(console, options, results)
    return int(any(result.status == "fail" for result in results))


def _summarise(console: Console, paths: Sequence[Path], record: bool) -> int:
    from rushlight.testing import rates

    missing = [str(path) for path in paths if not path.is_file()]
    if missing:
        raise UsageError(f"--summary: no file {', '.join(missing)}")
    results, known = rates.read(paths), load()
    rates.print_rates(console, results, known)
    if record:
        console.print(f"{rates.record(results)} entries recorded in {rates.RECORDED}", highlight=False)
    return int(bool(rates.unlisted(results, known)))


def _sweeps(options: argparse.Namespace) -> Sequence[Sweep]:
    """What to run: (variants, dtypes), as asked for, or all that the tests look at."""
    if options.update_expected and options.variants is None and options.dtypes is None and not options.errors:
        return SWEEPS
    asked = options.variants if options.variants is not None else "" if options.errors else "fwd"
    variants = _choices("--variants", asked, (*VARIANTS, "errors"))
    if options.errors and "errors" not in variants:
        variants.append("errors")
    return [(variants, _choices("--dtypes", options.dtypes or "float32", DTYPES))]


def _chosen(options: argparse.Namespace) -> list[Entry]:
    from rushlight.testing import conformance

    try:
        chosen = conformance.select(options.ops, options.family)
    except re.error as error:
        raise UsageError(f"--ops {options.ops}: not a regular expression: {error}") from None
    if not chosen:
        raise UsageError("no entry matches; try rushlight conformance --list")
    return chosen


def _choices(option: str, text: str, allowed: Sequence[str]) -> list[str]:
    chosen = [part.strip() for part in text.split(",") if part.strip()]
    unknown = [name for name in chosen if name not in allowed]
    if unknown:
        raise UsageError(f"{option}: {', '.join(unknown)} unknown; choose from {', '.join(allowed)}")
    return chosen


def _run_all(console: Console, options: argparse.Namespace, tasks: Sequence[Task]) -> list[Result]:
    from rushlight.testing import conformance

    work = _oracle_work if options.oracle_only else conformance.run_task
    results: list[Result] = []
    with _progress(console) as progress:
        bar = progress.add_task("", total=len(tasks))
        for task, done in _answers(work, tasks, options):
            results += done
            progress.update(bar, advance=1, description=task.name[:30])
            progress.refresh()
    order = {key: i for i, key in enumerate((task.name, *key) for task in tasks for key in task.wanted())}
    return sorted(results, key=lambda result: order[result.key])


def _answers(work: Any, tasks: Sequence[Task], options: argparse.Namespace) -> Iterator[Answered]:
    """(task, results) as they come. What crashed or hung is run again piece by piece, to find where."""
    from rushlight.testing import conformance, pool

    if options.jobs == 0:
        yield from ((task, work(task)) for task in tasks)
        return
    again: list[Task] = []
    jobs = options.jobs or os.cpu_count() or 1
    for task, (ok, answer) in pool.run_all(work, tasks, jobs=jobs, limit=_limit(options.timeout)):
        pieces = task.pieces()
        if ok or len(pieces) == 1:
            yield task, answer if ok else conformance.broken(task, answer)
        else:
            again += pieces
    if again:
        yield from _answers(work, again, options)


def _limit(seconds: float) -> Any:
    return lambda task: seconds * max(1, sum(1 for _ in task.wanted()))


def _oracle_work(task: Task) -> list[Result]:
    from rushlight.testing import conformance

    return list(conformance.run_task(task, conformance.torch_backend()))


def _progress(console: Console) -> Progress:
    """No refresh thread: workers are forked while the bar is shown."""
    return Progress(
        TextColumn("{task.description:30}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        auto_refresh=False,
        transient=True,
    )


def _report(console: Console, options: argparse.Namespace, results: list[Result]) -> None:
    from rushlight.testing import report

    few = len({result.name for result in results}) <= _FEW
    if options.failures or options.verbose or few:
        report.print_failures(console, results, verbose=options.verbose)
    report.print_excluded(console, results)
    report.print_summary(console, results)
    if options.json:
        report.write_json(options.json, results)
        console.print(f"results written to {options.json}", highlight=False)
    if options.html:
        from rushlight.testing.page import write_page

        write_page(options.html, results)
        console.print(f"page written to {options.html}", highlight=False)
    if options.update_expected:
        from rushlight.testing.expected import update

        console.print(update(results), highlight=False)
