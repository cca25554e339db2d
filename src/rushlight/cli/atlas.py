"""`rushlight atlas [OPERATOR]`: a page for every operator, or for one."""

from __future__ import annotations

import argparse
import difflib
from pathlib import Path

from rushlight import atlas
from rushlight.cli.main import UsageError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("operator", nargs="*", metavar="OPERATOR", help="its page alone, as OPERATOR.html")
    parser.add_argument(
        "--out",
        metavar="PATH",
        type=Path,
        help="a folder for the site of all operators, or the file of one page",
    )


def run(options: argparse.Namespace) -> int:
    known = atlas.operators()
    for name in options.operator:
        if name not in known:
            near = difflib.get_close_matches(name, [*known, *(f"special_{n}" for n in known)], 3)
            hint = f"; did you mean {', '.join(near)}?" if near else "; `rushlight ops` lists them"
            raise UsageError(f"there is no operator {name!r}{hint}")
    if options.operator:
        for name in options.operator:
            path = options.out if options.out and len(options.operator) == 1 else Path(f"{name}.html")
            path.write_text(atlas.one_page(name), encoding="utf-8")
            print(path)
        return 0
    if options.out is None:
        raise UsageError("say which operator, or with --out where the site of all of them goes")
    count = atlas.write(options.out)
    print(f"{options.out / 'index.html'}: {count} operators")
    return 0
