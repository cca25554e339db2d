"""The schema of an operator, read off the annotations of a Python function."""

from __future__ import annotations

import collections.abc
import inspect
import typing
from collections.abc import Callable, Iterable
from typing import Any

from ..core import tokens
from ..core.dtypes import DType
from ..core.tensor import Tensor

__all__ = ["SUPPORTED_PARAM_TYPES", "SUPPORTED_RETURN_TYPES", "infer_schema", "parse_return", "tuple_to_list"]

_Number = int | float | bool
_List: Any = typing.List  # noqa: UP006


def _with_lists(
    kind: Any,
    text: str,
    *,
    optional: bool = True,
    lists: bool = True,
    optional_lists: bool = True,
    optional_items: bool = False,
) -> dict[Any, str]:
    found: dict[Any, str] = {kind: text}
    if optional:
        found[typing.Optional[kind]] = f"{text}?"  # noqa: UP045
    sequences: Any = (typing.Sequence, typing.List, collections.abc.Sequence, list)  # noqa: UP006
    for sequence in sequences if lists else ():
        found[sequence[kind]] = f"{text}[]"
    for sequence in sequences if optional_items else ():
        found[sequence[typing.Optional[kind]]] = f"{text}?[]"  # noqa: UP045
    for sequence in sequences if lists and optional_lists else ():
        found[typing.Optional[sequence[kind]]] = f"{text}[]?"  # noqa: UP045
    return found


SUPPORTED_PARAM_TYPES: dict[Any, str] = {
    **_with_lists(Tensor, "Tensor", optional_lists=False, optional_items=True),
    **_with_lists(int, "SymInt"),
    **_with_lists(float, "float"),
    **_with_lists(bool, "bool"),
    **_with_lists(str, "str", lists=False),
    **_with_lists(_Number, "Scalar", optional_lists=False),
    **_with_lists(DType, "ScalarType", lists=False),
    **_with_lists(tokens.device, "Device", lists=False),
}
SUPPORTED_RETURN_TYPES: dict[Any, str] = {
    Tensor: "Tensor",
    list[Tensor]: "Tensor[]",
    _List[Tensor]: "Tensor[]",
    int: "SymInt",
    float: "float",
    bool: "bool",
    _Number: "Scalar",
}


def infer_schema(
    prototype_function: Callable[..., Any],
    /,
    *,
    mutates_args: str | Iterable[str],
    op_name: str | None = None,
) -> str:
    """The schema of a function whose arguments and results are annotated, such as "(Tensor x) -> Tensor".

    `mutates_args` names the tensors that it writes to, "unknown" says that it may write to any.

    >>> def scaled(x: rl.Tensor, by: float) -> rl.Tensor:
    ...     return x * by
    >>> rl.library.infer_schema(scaled, mutates_args=())
    '(Tensor x, float by) -> Tensor'
    """
    signature = inspect.signature(prototype_function)
    unknown = mutates_args == "unknown"
    if isinstance(mutates_args, str) and not unknown:
        raise ValueError(
            f"infer_schema: mutates_args must be a sequence of names or the string 'unknown', "
            f"not {mutates_args!r}"
        )
    written = set() if unknown else set(mutates_args)
    strange = written - set(signature.parameters)
    if strange:
        raise ValueError(
            f"infer_schema: {strange} in mutates_args were not found in the signature of the "
            f"function, which is {signature}"
        )
    parts: list[str] = []
    for i, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in parts:
            parts.append("*")
        parts.append(_parameter(prototype_function, name, parameter, i, unknown, name in written))
    if signature.return_annotation is inspect.Signature.empty:
        raise ValueError("infer_schema: No return type annotation was provided. Please add one.")
    results = parse_return(_evaluated(prototype_function, signature.return_annotation))
    return f"{op_name or ''}({', '.join(parts)}) -> {results}"


