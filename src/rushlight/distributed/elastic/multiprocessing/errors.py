"""`record`: an exception of the main function, written down for whoever started the process."""

from __future__ import annotations

import functools
import json
import os
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

__all__ = ["record"]

P = ParamSpec("P")
R = TypeVar("R")


def record(fn: Callable[P, R]) -> Callable[P, R]:
    """`fn`, whose exceptions go on after they were written, as JSON, to the file that the environment variable
    TORCHELASTIC_ERROR_FILE names. Without it nothing is written: `rushlight launch` says which rank failed."""

    @functools.wraps(fn)
    def recorded(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            if named := os.environ.get("TORCHELASTIC_ERROR_FILE"):
                _write(Path(named), error)
            raise

    return recorded


def _write(path: Path, error: Exception) -> None:
    more = {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}
    message = {"message": f"{type(error).__name__}: {error}", "extraInfo": more}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"message": message}), encoding="utf-8")
