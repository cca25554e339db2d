"""Lists and dictionaries that cannot be changed: arguments of a node, whose users would not be told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from ..core.pytree import register_record

__all__ = ["immutable_dict", "immutable_list"]


def _refusing(kind: str, names: tuple[str, ...]) -> dict[str, Callable[..., NoReturn]]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"{kind!r} object does not support mutation. If you are attempting to modify the kwargs or args of a "
            "torch.fx.Node object,\ninstead create a new copy of it and assign the copy to the node:\n    "
            "new_args = ...  # copy and mutate args\n    node.args = new_args"
        )

    return dict.fromkeys(names, refuse)


_LIST = (
    "__delitem__", "__iadd__", "__imul__", "__setitem__", "append", "clear", "extend", "insert", "pop", "remove",
    "reverse", "sort",
)  # fmt: skip
_DICT = ("__delitem__", "__ior__", "__setitem__", "clear", "pop", "popitem", "setdefault", "update")


def _reduced(self: Any) -> Any:
    return type(self), ((dict if isinstance(self, dict) else tuple)(self),)


def _hash_list(self: Any) -> int:
    return hash(tuple(self))


def _hash_dict(self: Any) -> int:
    return hash(frozenset(self.items()))


immutable_list: Any = type(
    "immutable_list",
    (list,),
    {
        **_refusing("immutable_list", _LIST),
        "__reduce__": _reduced,
        "__hash__": _hash_list,
        "__module__": __name__,
    },
)
immutable_dict: Any = type(
    "immutable_dict",
    (dict,),
    {
        **_refusing("immutable_dict", _DICT),
        "__reduce__": _reduced,
        "__hash__": _hash_dict,
        "__module__": __name__,
    },
)

register_record(immutable_list, lambda a: (None, list(a)), lambda _, parts: immutable_list(parts))
register_record(
    immutable_dict,
    lambda a: (tuple(a), list(a.values())),
    lambda keys, parts: immutable_dict(zip(keys, parts, strict=True)),
)
