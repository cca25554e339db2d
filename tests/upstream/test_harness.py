"""The harness itself, on a small tree: what counts, what is kept apart, crashes; a stub passes no test."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

SPEC = importlib.util.spec_from_file_location("upstream_child", Path(__file__).with_name("child.py"))
child = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(child)

TESTS = """
import os, signal, unittest
import torch
from torch._C import _no_such_private_name_
from torch.testing._internal.common_utils import TestCase

ON_TORCH = "rushlight" not in type(torch.ones(1)).__module__


class TestSmall(TestCase):
    def test_passes(self):
        self.assertEqual(torch.ones(2) + 1, torch.full((2,), 2.0))

    def test_fails_on_both(self):
        self.assertEqual(1, 2)

    def test_another_result(self):
        self.assertEqual(torch.ones(2), torch.full((2,), 1.0 if ON_TORCH else 2.0))

    def test_wording(self):
        with self.assertRaisesRegex(RuntimeError, "of torch" if ON_TORCH else "no such text"):
            raise RuntimeError("of torch")

    def test_private_name(self):
        if not ON_TORCH:
            _no_such_private_name_()

    def test_missing_name(self):
        if not ON_TORCH:
            torch.no_such_public_name

    def test_crash(self):
        if not ON_TORCH:
            os.kill(os.getpid(), signal.SIGSEGV)

    def test_z_after_crash(self):
        pass
"""


@pytest.fixture(scope="module")
def report() -> ModuleType:
    return child.load("report")


@pytest.fixture(scope="module")
def row(report, tmp_path_factory):
    """The small tree run on both libraries."""
    tree = tmp_path_factory.mktemp("tree")
    (tree / "test").mkdir()
    (tree / "test" / "test_small.py").write_text(TESTS)
    file = report.TestFile("test_small.py", 0)
    driver = report.Driver(tree, tmp_path_factory.mktemp("outcomes"))
    driver.run("torch", file, None, 300)
    driver.run("rushlight", file, driver.counted(file), 300)
    return report._row(driver, file)


def test_only_what_passes_on_torch_counts(row):
    assert row.count["counted"] == 7
    assert row.count["passed"] == 2  # test_passes, and test_z_after_crash: a crash costs one test
    assert row.count["crash"] == 1
    assert row.count["unrun"] == 0


def test_failures_have_their_kind(row, report):
    kinds = {f.test.rpartition("::")[2]: report.causes.kind(f.row) for f in row.failures}
    assert kinds == {
        "test_another_result": "behaviour",
        "test_wording": "wording",
        "test_private_name": "private",
        "test_missing_name": "missing",
        "test_crash": "crash",
    }
    assert row.share == pytest.approx(2 / 7)
    assert row.share_apart == pytest.approx(2 / 5)


def test_the_page_has_the_table_between_its_marks(row, report):
    page = f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n"
    text = report.written(page, [row], report._total([row]), row.failures)
    assert "old" not in text and text.startswith("before") and text.endswith("after\n")
    assert "| test_small.py | 7 | 2 |" in text
    assert report.written(text, [row], report._total([row]), row.failures) == text
    with pytest.raises(ValueError, match="no marks"):
        report.written("a page", [row], report._total([row]), [])


def test_samples_are_chosen_by_name(report, tmp_path):
    plugin = child.load("plugin")
    job = child.load("driver").Job("torch", "test_a.py", str(tmp_path), str(tmp_path / "out"), sample=3)
    chooser = plugin.Plugin.__new__(plugin.Plugin)
    chooser.job, chooser.inductor = job, False
    names = {f"test_{i}": i for i in range(20)}
    first = chooser._choose(names)
    assert len(first) == 3
    assert first == chooser._choose(dict(reversed(names.items())))


def test_a_tree_without_a_source_package_says_what_to_do(report, monkeypatch, tmp_path):
    source = child.load("source")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(source.shutil, "which", lambda name: None)
    with pytest.raises(source.NoTree, match="--tree"):
        source.get_tree()
