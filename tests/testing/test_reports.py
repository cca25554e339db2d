"""Reports and the list of expected failures, from made-up results."""

from __future__ import annotations

import io
import json
import re

import pytest
from rich.console import Console

from rushlight.testing import expected, rates, report
from rushlight.testing.page import render
from rushlight.testing.record import FAIL, NOT_APPLICABLE, PASS, Failure, Recorder, Result


def results():
    bad = Failure(3, "method", "AttributeError: </script><b>", "Traceback ...")
    return [
        Result("sum", "reduction", "fwd", "float32", PASS, samples=20, notes={"strides differ": 2}),
        Result("cumsum", "scan", "fwd", "float32", FAIL, samples=5, failed_samples=1, failures=[bad]),
        Result(
            "gcd", "pointwise", "fwd", "float32", NOT_APPLICABLE, "torch does not support float32 on the CPU"
        ),
    ]


def printed(function, *args, **kwargs):
    console = Console(width=200, record=True, file=io.StringIO())
    function(console, *args, **kwargs)
    return console.export_text()


def test_summary_counts_what_applies():
    text = printed(report.print_summary, results())
    assert "fwd float32: 1 of 3 entries pass, 1 fail, 1 do not apply, 0 excluded" in text
    assert "strides differ in 1" in text


def test_failures_are_one_line_each_with_traceback_when_asked():
    line = "cumsum fwd [float32] sample 3 (method): AttributeError: </script><b> (1 of 5 samples)"
    assert printed(report.print_failures, results(), verbose=False).strip() == line
    assert "Traceback" in printed(report.print_failures, results(), verbose=True)


def test_json_round_trip(tmp_path):
    report.write_json(tmp_path / "r.json", results())
    data = json.loads((tmp_path / "r.json").read_text())
    assert [Result.from_json(item) for item in data["results"]] == results()
    assert data["totals"] == {"fwd float32": {"pass": 1, "fail": 1, "n/a": 1}}


def test_recorded_samples_stay_until_they_are_measured_again(tmp_path):
    sum_, cumsum, gcd = results()
    path = tmp_path / "conformance.json"
    assert rates.record([sum_, cumsum, gcd], path) == 2
    assert json.loads(path.read_text()) == {"fwd float32": {"cumsum": [5, 1], "sum": [20, 0]}}
    whole = Result("sum", "reduction", "bwd", "float64", FAIL)  # crashed before any sample was counted
    assert rates.record([whole, Result("cumsum", "scan", "fwd", "float32", PASS, samples=6)], path) == 2
    assert json.loads(path.read_text()) == {
        "bwd float64": {"sum": [1, 1]},
        "fwd float32": {"cumsum": [6, 0], "sum": [20, 0]},
    }


def test_rates_count_what_applies_in_all_files(tmp_path):
    sum_, cumsum, gcd = results()
    other = Result("cumsum", "scan", "bwd", "float64", PASS, samples=5)
    report.write_json(tmp_path / "1.json", [Result(*sum_.key[:1], "reduction", "fwd", "float32", FAIL), gcd])
    report.write_json(tmp_path / "2.json", [sum_, cumsum, other])
    found = rates.read([tmp_path / "1.json", tmp_path / "2.json"])
    assert found == [sum_, gcd, cumsum, other]  # the later file wins
    lines = [line.strip("│┃┏┓┗┛├┤┡┩ ") for line in printed(rates.print_rates, found, {}).splitlines()]
    cells = [[cell.strip() for cell in line.split("│")] for line in lines]
    assert ["fwd", "1/2  50.0%", "-", "1/2  50.0%"] in cells
    assert ["bwd", "-", "1/1  100.0%", "1/1  100.0%"] in cells
    assert ["all", "1/2  50.0%", "1/1  100.0%", "2/3  66.7%"] in cells
    assert "1 fail: 0 of them listed with a reason in expected.json" in lines
    assert "not listed: cumsum fwd [float32] sample 3 (method): AttributeError: </script><b>" in lines
    assert rates.unlisted(found, {"fwd float32": {"cumsum": "why"}}) == []


def test_page_is_self_contained_and_safe():
    page = render(results())
    assert page.count("</script>") == 2
    assert not re.search(r"(src|href)\s*=|https?://|@import|url\(", page)
    data = json.loads(re.search(r'id="data">(.*?)</script>', page, re.S)[1])
    assert [entry["name"] for entry in data["entries"]] == ["sum", "cumsum", "gcd"]


def test_expected_failures_are_strict(tmp_path):
    path = tmp_path / "expected.json"
    sum_, cumsum, gcd = results()
    assert expected.problems([cumsum], {})[0].startswith("cumsum fwd [float32] sample 3")
    assert expected.problems([cumsum], {"fwd float32": {"cumsum": "why"}}) == []
    (problem,) = expected.problems([sum_], {"fwd float32": {"sum": "why"}})
    assert "passes but is listed to fail (why): remove it from the list" in problem
    assert "does not apply" in expected.problems([gcd], {"fwd float32": {"gcd": "why"}})[0]
    path.write_text(
        json.dumps({"fwd float32": {"sum": "old", "other": "kept"}, "bwd float64": {"x": "kept"}})
    )
    assert "1 added, 1 removed, 3 listed" in expected.update(results(), path)
    known = expected.load(path)
    assert known["bwd float64"] == {"x": "kept"}
    assert known["fwd float32"].keys() == {"cumsum", "other"}
    known["fwd float32"]["cumsum"] = "a written reason"
    path.write_text(json.dumps(known))
    expected.update(results(), path)
    assert expected.load(path)["fwd float32"]["cumsum"] == "a written reason"


def test_a_record_without_comparisons_does_not_apply():
    record = Recorder()
    assert record.finish(Result("x", "scan", "fwd", "float32")).status == NOT_APPLICABLE
    with record.attempt(0):
        pass
    assert record.finish(Result("x", "scan", "fwd", "float32")).status == PASS
    with record.attempt(1, "method"):
        raise TypeError("bad\n  argument")
    result = record.finish(Result("x", "scan", "fwd", "float32"))
    assert (result.status, result.failures[0].line()) == (FAIL, "sample 1 (method): TypeError: bad argument")


def test_update_needs_a_checkout(tmp_path):
    with pytest.raises(FileNotFoundError, match="root of a checkout"):
        expected.update(results(), tmp_path / "nowhere" / "expected.json")
