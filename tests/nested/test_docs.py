"""The examples of docs/nested.md run, and say what they print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs" / "nested.md"


def test_examples(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.S)
    assert len(blocks) == 3
    scope: dict[str, object] = {"__name__": "docs_example"}
    for block in blocks:
        exec(compile(block, str(DOCS), "exec"), scope)
    said = re.findall(r"print\(.*\) +# (.*)", blocks[0])
    printed = re.sub(r"j\d+", "j1", capsys.readouterr().out).splitlines()
    assert len(said) == 3 and printed == said
    assert scope["embed"].weight.grad is not None
    assert scope["compiled"].reasons == ["first call"]
