"""The examples of docs/quantization.md run, and say what they print."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs" / "quantization.md"


def test_examples(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.S)
    assert len(blocks) == 3
    scope: dict[str, object] = {"__name__": "docs_example"}
    for block in blocks:
        exec(compile(block, str(DOCS), "exec"), scope)
    said = re.findall(r"print\(.*\) +# (.*)", "".join(blocks))
    assert len(said) == 5
    assert capsys.readouterr().out.splitlines() == said
