"""Every entry of the two lists of defects has a regression test that names it.

`test_d12_...` is for the twelfth entry of the list of defects, `test_a3_...` for the third of the adversarial
programs. Neither list is reopened: a new defect gets a test beside the code it concerns.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

# Number 13 was never given.
EXPECTED = {f"d{n}" for n in range(1, 26) if n != 13} | {f"a{n}" for n in range(1, 14)}


def named_tests() -> dict[str, list[str]]:
    """The tests of this folder by the entry that they name."""
    found: dict[str, list[str]] = {}
    for path in sorted(Path(__file__).parent.glob("test_*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and (entry := re.match(r"test_([ad]\d+)_", node.name)):
                found.setdefault(entry[1], []).append(f"{path.name}::{node.name}")
    return found


def test_every_entry_is_named_by_a_test():
    named = named_tests()
    assert sorted(EXPECTED - set(named)) == []
    assert sorted(set(named) - EXPECTED) == [], "a test names an entry that is not in the lists"
