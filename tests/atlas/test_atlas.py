"""The atlas has a page for every operator, with plots and accuracy for every function of one real argument."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rushlight import atlas
from rushlight.atlas import collect, curves, references
from rushlight.cli.main import main
from rushlight.core.registry import REGISTRY
from rushlight.testing.measure import STAGES

MEASURED = json.loads(collect.MEASURED.read_text())
FUNCTIONS = [name for name in atlas.operators() if curves.curve_of(name) is not None]


def test_every_registered_operator_is_there() -> None:
    assert {op.schema.name for op in REGISTRY} == set(atlas.operators())
    assert sum(len(overloads) for overloads in atlas.operators().values()) == len(REGISTRY.ops)
    assert all(collect.summary(name)["text"] for name in atlas.operators())


def test_functions_of_one_argument_have_accuracy_and_speed() -> None:
    assert {"sigmoid", "gelu", "erfinv", "square", "special_airy_ai", "arcsin"} <= set(FUNCTIONS)
    assert not {"zeros_like", "cumsum", "add", "flip"} & set(FUNCTIONS)
    assert set(FUNCTIONS) <= set(references.references() if _has_mpmath() else MEASURED["accuracy"])
    assert set(MEASURED["accuracy"]) == set(FUNCTIONS)
    assert len(MEASURED["speed"]) > 0.9 * len(FUNCTIONS)


def _has_mpmath() -> bool:
    try:
        import mpmath  # noqa: F401
    except ImportError:
        return False
    return True


def test_accuracy_is_what_was_measured() -> None:
    pytest.importorskip("mpmath", reason="the extra docs is not installed")
    from rushlight.atlas.measure import accuracy

    for name in ("sqrt", "sigmoid"):
        found = accuracy(name)
        assert found is not None
        assert found["compiled"]["max"] == pytest.approx(
            MEASURED["accuracy"][name]["compiled"]["max"], abs=0.5
        )
    assert MEASURED["accuracy"]["sqrt"]["compiled"]["max"] <= 0.5


def test_curves_have_derivatives() -> None:
    curve = curves.curve("sin")
    assert curve is not None and len(curve["rows"]) == 3
    middle = len(curve["x"]) // 2
    assert [round(row[middle], 3) for row in curve["rows"]] == [0, 1, 0]
    flat = curves.curve("signbit")
    assert flat is None  # its values are no numbers


def test_facts_of_each_kind() -> None:
    sigmoid = atlas.facts("sigmoid")
    assert "exp" in sigmoid["overloads"][0]["sources"]["definition"]["code"]
    assert 'derivative("sigmoid"' in sigmoid["overloads"][0]["sources"]["derivative"]["code"]
    assert "for i0" in sigmoid["case"]["loops"] and sigmoid["case"]["assembly"]
    softmax = atlas.facts("_softmax")
    assert softmax["curve"] is None and "softmax" in softmax["text"]
    view = atlas.facts("transpose")
    assert view["kind"] == "view" and view["coverage"]
    assert "gradient" in collect.summary("sigmoid_backward")["text"]


def test_conformance_has_samples_by_variant_and_dtype() -> None:
    entries = atlas.facts("sum")["conformance"]["entries"]
    samples, differ = entries["sum"]["fwd"]["float32"]
    assert samples > 10 and differ == 0
    assert {"fwd", "bwd"} <= set(entries["sum"])
    assert set(atlas.facts("std")["conformance"]["entries"]) == {"std", "std.unbiased"}
    assert atlas.facts("sigmoid_backward")["conformance"]["entries"] == {}
    known = json.loads(collect.EXPECTED.read_text())
    recorded = json.loads(collect.CONFORMANCE.read_text())
    for cell in recorded.keys() & known.keys():  # the other cells have lists of their own in the tests
        assert {entry for entry, (_, differ) in recorded[cell].items() if differ} <= set(known[cell])


def test_columns_of_coverage_are_those_that_are_stored() -> None:
    assert collect.COLUMNS == STAGES


def test_one_page_by_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.html"
    assert main(["atlas", "sigmoid", "--out", str(page)]) == 0
    text = page.read_text()
    assert "sigmoid" in text and "src=" not in text.partition("<script data-asset")[0]
    assert main(["atlas", "sigmiod"]) == 2
    assert "did you mean" in capsys.readouterr().err
    assert main(["atlas"]) == 2


@pytest.mark.slow
def test_all_pages(tmp_path: Path) -> None:
    count = atlas.write(tmp_path)
    assert count == len(list((tmp_path / "operators").glob("*.html"))) == len(atlas.operators())
