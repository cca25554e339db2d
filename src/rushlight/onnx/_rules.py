"""How operators are written in ONNX: a table that the other modules fill.

A rule is a function of the model and of the arguments that it names, as the operator's schema has them: tensors
are `Value`s, numbers that are computed of sizes `Number`s, all else Python's values. It may also ask for `result`
(what the operator gives in the example; a list if it gives several), `args` and `named` (all arguments), `name`
(of the operator) and `used` (which results anybody needs). It returns the name of a tensor, or a list of names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

Rule = Callable[..., Any]
RULES: dict[str, tuple[Rule, tuple[str, ...]]] = {}


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Declare the form of operators of these names, `add.Tensor` say."""

    def declare(function: Rule) -> Rule:
        wanted = tuple(inspect.signature(function).parameters)[1:]
        for name in names:
            if name in RULES:
                raise ValueError(f"a second rule for {name}")
            RULES[name] = (function, wanted)
        return function

    return declare
