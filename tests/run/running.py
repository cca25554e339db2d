"""Programs in processes of their own: under Python, under PyTorch and under `rushlight run`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"


def python(*arguments: Any, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        cwd=cwd,
        timeout=500,
        check=False,
    )


def run(*arguments: Any, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    """`rushlight run` with these arguments."""
    return python("-m", "rushlight", "run", *arguments, cwd=cwd)


def write(directory: Path, name: str, text: str) -> Path:
    path = directory / name
    path.write_text(text)
    return path
