"""The conformance report as one self-contained page that a person can sort and search.

The page is a template with the results as JSON inside; it loads nothing from anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

from .record import Result
from .report import columns

_SHOWN_FAILURES = 3


def write_page(path: Path, results: Sequence[Result]) -> None:
    path.write_text(render(results), encoding="utf-8")


def render(results: Sequence[Result]) -> str:
    template = resources.files(__package__).joinpath("page.html").read_text(encoding="utf-8")
    text = json.dumps(_data(results), separators=(",", ":")).replace(
        "<", "\\u003c"
    )  # nothing can close the script element
    return template.replace("__DATA__", text)


def _data(results: Sequence[Result]) -> dict[str, Any]:
    shown = columns(results)
    entries: dict[str, dict[str, Any]] = {}
    for result in results:
        entry = entries.setdefault(
            result.name, {"name": result.name, "family": result.family, "cells": [None] * len(shown)}
        )
        entry["cells"][shown.index((result.variant, result.dtype))] = _cell(result)
    return {"columns": [f"{variant} {dtype}" for variant, dtype in shown], "entries": list(entries.values())}


def _cell(result: Result) -> dict[str, Any]:
    failures = [
        {"line": failure.line(), "traceback": failure.traceback if i == 0 else ""}
        for i, failure in enumerate(result.failures[:_SHOWN_FAILURES])
    ]
    return {
        "status": result.status,
        "samples": result.samples,
        "failed": result.failed_samples,
        "reason": result.reason,
        "failures": failures,
        "notes": result.notes,
    }
