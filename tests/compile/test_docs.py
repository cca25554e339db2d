"""The examples of docs/compiler.md run."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs" / "compiler.md"


def test_examples() -> None:
    blocks = re.findall(r"```python\n(.*?)```", DOCS.read_text(), re.S)
    assert len(blocks) == 3
    scope: dict[str, object] = {"__name__": "docs_example"}
    for block in blocks:
        exec(compile(block, str(DOCS), "exec"), scope)
    assert scope["f"].reasons == ["first call", "scale changed from 2.0 to 3.0"]
    assert len(scope["step"].reasons) <= 2
    assert len(scope["descend"].reasons) == 1
    assert abs(scope["w"].tolist()[0] + 0.6) < 1e-6
