"""The command line: help, friendly errors, and sub-commands that say what they did."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from rushlight.cli import main as cli
from rushlight.cli.main import main


def test_help_lists_the_commands(capsys):
    assert main([]) == 0
    text = capsys.readouterr().out
    assert all(name in text for name in ("conformance", "demo", "ops", "tour"))


def test_the_module_runs_as_a_program():
    done = subprocess.run(
        [sys.executable, "-m", "rushlight", "--help"], capture_output=True, text=True, check=True
    )
    assert "usage: rushlight" in done.stdout


def test_ops_finds_by_schema(capsys):
    assert main(["ops", r"^add\.Tensor"]) == 0
    text = capsys.readouterr().out
    assert "add.Tensor(Tensor self, Tensor other" in text
    assert "pointwise" in text


def test_ops_counts_by_family(capsys):
    assert main(["ops", "--count"]) == 0
    assert "operators" in capsys.readouterr().out


def test_ops_that_match_nothing_say_so(capsys):
    assert main(["ops", "no_such_operator"]) == 1
    assert "no operator matches" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["conformance", "--variants", "sideways"], "--variants: sideways unknown; choose from fwd"),
        (["conformance", "--dtypes", "float33"], "--dtypes: float33 unknown"),
        (["conformance", "--ops", "^no_such_entry$"], "no entry matches"),
        (["conformance", "--ops", "("], "not a regular expression"),
        (["conformance", "--summary", "nowhere.json"], "no file nowhere.json"),
        (["ops", "("], "not a regular expression"),
        (["tour", "nowhere"], "no stop nowhere; the tour has creation"),
    ],
)
def test_wrong_questions_get_an_answer_and_status_2(arguments, message, capsys):
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_a_missing_oracle_is_explained(monkeypatch, capsys):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert main(["conformance"]) == 2
    assert "pip install 'rushlight[test]'" in capsys.readouterr().err


def test_conformance_in_this_process(tmp_path, capsys):
    page, data = tmp_path / "report.html", tmp_path / "report.json"
    arguments = [
        "conformance",
        "--oracle-only",
        "--jobs",
        "0",
        "--ops",
        "^(sum|eq)$",
        "--html",
        str(page),
        "--json",
        str(data),
    ]
    assert main(arguments) == 0
    assert "fwd float32: 2 of 2 entries pass" in capsys.readouterr().out
    assert page.read_text().startswith("<!doctype html>")
    assert [result["name"] for result in json.loads(data.read_text())["results"]] == ["eq", "sum"]


def test_conformance_lists_its_selection(capsys):
    assert main(["conformance", "--list", "--ops", "^(sum|eq)$"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["eq", "sum"]


def test_errors_alone_run_no_other_variant(capsys):
    assert main(["conformance", "--oracle-only", "--jobs", "0", "--errors", "--ops", "^cat$"]) == 0
    out = capsys.readouterr().out
    assert "errors any: 1 of 1 entries pass" in out
    assert "fwd" not in out


def test_every_command_is_importable():
    for module, help_text in cli.COMMANDS.values():
        imported = __import__(module, fromlist=["run"])
        assert callable(imported.run) and callable(imported.add_arguments) and help_text
