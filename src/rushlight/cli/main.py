"""The `rushlight` command: sub-commands are looked up here and imported only when they run."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Sequence

# name -> (module with add_arguments and run, one line of help)
COMMANDS = {
    "conformance": (
        "rushlight.cli.conformance",
        "compare every operator with PyTorch on PyTorch's own samples",
    ),
    "coverage": (
        "rushlight.cli.coverage",
        "PyTorch's tables of operators, and what each stage here has of every row",
    ),
    "run": ("rushlight.cli.run", "run a PyTorch program, unchanged, on Rushlight"),
    "launch": ("rushlight.cli.launch", "run a program in several processes, which MPI starts"),
    "plan-parallel": (
        "rushlight.cli.plan_parallel",
        "predict step time and memory of training on meshes of processes that need not exist",
    ),
    "explain": ("rushlight.cli.explain", "the page of a compiled function: every stage, and how it ran"),
    "demo": ("rushlight.cli.demo", "train a small GPT, its whole step compiled"),
    "tour": ("rushlight.cli.tour", "the library, stop by stop"),
    "ops": ("rushlight.cli.ops", "search the operators: schema, kind, stages present"),
    "atlas": ("rushlight.cli.atlas", "a page for every operator: plots, formulas, code, accuracy, speed"),
    "upstream": ("rushlight.cli.upstream", "run PyTorch's own unit tests on Rushlight"),
}


class UsageError(Exception):
    """What was asked cannot be done; the message tells what to do instead."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one sub-command; returns the exit status."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    try:
        parser = _parser(arguments)
    except UsageError as error:
        print(f"rushlight: {error}", file=sys.stderr)
        return 2
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help()
        return 0
    try:
        return int(importlib.import_module(COMMANDS[options.command][0]).run(options))
    except (UsageError, ImportError) as error:
        print(f"rushlight {options.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(
            os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno()
        )  # the reader left; so does the last flush
        return 0


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser, with the options of the sub-command that is asked for (the others need not be imported)."""
    parser = argparse.ArgumentParser(
        prog="rushlight",
        description="A small, quick torch: a PyTorch-compatible differentiable tensor compiler.",
    )
    commands = parser.add_subparsers(dest="command", metavar="command")
    asked = next((argument for argument in arguments if not argument.startswith("-")), None)
    for name, (module, help_text) in COMMANDS.items():
        sub = commands.add_parser(
            name, help=help_text, description=help_text[0].upper() + help_text[1:] + "."
        )
        if name == asked:
            importlib.import_module(module).add_arguments(sub)
    return parser
