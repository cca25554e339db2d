"""The examples of docs/ run, and say what they print."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
from torch._dynamo.exc import InvalidBackend

from rushlight.torch_backend import rushlight

DOCS = Path(__file__).parents[1] / "docs"
# How many examples each page has; its comments behind `print` say what they print.
EXAMPLES = {
    "compiler": 5,
    "control_flow": 4,
    "distributed": 1,
    "distributions": 1,
    "explain": 1,
    "graphs": 3,
    "howto": 4,
    "install": 1,
    "names": 1,
    "nested": 4,
    "onnx": 1,
    "operators": 4,
    "profiler": 1,
    "programs": 1,
    "quantization": 3,
    "sparse": 1,
    "start": 6,
    "torch_backend": 1,
    "tutorials/breaks": 2,
    "tutorials/distributed": 3,
    "tutorials/gpt": 4,
    "tutorials/operator": 3,
    "tutorials/port": 3,
    "tutorials/read_compile": 3,
    "tutorials/sizes": 3,
}


def name_backend() -> None:
    """Have torch.compile know the backend, which an installed package's entry point does."""
    try:
        torch._dynamo.lookup_backend("rushlight")
    except InvalidBackend:
        torch._dynamo.register_backend(rushlight, name="rushlight")


def run_examples(page: str) -> tuple[dict[str, Any], list[str]]:
    """What the examples of a page define, and what they say that they print."""
    path = DOCS / f"{page}.md"
    if page == "torch_backend":
        name_backend()
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(), re.S)
    text = "".join(blocks)
    assert len(blocks) == EXAMPLES[page]
    if page == "programs":  # in which torch is rushlight, in a process of their own
        program = [sys.executable, "-c", text]
        print(subprocess.run(program, capture_output=True, text=True, check=True).stdout, end="")
        blocks = []
    scope: dict[str, Any] = {"__name__": "docs_example"}
    for block in blocks:
        exec(compile(block, str(path), "exec"), scope)
    return scope, re.findall(r"print\(.*\) +# (.*)", text)


@pytest.mark.parametrize("page", EXAMPLES)
def test_examples_print_what_they_say(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    scope, said = run_examples(page)
    printed = re.sub(r"j\d+", "j1", capsys.readouterr().out).splitlines()
    assert printed == said
    assert said or page in ("compiler", "sparse")
    if page == "compiler":
        assert scope["f"].reasons == ["first call", "scale: value was 2.0, is 3.0"]
        assert len(scope["step"].reasons) <= 2
        assert len(scope["descend"].reasons) == 1
        assert abs(scope["w"].tolist()[0] + 0.6) < 1e-6
    if page == "nested":
        assert scope["embed"].weight.grad is not None
        assert scope["compiled"].reasons == ["first call"]


def test_every_page_with_examples_is_listed() -> None:
    pages = [*DOCS.glob("*.md"), *DOCS.glob("tutorials/*.md")]
    with_examples = [page for page in pages if "```python" in page.read_text()]
    assert {page.relative_to(DOCS).with_suffix("").as_posix() for page in with_examples} == set(EXAMPLES)


def test_environment_variables_are_all_described() -> None:
    """The page lists what the package reads, and nothing else."""
    root = DOCS.parent
    read = {
        name
        for path in (root / "src").rglob("*.py")
        for name in re.findall(r"\bRUSHLIGHT_[A-Z_]*[A-Z]\b", path.read_text())
    }
    table = re.findall(r"^\| `(RUSHLIGHT_[A-Z_]+)` \|", (DOCS / "environment.md").read_text(), re.M)
    assert table == sorted(read)


def test_files_that_are_named_exist() -> None:
    root = DOCS.parent
    pages = [*DOCS.glob("*.md"), *root.glob("*.md")]
    named = {
        (page.name, path)
        for page in pages
        for path in re.findall(r"`((?:[\w.]+/)+[\w.]+\.py)[`:]", page.read_text())
    }
    assert len(named) > 50
    assert not {
        (page, path)
        for page, path in named
        if not (root / path).exists() and not (root / "src" / "rushlight" / path).exists()
    }
