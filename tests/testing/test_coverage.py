"""The coverage of PyTorch's tables: rows find their operators, measurements are true, the README tells
them."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rushlight.cli.main import main
from rushlight.core.registry import REGISTRY
from rushlight.testing import coverage, measure
from rushlight.testing.coverage_page import render
from rushlight.testing.coverage_rows import FUNCTIONAL, INPLACE, OUT, Line, facts, rows
from rushlight.testing.coverage_witness import WITNESSES
from rushlight.testing.measure import BODY, BREAK, EXTERN, NATIVE, STAGES, TEMPLATE, VIEW

ROOT = Path(__file__).parents[2]
MEASURED = coverage.load()
COVERED = coverage.table(MEASURED)
SUMS = coverage.counts(COVERED)


# The page and the floors.


def test_the_page_has_the_counts() -> None:
    text = (ROOT / "docs/coverage.md").read_text(encoding="utf-8")
    assert coverage.written(text, SUMS) == text, "rushlight coverage --measure --update-page"


def test_no_count_has_fallen() -> None:
    assert coverage.floors(), "there are no floors"
    assert coverage.fallen(SUMS, coverage.floors()) == []


def test_what_falls_is_told() -> None:
    name, count = next(iter(coverage.floors().items()))
    assert coverage.fallen({**SUMS, name: count - 1}, coverage.floors()) == [
        f"{name} fell from {count} to {count - 1}"
    ]
    assert coverage.raised({**SUMS, name: count + 1}, coverage.floors())[name] == count + 1
    assert coverage.raised({**SUMS, name: count - 1}, coverage.floors())[name] == count


def test_a_readme_without_markers_is_refused() -> None:
    with pytest.raises(ValueError, match="no lines"):
        coverage.written("# Another\n", SUMS)


def test_what_was_promised() -> None:
    for stage in ("present", "eager", "reverse", "forward", "second", "mixed"):
        assert SUMS[f"derivatives.all.{stage}"] == SUMS["derivatives.all.rows"] == 649
    core = SUMS["decompositions.core.rows"] - SUMS["decompositions.core.apart"]
    assert SUMS["decompositions.core.decomposed"] == core
    assert SUMS["decompositions.first.decomposed"] == SUMS["decompositions.first.rows"]
    native = sum(SUMS[f"lowerings.fallback.{word}"] for word in (NATIVE, TEMPLATE, VIEW))
    assert native >= 60
    here = [c for c in COVERED if c.line.table == "lowerings" and "first" in c.line.marks and c.line.present]
    # messages need a second process: tests/distributed/functional_program.py has them
    alone = [c for c in here if not re.match(r"_c10d_functional\.(isend|irecv|batch_p2p_ops)\b", c.line.row)]
    assert [c.line.row for c in alone if not c.lowered] == []


# Rows.


def test_every_row_is_there_once() -> None:
    for table in ("derivatives", "decompositions", "lowerings"):
        assert [line.row for line in rows() if line.table == table] == [fact["op"] for fact in facts(table)]


@pytest.mark.parametrize(
    "table, row, op, form",
    [
        ("decompositions", "abs.default", "abs", FUNCTIONAL),
        ("decompositions", "abs.out", "abs", OUT),
        ("decompositions", "pow_.Tensor", "pow.Tensor_Tensor", INPLACE),
        ("decompositions", "__iand__.Scalar", "__and__.Scalar", INPLACE),
        ("decompositions", "arange.start_out", "arange.start_step", OUT),
        ("decompositions", "normal_.default", "normal_functional", INPLACE),
        ("lowerings", "prims.convert_element_type", "_to_copy", FUNCTIONAL),
        ("lowerings", "add_", "add.Tensor", INPLACE),
    ],
)
def test_rows_find_their_operators(table: str, row: str, op: str, form: str) -> None:
    (line,) = [line for line in rows() if (line.table, line.row) == (table, row)]
    assert (line.op, line.form) == (op, form)


def test_rows_without_operator_say_why_or_are_missing() -> None:
    reasons = {line.row: line.reason for line in rows() if not line.present}
    assert "shards" in reasons["symm_mem._low_contention_all_gather"] and "numbers" in reasons["add.int"]
    assert not [line for line in rows() if line.present and line.reason]
    assert not [line for line in rows() if line.present and line.op not in REGISTRY]


# Measurements.


def test_everything_is_measured() -> None:
    missing = [
        name for kind, names in coverage.wanted().items() for name in names if name not in MEASURED[kind]
    ]
    assert missing == [], "rushlight coverage --measure"


@pytest.mark.parametrize("key", coverage.wanted()["operators"][::60])
def test_measurements_are_as_stored(key: str) -> None:
    assert measure.measure(key) == MEASURED["operators"][key]


@pytest.mark.slow
def test_all_measurements_are_as_stored() -> None:
    assert coverage.update(MEASURED, ".", lambda name: None) == MEASURED


def test_witnesses_belong_to_operators() -> None:
    unknown = [name for name in WITNESSES if name not in REGISTRY and name.replace("_.", ".") not in REGISTRY]
    assert unknown == []


@pytest.mark.parametrize(
    "key, stage, outcome",
    [
        ("sin", "compiled", NATIVE),
        ("sin", "decomposition", BODY),
        ("mm", "compiled", TEMPLATE),
        ("transpose.int", "compiled", VIEW),
        ("linalg_qr", "compiled", f"{EXTERN}: linalg_qr"),
        ("addmm", "decomposition", "ok"),
    ],
)
def test_what_measuring_finds(key: str, stage: str, outcome: str) -> None:
    assert measure.measure(key)[stage] == outcome


def test_a_program_in_pieces_is_all_of_them() -> None:
    assert measure.measure("nonzero")["compiled"] == TEMPLATE


def test_what_takes_sparse_tensors_breaks_a_graph() -> None:
    assert measure.measure("_sparse_softmax")["compiled"].startswith(f"{BREAK}: ")


def test_a_wrong_operator_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    op = REGISTRY["addmm"]
    right = op.decomposition
    assert right is not None
    monkeypatch.setattr(op, "decomposition", lambda args: right(args) * 1.01)
    assert "Not equal to tolerance" in measure.measure("addmm")["decomposition"]


def test_a_row_of_an_operator_that_was_not_measured_counts_as_present_only() -> None:
    line = Line("lowerings", "sin.default", ("native",), "sin")
    covered = coverage.Covered(line, coverage._stages(line, {"operators": {}, "derivatives": {}}))
    assert covered.stages["eager"] == coverage.NOT_MEASURED and not covered.lowered and not covered.decomposed


# The command and the page.


def test_the_command_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "coverage.html"
    assert main(["coverage", "--html", str(page)]) == 0
    printed = capsys.readouterr().out
    for table in ("derivatives.csv", "decompositions.csv", "lowerings.csv"):
        assert table in printed
    assert page.read_text(encoding="utf-8") == render(COVERED)


def test_the_page_carries_every_row_and_needs_no_network() -> None:
    text = render(COVERED)
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.S).group(1))  # type: ignore[union-attr]
    assert len(data["rows"]) == len(rows()) and {len(row) for row in data["rows"]} == {len(data["columns"])}
    assert not re.search(r"https?://|src=|@import", text)
    assert set(STAGES) <= set(data["columns"])


def test_measurements_survive_being_stored(tmp_path: Path) -> None:
    coverage.save(MEASURED, tmp_path / "coverage.json")
    assert coverage.load(tmp_path / "coverage.json") == MEASURED
    assert coverage.load(tmp_path / "none.json") == {"operators": {}, "derivatives": {}}


def test_only_what_is_asked_for_is_measured_again() -> None:
    seen: list[str] = []
    known: coverage.Measurements = {
        "operators": dict(MEASURED["operators"]),
        "derivatives": dict(MEASURED["derivatives"]),
    }
    del known["operators"]["sin"]
    found = coverage.update(known, None, seen.append)
    assert seen == ["sin"] and found["operators"]["sin"] == MEASURED["operators"]["sin"]
