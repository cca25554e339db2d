"""What the compiler makes of an operator, for a small call: its example, or many elements of a function."""

from __future__ import annotations

import ast
import doctest
import math
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import rushlight
from rushlight.core.documentation import Section
from rushlight.core.registry import OpDef

from .curves import function_of

ELEMENTS = 1024
LONGEST = 120  # lines of a listing


def of_curve(op: OpDef) -> dict[str, str]:
    """A function of one argument, over enough elements that vectors show."""
    return _stages(function_of(op), rushlight.ones(ELEMENTS) * 0.5)


def of_example(section: Section) -> dict[str, str]:
    """The call of an example: its arguments are computed first, then the call alone is compiled."""
    names: dict[str, Any] = {
        "rl": rushlight,
        "nn": rushlight.nn,
        "F": rushlight.nn.functional,
        "math": math,
        "np": np,
    }
    for step in doctest.DocTestParser().get_examples(section.example):
        node = ast.parse(step.source).body[0]
        found = _innermost(node.value) if isinstance(node, ast.Expr) else None
        if found is None:
            exec(step.source, names)
            continue
        function, arguments, keywords = found
        args = [eval(ast.unparse(a), names) for a in arguments]
        kwargs = {str(k.arg): eval(ast.unparse(k.value), names) for k in keywords}
        return _stages(eval(ast.unparse(function), names), *args, **kwargs)
    return {}


def _innermost(node: ast.expr) -> tuple[ast.expr, list[ast.expr], list[ast.keyword]] | None:
    """The call `rl.name(...)` inside of `rl.name(...).method().attribute[0]`."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if re.match(r"(rl|F)\.[\w.]+$", ast.unparse(node.func)):
                if any(isinstance(argument, ast.Starred) for argument in node.args):
                    return None
                return node.func, node.args, node.keywords
            node = node.func.value
        elif isinstance(node, ast.Attribute | ast.Subscript):
            node = node.value
        else:
            return None


def _stages(function: Callable[..., Any], *args: Any, **kwargs: Any) -> dict[str, str]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        told = rushlight.explain(lambda *given: function(*given, **kwargs), *args)
    stages = {"graph": told.decomposed, "loops": told.plan, "assembly": _vector_code(told.assembly)}
    return {name: _cut(text) for name, text in stages.items() if text.strip()}


def _vector_code(text: str) -> str:
    """The innermost loop that uses vector registers, as far as it can be told: the block with most of them."""
    blocks = re.split(r"(?m)^(?=[\w.$]+:)", text)
    counted = [(len(re.findall(r"\b[yz]mm\d+|\bv\d+\.\d+[sd]\b", block)), block) for block in blocks]
    most, block = max(counted, default=(0, ""))
    return block.rstrip() if most else text


def _cut(text: str) -> str:
    lines = text.strip("\n").splitlines()
    return "\n".join(
        lines[:LONGEST] + ([f"... {len(lines) - LONGEST} more lines"] if len(lines) > LONGEST else [])
    )
