"""`rushlight run`: a PyTorch program runs on Rushlight as it is; `import torch` finds this package."""

from __future__ import annotations

import argparse
import os

from rushlight.cli.main import UsageError
from rushlight.core.heap import collect_by_operators
from rushlight.programs import automatic
from rushlight.programs.redirect import as_torch
from rushlight.programs.report import Report
from rushlight.programs.start import run_module, run_script


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--compile",
        choices=("auto", "off"),
        default="auto",
        help="auto (the default): modules and steps of optimizers that are called again and again are compiled; "
        "off: only what the program compiles itself",
    )
    parser.add_argument(
        "--report",
        action="store_true",
        help="when the program ends, say on standard error what was compiled, what was not and why, and how long "
        "it took beside eager calls",
    )
    parser.add_argument("-m", dest="module", action="store_true", help="PROGRAM is a module, as in python -m")
    parser.add_argument("program", metavar="PROGRAM", help="a Python file, or with -m the name of a module")
    parser.add_argument("arguments", metavar="...", nargs=argparse.REMAINDER, help="arguments of the program")


def run(options: argparse.Namespace) -> int:
    if not options.module and not os.path.exists(options.program):
        raise UsageError(f"can't open file {options.program!r}: there is no such file")
    as_torch()
    report = Report() if options.report else None
    if options.compile == "auto":
        automatic.enable(report)
    start = run_module if options.module else run_script
    collect_by_operators()
    try:
        return start(options.program, options.arguments)
    finally:
        if report is not None:
            report.print(options.program)