def _parameter(
    function: Callable[..., Any],
    name: str,
    parameter: inspect.Parameter,
    number: int,
    unknown: bool,
    written: bool,
) -> str:
    for kind, word in (
        (inspect.Parameter.VAR_POSITIONAL, "varargs"),
        (inspect.Parameter.VAR_KEYWORD, "varkwargs"),
    ):
        if parameter.kind is kind:
            raise ValueError(f"infer_schema: {word} are not supported: {parameter}")
    if parameter.annotation is inspect.Parameter.empty:
        raise ValueError(f"infer_schema: the parameter {name} must have a type annotation")
    annotation = _evaluated(function, parameter.annotation)
    text = SUPPORTED_PARAM_TYPES.get(annotation) if _hashable(annotation) else None
    if text is None:
        raise ValueError(
            f"infer_schema: the parameter {name} has the unsupported type {annotation}."
            f"{_proposal(annotation)} The types are {list(SUPPORTED_PARAM_TYPES)}"
        )
    if written and not text.startswith("Tensor"):
        raise ValueError(
            f"infer_schema: the parameter {name} is in mutates_args, but only tensors and lists "
            f"of them can be mutated, not a {text}"
        )
    if (written or unknown) and text.startswith("Tensor"):
        text = f"Tensor(a{number}!){text[len('Tensor') :]}"
    if parameter.default is inspect.Parameter.empty:
        return f"{text} {name}"
    return f"{text} {name}={_default(name, parameter.default)}"


def _default(name: str, value: Any) -> str:
    if value is None or isinstance(value, bool | int | float):
        return str(value)
    if isinstance(value, str | tokens.device):
        return f'"{value}"'
    if isinstance(value, DType):
        return value.name
    raise ValueError(
        f"infer_schema: the parameter {name} has a default of the unsupported type "
        f"{type(value).__name__}; it may be None, a number, a string, a dtype or a device"
    )


def _hashable(annotation: Any) -> bool:
    try:
        hash(annotation)
    except TypeError:
        return False
    return True


def _evaluated(function: Callable[..., Any], annotation: Any) -> Any:
    """An annotation; what is written as a string is looked up where the function was written."""
    if not isinstance(annotation, str):
        return annotation
    names = {
        "Tensor": Tensor,
        "device": tokens.device,
        "dtype": DType,
        "Number": _Number,
        "Optional": typing.Optional,
        "List": list,
        "Sequence": typing.Sequence,
        "Union": typing.Union,
    }
    inner = inspect.unwrap(function)
    try:
        return eval(annotation, {**names, **getattr(inner, "__globals__", {})})
    except Exception as error:
        raise ValueError(
            f"infer_schema: the unsupported type annotation {annotation!r} is not a type that "
            f"can be found: {error}"
        ) from None


def tuple_to_list(tuple_type: Any) -> Any:
    """`Tuple[int, int]` as the list that could stand for it: `List[int]`."""
    given = typing.get_args(tuple_type)
    if not given:
        return typing.List  # noqa: UP006
    if len(given) == 1 or (len(given) == 2 and given[1] is Ellipsis):
        return _List[given[0]]
    return _List[typing.Union[tuple(given)]]  # noqa: UP007


def _proposal(annotation: Any) -> str:
    if typing.get_origin(annotation) is not tuple:
        return ""
    instead = tuple_to_list(annotation)
    return f" For example, {instead} is supported." if instead in SUPPORTED_PARAM_TYPES else ""


def parse_return(annotation: Any) -> str:
    """What a function returns, as a schema says it."""
    if annotation is None or annotation is type(None):
        return "()"
    if _hashable(annotation) and annotation in SUPPORTED_RETURN_TYPES:
        return SUPPORTED_RETURN_TYPES[annotation]
    parts = typing.get_args(annotation)
    if typing.get_origin(annotation) is not tuple or not parts:
        raise ValueError(
            f"infer_schema: the return has the unsupported type {annotation}; it may be one of "
            f"{list(SUPPORTED_RETURN_TYPES)} or a tuple of such"
        )
    for part in parts:
        if not _hashable(part) or part not in SUPPORTED_RETURN_TYPES:
            raise ValueError(
                f"infer_schema: the return has the unsupported type {part} in {annotation}; the "
                f"types are {list(SUPPORTED_RETURN_TYPES)}"
            )
    texts = [SUPPORTED_RETURN_TYPES[part] for part in parts]
    return f"({', '.join(texts)})" if len(texts) > 1 else texts[0]
