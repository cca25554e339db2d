"""`rushlight upstream`: PyTorch's own unit tests run on Rushlight. The harness lies in a checkout's
tests/upstream."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path
from types import ModuleType

import rushlight
from rushlight.cli.main import UsageError

HARNESS = Path(rushlight.__file__).parents[2] / "tests" / "upstream"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _report().add_arguments(parser)


def run(options: argparse.Namespace) -> int:
    return int(_report().run(options))


def _report() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rushlight_upstream_child", HARNESS / "child.py")
    if not (HARNESS / "child.py").exists() or spec is None or spec.loader is None:
        raise UsageError(
            "the harness is part of the source tree (tests/upstream); run it from a checkout of Rushlight"
        )
    child = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(child)
    return child.load("report")
