"""Calling a rule with just the arguments it names.

Shape rules, kernels, formulas and lowerings are plain functions whose parameter names say what they need.
`by_name` checks those names once, when the rule is declared, and returns a function of the operator's
whole argument tuple.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from keyword import kwlist
from operator import itemgetter
from types import FrameType, FunctionType
from typing import Any

from .errors import RegistrationError

_ESCAPED = {f"{word}_": word for word in kwlist}


def parameter_names(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the parameters of a plain Python function, in order; `from_` names the argument `from`."""
    if not isinstance(function, FunctionType):
        raise RegistrationError(
            f"{function!r} must be a plain function or lambda, so that its parameters can be named"
        )
    code = function.__code__
    if code.co_flags & 0x0C:
        raise RegistrationError(
            f"{where(function)}: a rule cannot take *args or **kwargs; name what it needs"
        )
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    if _ESCAPED.keys().isdisjoint(names):
        return names
    return tuple(_ESCAPED.get(name, name) for name in names)


def where(function: Callable[..., Any]) -> str:
    code = getattr(function, "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else repr(function)


def check_names(function: Callable[..., Any], scope: Sequence[str], owner: str) -> tuple[str, ...]:
    """The parameter names of `function`; RegistrationError if one is not in `scope`."""
    names = parameter_names(function)
    unknown = [name for name in names if name not in scope]
    if unknown:
        raise RegistrationError(
            f"{where(function)}: {owner} asks for {', '.join(unknown)}; in scope are {', '.join(scope)}"
        )
    return names


def by_name(
    function: Callable[..., Any], scope: Sequence[str], owner: str
) -> Callable[[tuple[Any, ...]], Any]:
    """`function` as a function of the tuple of values named by `scope`."""
    names = check_names(function, scope, owner)
    if names == tuple(scope):
        return lambda args: function(*args)
    if not names:
        return lambda args: function()
    if len(names) == 1:
        index = list(scope).index(names[0])
        return lambda args: function(args[index])
    pick = itemgetter(*[list(scope).index(name) for name in names])
    return lambda args: function(*pick(args))


# Where a rule was declared.


def declaring_module() -> str:
    """The module that called a declaration function ("ops.view_scatter")."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals["__name__"].endswith(_DECLARE):
        frame = frame.f_back
    assert frame is not None
    return str(frame.f_globals["__name__"]).removeprefix("rushlight.")


# modules of declaration functions
_DECLARE = (".declare", ".registry", ".aliases", ".declare_layouts", ".declare_pointwise")


def family_of(module: str) -> str:
    """The family of a module: its file name up to a "_" (ops.view_scatter: view)."""
    return module.rpartition(".")[2].partition("_")[0]
