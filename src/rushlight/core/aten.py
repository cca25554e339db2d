"""`rushlight.ops.aten`: every operator by its ATen name and overload, as `torch.ops.aten` spells them.

`aten.add.Tensor(x, y)` calls one overload, `aten.add(x, y)` the first that fits, `aten.add_.Tensor` the
derived in-place form. Operators that are not ATen's are found under the namespace of their schema.
"""

from __future__ import annotations

from typing import Any

from .mutation import call_inplace
from .registry import OpDef, Registry
from .resolve import Packet, bind, invoke


class OpOverload:
    """One overload, called with a user's arguments."""

    def __init__(self, op: OpDef, *, inplace: bool = False) -> None:
        self.op = op
        self.inplace = inplace
        suffix = "_" if inplace else ""
        self.__name__ = f"{op.schema.name}{suffix}.{op.schema.overload or 'default'}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not self.inplace:
            return invoke(self.op, *args, **kwargs)
        values = bind(self.op, args, kwargs)
        if isinstance(values, str):
            raise TypeError(f"{self.__name__}(): {values}. The signature is {self.op.schema}")
        return call_inplace(self.op, values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OpOverload) and self.op is other.op and self.inplace == other.inplace

    def __hash__(self) -> int:
        return hash((self.op.name, self.inplace))

    def __repr__(self) -> str:
        return f"<OpOverload(op='{self.op.schema.namespace or 'aten'}.{self.__name__}')>"


class OpOverloadPacket:
    """All overloads of one name; attributes are the overloads (`default` for the unnamed one)."""

    def __init__(self, name: str, overloads: list[OpDef], *, inplace: bool, namespace: str = "aten") -> None:
        self._name = f"{namespace}.{name}"
        self._packet = Packet(name, overloads, inplace=inplace)
        self._overloads = {
            op.schema.overload or "default": OpOverload(op, inplace=inplace) for op in overloads
        }

    def __getattr__(self, overload: str) -> OpOverload:
        try:
            return self._overloads[overload]
        except KeyError:
            raise AttributeError(f"{self._name} has no overload '{overload}'; it has "
                                 f"{', '.join(self._overloads)}") from None

    def overloads(self) -> list[str]:
        return list(self._overloads)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._packet(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<OpOverloadPacket(op='{self._name}')>"


class OpNamespace:
    """The operators of one namespace of a registry as attributes, looked up when first asked for."""

    def __init__(self, registry: Registry, namespace: str = "aten") -> None:
        self._registry = registry
        self._namespace = namespace

    def __getattr__(self, name: str) -> OpOverloadPacket:
        overloads = [op for op in self._operators() if op.schema.name == name]
        inplace = not overloads and name.endswith("_") and not name.endswith("__")
        if inplace:
            overloads = [op for op in self._operators() if op.schema.name == name[:-1]]
        if not overloads:
            raise AttributeError(f"there is no operator {self._namespace}::{name}")
        packet = OpOverloadPacket(name, overloads, inplace=inplace, namespace=self._namespace)
        setattr(self, name, packet)
        return packet

    def _operators(self) -> list[OpDef]:
        return [op for op in self._registry if (op.schema.namespace or "aten") == self._namespace]

    def __dir__(self) -> list[str]:
        return sorted({op.schema.name for op in self._operators()})
