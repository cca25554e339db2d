"""Where an operator is written: its declaration on every floor, as it stands in the source."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import Any, NamedTuple

import rushlight
from rushlight.core.registry import OpDef

PACKAGE = Path(rushlight.__file__).parent


class Written(NamedTuple):
    """A declaration."""

    path: str  # from the root of a checkout
    line: int
    code: str


@functools.cache
def _declarations(module: str) -> dict[str, list[Written]]:
    """The statements of a module that name an operator, by the name."""
    path = PACKAGE.joinpath(*module.split(".")).with_suffix(".py")
    if not path.exists():
        path = PACKAGE.joinpath(*module.split("."), "__init__.py")
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    found: dict[str, list[Written]] = {}
    shown = f"src/rushlight/{path.relative_to(PACKAGE).as_posix()}"
    for node in ast.parse(text).body:
        parts: list[ast.AST]
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            parts = list(node.decorator_list)
            first = min([node.lineno, *(part.lineno for part in node.decorator_list)])
        elif isinstance(node, ast.Expr | ast.Assign | ast.For | ast.With):
            parts, first = [node], node.lineno
        else:
            continue
        names = {
            inner.value.partition("(")[0]
            for part in parts
            for inner in ast.walk(part)
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str)
        }
        code = "\n".join(lines[first - 1 : node.end_lineno])
        for name in names:
            found.setdefault(name, []).append(Written(shown, first, code))
    return found


def sources(op: OpDef) -> dict[str, dict[str, Any]]:
    """By stage: the declaration of an operator, its file and line; the file alone where a loop makes it."""
    found: dict[str, dict[str, Any]] = {}
    for stage, module in op.declared.items():
        known = _declarations(module)
        written = known.get(op.name) or known.get(op.schema.name) or []
        if written and len(written[0].code) < 6000:
            path, line, code = min(written, key=lambda one: len(one.code))
            found[stage] = {"path": path, "line": line, "code": code}
        else:
            found[stage] = {"path": f"src/rushlight/{module.replace('.', '/')}.py", "line": 1, "code": ""}
    return found
