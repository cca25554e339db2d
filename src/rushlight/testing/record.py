"""The record of one run of one entry: how many samples, what failed, and why something was not run."""

from __future__ import annotations

import contextlib
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from .compare import Mismatch

PASS, FAIL, NOT_APPLICABLE, EXCLUDED = "pass", "fail", "n/a", "excluded"
_KEPT_FAILURES = 20


@dataclass(frozen=True)
class Failure:
    """One failed check ("function", "method", "inplace", "out", ...); sample -1 is the entry as a whole."""

    sample: int
    check: str
    message: str
    traceback: str = ""

    def line(self) -> str:
        place = "" if self.sample < 0 else f" sample {self.sample}"
        check = "" if self.check == "function" else f" ({self.check})"
        return f"{place}{check}: {self.message}".strip()


@dataclass
class Result:
    """What came of one (entry, variant, dtype)."""

    name: str
    family: str
    variant: str
    dtype: str
    status: str = PASS
    reason: str = ""  # why it was excluded or does not apply
    samples: int = 0
    failed_samples: int = 0
    failures: list[Failure] = field(default_factory=list)  # the first of them
    notes: dict[str, int] = field(
        default_factory=dict
    )  # observations that fail nothing: strides, aliasing, skips
    seconds: float = 0.0

    @property
    def key(self) -> tuple[str, str, str]:
        return (self.name, self.variant, self.dtype)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Result:
        return cls(**{**data, "failures": [Failure(**failure) for failure in data["failures"]]})

    def line(self) -> str:
        """One line for a person: the entry and its first failure."""
        first = self.failures[0].line() if self.failures else self.reason
        return f"{self.name} {self.variant} [{self.dtype}] {first}"


class Recorder:
    """Collects what happens while the checks of one entry run; turns exceptions into failures."""

    def __init__(self) -> None:
        self.samples = 0
        self.checked = 0
        self.failures: list[Failure] = []
        self.failed: set[int] = set()
        self.notes: Counter[str] = Counter()

    @contextlib.contextmanager
    def attempt(self, sample: int, check: str = "function") -> Iterator[None]:
        """Whatever is raised inside is a failure of this sample."""
        self.checked += 1
        try:
            yield
        except Exception as error:
            self.fail(sample, check, error)

    def fail(self, sample: int, check: str, error: BaseException) -> None:
        if sample >= 0:
            self.failed.add(sample)
        if len(self.failures) < _KEPT_FAILURES:
            text = "" if isinstance(error, Mismatch) else "".join(traceback.format_exception(error))
            self.failures.append(Failure(sample, check, describe_error(error), text))

    def note(self, what: str, count: int = 1) -> None:
        if count:
            self.notes[what] += count

    def finish(self, result: Result) -> Result:
        """`result` filled in with what was recorded."""
        result.samples = self.samples
        result.failures = self.failures
        result.failed_samples = len(self.failed)
        result.notes = dict(self.notes)
        if self.failures:
            result.status = FAIL
        elif not self.checked:
            result.status = NOT_APPLICABLE
            result.reason = self._why_nothing()
        return result

    def _why_nothing(self) -> str:
        if not self.samples:
            return "torch gives no sample that can be compared"
        for note, who in (("torch refused", "torch itself"), ("vmap refused", "vmap, as in torch,")):
            if self.notes[note]:
                return f"{who} refuses all {self.samples} samples"
        return "nothing to compare"


def describe_error(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text if isinstance(error, Mismatch) else f"{type(error).__name__}: {text}"
