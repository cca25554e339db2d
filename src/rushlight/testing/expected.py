"""What is known to fail, with the reason: the file that makes the conformance tests a ratchet.

The file maps "variant dtype" to {entry name: reason}. An entry that fails and is not listed is a regression;
one that is listed and passes must be taken off the list. So the list can only be changed on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path

from .record import FAIL, NOT_APPLICABLE, Result

Expected = dict[str, dict[str, str]]

# What the tests run: each of the variants in each of the dtypes; the first in every run, the rest if slow.
SWEEPS: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    (("fwd",), ("float32",)),
    (("fwd",), ("float64", "int64", "bool", "bfloat16", "complex128")),
    (("out", "meta", "errors"), ("float32",)),
    (("out", "meta"), ("float64", "complex128", "int64")),
    (("bwd", "gradgrad", "fwad", "adjoint", "jacobian", "hessian"), ("float32", "float64", "complex128")),
    (("vmap", "decomposed"), ("float32", "float64", "complex128", "int64")),
    (("compiled",), ("float32", "float64", "int64", "bool", "bfloat16", "complex64")),
    (("compiled_bwd",), ("float32",)),
)

DEFAULT_PATH = Path("tests/conformance/expected.json")
_UNEXPLAINED = "not yet implemented"


def load(path: Path = DEFAULT_PATH) -> Expected:
    if not path.exists():
        return {}
    known: Expected = json.loads(path.read_text(encoding="utf-8"))
    return known


def problems(results: Iterable[Result], known: Expected, *, all_samples: bool = True) -> list[str]:
    """What is not as the list says, one line each; empty when all is as expected. Where not all samples ran,
    what is listed to fail may pass."""
    found = []
    for result in results:
        reason = known.get(section_of(result), {}).get(result.name)
        if result.status == FAIL and reason is None:
            found.append(f"{result.line()}")
        elif result.status != FAIL and reason is not None and all_samples:
            state = "does not apply" if result.status == NOT_APPLICABLE else "passes"
            found.append(
                f"{result.name} {result.variant} [{result.dtype}] {state} but is listed to fail ({reason}): "
                "remove it from the list (rushlight conformance --update-expected)"
            )
    return found


def update(results: Sequence[Result], path: Path = DEFAULT_PATH) -> str:
    """Bring the sections that `results` cover up to date, keeping the reasons of what still fails."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"{path.parent} is not here; run this in the root of a checkout")
    known = load(path)
    added = removed = 0
    for result in results:
        section = known.setdefault(section_of(result), {})
        if result.status == FAIL and result.name not in section:
            section[result.name] = _reason(result)
            added += 1
        elif result.status != FAIL and section.pop(result.name, None) is not None:
            removed += 1
    tidy = {name: dict(sorted(section.items())) for name, section in sorted(known.items()) if section}
    path.write_text(json.dumps(tidy, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    return f"{path}: {added} added, {removed} removed, {sum(map(len, tidy.values()))} listed"


def section_of(result: Result) -> str:
    """Where the file lists a result."""
    return f"{result.variant} {result.dtype}"


def _reason(result: Result) -> str:
    message = result.failures[0].line() if result.failures else ""
    missing = "is not available" in message or "has no attribute" in message
    return _UNEXPLAINED if missing or not message else f"{_UNEXPLAINED}: {message}"[:160]
