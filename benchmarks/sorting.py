"""Sorts, selections and scans of compiled functions against torch, on the same data in the same run.

    python benchmarks/sorting.py [--rows REGEX]

Prints torch's time over ours: above 1 we are ahead.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import rushlight
from timing import OURS, Row, measure, timed

CASES: dict[str, tuple[tuple[int, ...], str, Callable[[Any], Any]]] = {
    "sort 1M": ((1_000_000,), "float32", lambda x: x.sort()),
    "sort 1M, int64": ((1_000_000,), "int64", lambda x: x.sort()),
    "sort 4096x256": ((4096, 256), "float32", lambda x: x.sort(-1)),
    "sort 256x4096": ((256, 4096), "float32", lambda x: x.sort(-1)),
    "sort 256x4096 along 0": ((256, 4096), "float32", lambda x: x.sort(0)),
    "topk 4096x1000, k = 10": ((4096, 1000), "float32", lambda x: x.topk(10, -1)),
    "median 4096x256": ((4096, 256), "float32", lambda x: x.median(-1)),
    "cumsum 4096x1024": ((4096, 1024), "float32", lambda x: x.cumsum(-1)),
    "cumsum 4096x1024 along 0": ((4096, 1024), "float32", lambda x: x.cumsum(0)),
    "cummax 4096x1024": ((4096, 1024), "float32", lambda x: x.cummax(-1)),
    "logcumsumexp 4096x256": ((4096, 256), "float32", lambda x: x.logcumsumexp(-1)),
    "cat of 3, 2048x512": ((2048, 512), "float32", lambda x: x.repeat(1, 3)),
}


def row(name: str) -> Row:
    shape, dtype, program = CASES[name]
    values = (np.random.default_rng(0).standard_normal(shape) * 1e6).astype(dtype)
    ours, theirs = rushlight.tensor(values), torch.tensor(values)
    compiled = rushlight.compile(program, fullgraph=True)
    compiled(ours)
    return Row(name, {OURS: timed(lambda: compiled(ours)), "torch": timed(lambda: program(theirs))}, {}, 12)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", default="", metavar="REGEX", help="only rows whose name contains a match")
    wanted = re.compile(parser.parse_args().rows)
    for name in CASES:
        if wanted.search(name):
            best = measure(row(name)).best
            print(
                f"{name:28} {1e3 * best[OURS]:9.3f} ms, torch {1e3 * best['torch']:9.3f} ms, "
                f"ratio {best['torch'] / best[OURS]:6.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
