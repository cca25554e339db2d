"""Failures by kind and by cause."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

# In the order of the report.
KINDS = {
    "crash": "ended the process, or hung",
    "behaviour": "another result, or an error that torch does not raise",
    "accepts": "an error that torch raises does not come",
    "missing": "a public name is missing",
    "skipped": "the test skips itself here",
    "late": "over the time limit",
    "warning": "a warning is missing or another one",
    "wording": "the error is raised; its text is another",
    "private": "a name private to torch",
}
APART = ("wording", "private")  # counted apart: no program should depend on them
LACKS = re.compile(
    r"rushlight lacks (\S+)|has no attribute '?([\w.]+)'?|cannot import name '(\w+)'"
    r"|No module named '(\S+)'|there is no operator (\S+)"
)
PRIVATE = re.compile(r"(^|[.:])_[a-zA-Z]|^__config__|^torch\.fx\.experimental")


def kind(row: dict[str, Any]) -> str:
    """Which of KINDS a failure is."""
    message, error = row.get("message", ""), row.get("type", "")
    if row["outcome"] in ("crash", "hang"):
        return "crash"
    if row["outcome"] == "skipped":
        return "skipped"
    if error == "Late":
        return "late"
    if ' does not match "' in message:
        return "private" if "rushlight lacks torch._" in message else "wording"
    found = LACKS.search(message)
    if found:
        name = next(group for group in found.groups() if group)
        return "private" if PRIVATE.search(name) else "missing"
    if "not raised" in message:
        return "accepts"
    if "warning" in message.lower()[:60] or "Warning not triggered" in message:
        return "warning"
    return "behaviour"


@dataclass(frozen=True)
class Cause:
    kind: str
    error: str
    message: str  # numbers and addresses left out
    where: str  # the last frame of Rushlight


@dataclass(frozen=True)
class Failure:
    file: str
    test: str
    row: dict[str, Any]

    @property
    def cause(self) -> Cause:
        message = self.row.get("message", "").split("\n\nTo execute")[0]
        message = re.sub(r"0x[0-9a-f]+", "0x", message)
        message = re.sub(r"-?\d+(\.\d+)?(e-?\d+)?", "#", message).replace("\n", " ")
        where = re.sub(r".*/", "", self.row.get("own") or "")
        return Cause(kind(self.row), self.row.get("type", ""), message[:150], where[:50])


def grouped(failures: Iterable[Failure]) -> list[tuple[Cause, list[Failure]]]:
    """Failures by cause: crashes first, then the most frequent."""
    groups: dict[Cause, list[Failure]] = defaultdict(list)
    for failure in failures:
        groups[failure.cause].append(failure)
    return sorted(groups.items(), key=lambda item: (item[0].kind != "crash", -len(item[1]), item[0].message))
