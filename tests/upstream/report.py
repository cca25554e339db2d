"""`rushlight upstream`: run the suite, print its table, list failures by cause, put the table into a page."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from . import causes, source
from .causes import APART, KINDS, Failure
from .driver import Driver
from .suite import TestFile, selected

COLUMNS = ("counted", "passed", "failed", *APART, "skipped", "crash", "hang", "unrun")
BEGIN, END = "<!-- upstream: rushlight upstream --docs -->", "<!-- end of upstream -->"


@dataclass
class Row:
    """What became of one file's tests."""

    name: str
    count: Counter[str]
    failures: list[Failure] = field(default_factory=list)

    @property
    def ran(self) -> int:
        return self.count["counted"] - self.count["unrun"]

    @property
    def share(self) -> float:
        """Of the tests that ran, how many passed."""
        return self.count["passed"] / max(self.ran, 1)

    @property
    def share_apart(self) -> float:
        """The same without those that fail on wording or on private names alone."""
        return self.count["passed"] / max(self.ran - sum(self.count[k] for k in APART), 1)

    def cells(self) -> list[str]:
        numbers = [str(self.count[column]) for column in COLUMNS]
        return [self.name, *numbers, f"{self.share:.1%}", f"{self.share_apart:.1%}"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--files", default=".", metavar="REGEX", help="only the files whose name contains a match"
    )
    parser.add_argument(
        "--budget", type=float, default=1800, metavar="SECONDS", help="time a file may take (default: 1800)"
    )
    parser.add_argument("--retry", action="store_true", help="run again what did not pass")
    parser.add_argument("--again", action="store_true", help="run everything again")
    parser.add_argument("--known", action="store_true", help="run nothing: print what is known")
    parser.add_argument(
        "--causes", type=int, default=0, metavar="N", help="list the N most frequent causes of failures"
    )
    parser.add_argument(
        "--kind",
        choices=sorted(KINDS),
        action="append",
        help="with --causes: only this kind (may be repeated)",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write every failure with its kind and message"
    )
    parser.add_argument(
        "--docs",
        type=Path,
        metavar="PAGE",
        help="put the table of what is known into a page, between its marks",
    )
    parser.add_argument(
        "--tree", type=Path, metavar="DIR", help="a source tree of PyTorch 2.6 (default: downloaded)"
    )


def run(options: argparse.Namespace) -> int:
    try:
        tree = options.tree or source.get_tree()
    except source.NoTree as error:
        print(f"rushlight upstream: {error}", file=sys.stderr)
        return 2
    driver = Driver(tree, source.cache() / "outcomes")
    rows = []
    _print([("file", *COLUMNS, "of all", "of the rest")])
    for file in selected(tree, options.files):
        if not options.known and options.docs is None:
            _run_file(driver, file, options)
        row = _row(driver, file)
        if row.count["counted"]:
            rows.append(row)
            _print([row.cells()])
    total = _total(rows)
    _print([total.cells()])
    failures = [failure for row in rows for failure in row.failures]
    if options.causes:
        _print_causes(failures, options.causes, options.kind)
    if options.json is not None:
        options.json.write_text(json.dumps([_as_data(f) for f in failures], indent=1), encoding="utf-8")
    if options.docs is not None:
        text = options.docs.read_text(encoding="utf-8")
        options.docs.write_text(written(text, rows, total, failures), encoding="utf-8")
    return 1 if total.count["crash"] or total.count["hang"] else 0


def _run_file(driver: Driver, file: TestFile, options: argparse.Namespace) -> None:
    """First torch, which says which tests count, then Rushlight."""
    driver.run("torch", file, None, options.budget)
    if options.again or options.retry:
        driver.forget("rushlight", file, everything=options.again)
    driver.run("rushlight", file, driver.counted(file), options.budget)


def _row(driver: Driver, file: TestFile) -> Row:
    wanted = driver.counted(file)
    outcomes = driver.known("rushlight", file)
    count = outcomes.summary(wanted)
    failures = [
        Failure(file.name, test, outcomes.rows[test])
        for test in wanted
        if test in outcomes.rows and outcomes.rows[test]["outcome"] != "passed"
    ]
    for failure in failures:
        if (kind := causes.kind(failure.row)) in APART:
            count[kind] += 1
            count["failed"] -= 1
    return Row(file.name, count, failures)


def _total(rows: Sequence[Row]) -> Row:
    count: Counter[str] = Counter()
    for row in rows:
        count.update(row.count)
    return Row("all", count)


def _print(lines: Sequence[Sequence[str]]) -> None:
    for name, *cells in lines:
        print(
            f"{name:<46}"
            + "".join(f"{cell:>9}" for cell in cells[:-2])
            + "".join(f"{c:>12}" for c in cells[-2:]),
            flush=True,
        )


def _print_causes(failures: Sequence[Failure], most: int, kinds: Sequence[str] | None) -> None:
    chosen = [f for f in failures if not kinds or causes.kind(f.row) in kinds]
    for kind, number in sorted(Counter(causes.kind(f.row) for f in chosen).items()):
        print(f"{number:6} {kind}: {KINDS[kind]}")
    for cause, group in causes.grouped(chosen)[:most]:
        print(f"\n{len(group):6} {cause.kind} | {cause.error} | {cause.message} | {cause.where}")
        print(f"       {group[0].file} {group[0].test}\n       {group[0].row.get('line', '')}")


def _as_data(failure: Failure) -> dict[str, str]:
    row = failure.row
    return {
        "file": failure.file,
        "test": failure.test,
        "kind": causes.kind(row),
        **{key: row.get(key, "") for key in ("outcome", "type", "message", "own", "test_line")},
    }


def written(text: str, rows: Sequence[Row], total: Row, failures: Sequence[Failure]) -> str:
    """The page with the tables between its marks."""
    if BEGIN not in text or END not in text:
        raise ValueError(f"the page has no marks {BEGIN} and {END}")
    tables = [_markdown(("file", *COLUMNS, "of all", "of the rest"), [row.cells() for row in [*rows, total]])]
    kinds = Counter(causes.kind(f.row) for f in failures)
    tables.append(
        _markdown(
            ("failures", "number", "meaning"), [[k, str(kinds[k]), KINDS[k]] for k in KINDS if kinds[k]]
        )
    )
    listed = [
        [
            str(len(group)),
            cause.kind,
            cause.error,
            _cell(cause.message),
            f"`{group[0].test.rpartition('::')[2]}`",
        ]
        for cause, group in causes.grouped(failures)
        if len(group) >= 3
    ]
    tables.append(_markdown(("tests", "kind", "error", "message (numbers left out)", "for instance"), listed))
    return re.sub(
        f"{re.escape(BEGIN)}.*{re.escape(END)}",
        lambda _: "\n".join([BEGIN, *(t + "\n" for t in tables)]).rstrip() + "\n" + END,
        text,
        flags=re.DOTALL,
    )


def _cell(text: str) -> str:
    text = re.sub(r"/\S*/(?=\S+\.py)", "", text)  # the folder of a file is another on every machine
    return re.sub(r"\s+", " ", text[:100]).replace("|", "\\|").replace("<", "&lt;")


def _markdown(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    right = {"counted", "passed", "failed", "number", "tests", "of all", "of the rest", *COLUMNS}
    rule = ["---:" if name in right else "---" for name in head]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, rule, *rows])
