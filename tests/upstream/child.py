"""Runs the tests of one file in this process: `python child.py JOB`, where JOB is a file that
`driver.Job.write` wrote.

The package is loaded by its path and not through sys.path: this folder's neighbours (`nn`, `autograd`, ...)
bear names of the tree's folders.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType

PACKAGE = "rushlight_upstream"


def load(name: str) -> ModuleType:
    """A module of this package."""
    if PACKAGE not in sys.modules:
        here = Path(__file__).parent
        spec = importlib.util.spec_from_file_location(
            PACKAGE, here / "__init__.py", submodule_search_locations=[str(here)]
        )
        assert spec is not None and spec.loader is not None
        sys.modules[PACKAGE] = package = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(package)
    return importlib.import_module(f"{PACKAGE}.{name}")


def main(path: str) -> int:
    job = load("driver").Job.read(Path(path))
    tests = os.path.join(job.tree, "test")
    sys.path.insert(0, tests)
    plugin = load("plugin").Plugin(job)
    import pytest

    options = [
        "-q",
        "--noconftest",
        "--continue-on-collection-errors",
        "--assert=plain",
        "--tb=no",
        "--no-header",
    ]
    off = [
        part for name in ("cacheprovider", "warnings", "logging", "xdist") for part in ("-p", f"no:{name}")
    ]
    where = ["-c", os.devnull, "--rootdir", tests, os.path.join(tests, job.file)]
    return int(pytest.main([*options, *off, *where], plugins=[plugin]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
