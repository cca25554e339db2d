"""The rows of `run.py` before and after a change, ours alone: two source trees in turn, the best of each.

    git worktree add ../before REVISION
    python benchmarks/compare.py ../before . --rounds 3

Each round measures every row of either tree in a process of its own, with an object cache of its own and
without the peers, so that a noisy minute hits both. Rows that only one tree has are left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

OURS = "rushlight"

# Runs a tree's own run.py as if no peer were installed.
ALONE = """
import importlib.util, os, runpy, sys
found = importlib.util.find_spec
importlib.util.find_spec = lambda name, *rest: None if name in ("torch", "jax") else found(name, *rest)
sys.argv = sys.argv[1:]
sys.path.insert(0, os.path.dirname(sys.argv[0]))
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def main(arguments: Sequence[str] | None = None) -> int:
    options = _options(arguments)
    trees = [tree.resolve() for tree in (options.before, options.after)]
    best: list[dict[str, float]] = [{}, {}]
    for _ in range(options.rounds):
        for tree, rows in zip(trees, best, strict=True):
            for name, seconds in _measured(tree, options.rows).items():
                rows[name] = min(seconds, rows.get(name, seconds))
    console = Console()
    if not console.is_terminal:
        console = Console(width=120)
    table = Table(title=f"Best of {options.rounds} rounds", title_justify="left")
    for column in ("row", "before", "after", "after / before"):
        table.add_column(column, justify="left" if column == "row" else "right")
    slower = 0
    for name, seconds in best[0].items():
        if name in best[1]:
            ratio = best[1][name] / seconds
            slower += ratio > options.bar
            text = f"[red]{ratio:.3f}[/]" if ratio > options.bar else f"{ratio:.3f}"
            table.add_row(name, f"{seconds:.4g}", f"{best[1][name]:.4g}", text)
    console.print(table)
    console.print(f"{slower} rows are slower by more than {options.bar - 1:.0%}")
    return int(bool(slower))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Two source trees, row by row, without peers.")
    parser.add_argument("before", type=Path, help="a source tree")
    parser.add_argument("after", type=Path, help="another one")
    parser.add_argument("--rows", default="", metavar="REGEX", help="only rows whose name contains a match")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--bar", type=float, default=1.03, help="the ratio from which a row counts as slower")
    return parser.parse_args(arguments)


def _measured(tree: Path, rows: str) -> dict[str, float]:
    """Seconds (or bytes) of ours by row."""
    with tempfile.TemporaryDirectory() as scratch:
        result = Path(scratch) / "rows.json"
        command = [sys.executable, "-c", ALONE, str(tree / "benchmarks" / "run.py")]
        command += ["--quick", "--rows", rows, "--json", str(result)]
        environment = {**os.environ, "PYTHONPATH": str(tree / "src"), "XDG_CACHE_HOME": scratch}
        subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.DEVNULL, check=False)
        if not result.exists():
            raise SystemExit(f"{tree}: run.py wrote no numbers")
        return {row["name"]: row["best"][OURS] for row in json.loads(result.read_text())}


if __name__ == "__main__":
    sys.exit(main())
