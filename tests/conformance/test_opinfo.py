"""PyTorch's OpInfo database against Rushlight, as a ratchet: what fails is listed, what is listed fails.

The entries are dealt into groups, so that a run costs few test items; a failure names the entry. Forward in
float32 runs always, and so does the first sample of each entry for derivatives and decompositions in float64;
the rest runs with `-m slow`. `rushlight conformance --update-expected` rewrites the list.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from rushlight.testing import expected
from rushlight.testing.conformance import Task, run_task
from rushlight.testing.entries import entries, entries_by_name
from rushlight.testing.record import PASS

EXPECTED = Path(__file__).with_name("expected.json")
GROUPS = 24
FIRST = ("bwd", "gradgrad", "fwad", "decomposed")  # of which one sample of every entry runs always
SLOW = [
    (variant, dtype) for variants, dtypes in expected.SWEEPS[1:] for variant in variants for dtype in dtypes
]


def check_group(group: int, variant: str, dtype: str) -> None:
    known = expected.load(EXPECTED)
    found = [
        problem
        for entry in entries()[group::GROUPS]
        for problem in expected.problems(run_task(Task(entry.full_name, (dtype,), (variant,))), known)
    ]
    assert not found, f"{len(found)} entries are not as expected.json says:\n" + "\n".join(found)


@pytest.mark.parametrize("group", range(GROUPS))
def test_forward_float32(group):
    check_group(group, "fwd", "float32")


@pytest.mark.parametrize("group", range(GROUPS))
def test_first_samples(group):
    known, found, passed = expected.load(EXPECTED), [], 0
    for entry in entries()[group::GROUPS]:
        results = run_task(Task(entry.full_name, ("float64",), FIRST), most=1)
        found += expected.problems(results, known, all_samples=False)
        passed += sum(result.status == PASS for result in results)
    assert not found, f"{len(found)} entries are not as expected.json says:\n" + "\n".join(found)
    assert passed > 60, "few entries have been looked at"


@pytest.mark.slow
@pytest.mark.parametrize(("variant", "dtype"), SLOW)
@pytest.mark.parametrize("group", range(GROUPS))
def test_sweep(variant, dtype, group):
    check_group(group, variant, dtype)


def test_the_list_names_entries_and_reasons():
    for section, failing in expected.load(EXPECTED).items():
        assert len(section.split()) == 2
        assert all(name in entries_by_name() and reason for name, reason in failing.items())
