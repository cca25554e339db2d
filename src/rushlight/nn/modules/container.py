"""Containers: modules and parameters in sequences and dictionaries."""

from __future__ import annotations

import itertools
import operator
from collections import OrderedDict
from collections.abc import ItemsView, Iterable, Iterator, KeysView, Mapping, ValuesView
from typing import Any, TypeVar, cast

from ..._api.types import typename
from ...core.errors import check
from ...core.tensor import Tensor
from ..parameter import Parameter
from .module import Module

__all__ = ["Container", "ModuleDict", "ModuleList", "ParameterDict", "ParameterList", "Sequential"]

Self = TypeVar("Self", bound="_Numbered")


class Container(Module):
    """The former base of containers; nothing but a Module with named children.

    >>> issubclass(nn.Container, nn.Module)
    True
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__()
        for name, module in kwargs.items():
            self.add_module(name, module)


def _position(index: Any, size: int) -> int:
    index = operator.index(index)
    check(-size <= index < size, f"index {index} is out of range", IndexError)
    return index % size


class _Numbered(Module):
    """Children in order. Names need not be numbers until something is deleted."""

    _modules: dict[str, Any]

    def _name_at(self, index: Any) -> str:
        return next(itertools.islice(self._modules, _position(index, len(self)), None))

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._modules.values())

    def __setitem__(self, idx: Any, module: Module) -> None:
        setattr(self, self._name_at(idx), module)

    def __delitem__(self, idx: Any) -> None:
        for name in list(self._modules)[idx] if isinstance(idx, slice) else [self._name_at(idx)]:
            delattr(self, name)
        self._modules = {str(i): module for i, module in enumerate(self._modules.values())}

    def append(self: Self, module: Module) -> Self:
        self.add_module(str(len(self)), module)
        return self

    def pop(self, key: Any) -> Any:
        value = self[key]
        del self[key]
        return value

    def __getitem__(self, idx: Any) -> Any:
        raise NotImplementedError

    def _make_room(self, index: int, module: Module) -> None:
        for i in range(len(self._modules), index, -1):
            self._modules[str(i)] = self._modules[str(i - 1)]
        self._modules[str(index)] = module


class Sequential(_Numbered):
    """Modules called one after the other, each on what the one before it returned.

    >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    >>> model(rl.ones(5, 2)).shape
    rushlight.Size([5, 3])
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = (
            args[0].items()
            if len(args) == 1 and isinstance(args[0], OrderedDict)
            else ((str(i), module) for i, module in enumerate(args))
        )
        for name, module in named:
            self.add_module(name, module)

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return self.__class__(OrderedDict(list(self._modules.items())[idx]))
        return self._modules[self._name_at(idx)]

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def __add__(self, other: Any) -> Sequential:
        return Sequential(*self, *_sequential(other))

    def __iadd__(self, other: Any) -> Sequential:
        return self.extend(list(_sequential(other)))

    def __mul__(self, other: int) -> Sequential:
        return Sequential(*list(self) * self._times(other))

    def __rmul__(self, other: int) -> Sequential:
        return self * other

    def __imul__(self, other: int) -> Sequential:
        return self.extend(list(self) * (self._times(other) - 1))

    def _times(self, other: Any) -> int:
        check(
            isinstance(other, int),
            f"unsupported operand type(s) for *: {type(self)} and {type(other)}",
            TypeError,
        )
        check(other > 0, f"Non-positive multiplication factor {other} for {type(self)}", ValueError)
        return cast(int, other)

    def insert(self, index: int, module: Module) -> Sequential:
        check(isinstance(module, Module), f"module should be of type: {Module}", AssertionError)
        size = len(self)
        check(-size <= index <= size, f"Index out of range: {index}", IndexError)
        self._make_room(index + size if index < 0 else index, module)
        return self

    def extend(self, sequential: Iterable[Module]) -> Sequential:
        for module in sequential:
            self.append(module)
        return self


def _sequential(other: Any) -> Sequential:
    check(
        isinstance(other, Sequential),
        f"add operator supports only objects of Sequential class, but {type(other)} is given.",
        ValueError,
    )
    return cast(Sequential, other)


class ModuleList(_Numbered):
    """A list of modules.

    >>> layers = nn.ModuleList([nn.Linear(2, 3), nn.Linear(3, 1)])
    >>> len(list(layers.parameters()))
    4
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _name_at(self, index: Any) -> str:
        return str(_position(index, len(self)))

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return self.__class__(list(self._modules.values())[idx])
        return self._modules[self._name_at(idx)]

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        check(
            isinstance(modules, Iterable),
            f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}",
            TypeError,
        )
        for module in list(modules):
            self.append(module)
        return self

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def insert(self, index: int, module: Module) -> None:
        self._make_room(index, module)

    def __repr__(self) -> str:
        """As that of any module, but equal neighbours are shown once."""
        lines = []
        start = 0
        for text, group in itertools.groupby(repr(module) for module in self):
            count = len(list(group))
            where = f"({start})" if count == 1 else f"({start}-{start + count - 1})"
            times = "" if count == 1 else f"{count} x "
            lines.append(f"{where}: {times}{text}".replace("\n", "\n  "))
            start += count
        inside = "\n  " + "\n  ".join(lines) + "\n" if lines else ""
        return f"{self._get_name()}({inside})"


def _pairs(values: Any, name: str, kinds: str, *, in_order: bool) -> Iterator[tuple[str, Any]]:
    """Keys and values of a mapping, or of a sequence of pairs; a plain mapping is sorted unless
    `in_order`."""
    check(
        isinstance(values, Iterable),
        f"{kinds}.update should be called with an iterable of key/value pairs, but "
        f"got {type(values).__name__}",
        TypeError,
    )
    if isinstance(values, ModuleDict | ParameterDict | OrderedDict):
        yield from values.items()
    elif isinstance(values, Mapping):
        yield from values.items() if in_order else sorted(values.items())
    else:
        for i, pair in enumerate(values):
            check(
                isinstance(pair, Iterable),
                f"{name} update sequence element #{i} should be Iterable; is {type(pair).__name__}",
                TypeError,
            )
            check(
                len(pair) == 2,
                f"{name} update sequence element #{i} has length {len(pair)}; 2 is required",
                ValueError,
            )
            yield pair[0], pair[1]


class ModuleDict(Module):
    """A dictionary of modules.

    >>> layers = nn.ModuleDict({"first": nn.Linear(2, 3)})
    >>> layers["first"]
    Linear(in_features=2, out_features=3, bias=True)
    """

    _modules: dict[str, Any]

    def __init__(self, modules: Mapping[str, Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __getitem__(self, key: str) -> Any:
        return self._modules[key]

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)

    def __delitem__(self, key: str) -> None:
        del self._modules[key]

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[str]:
        return iter(self._modules)

    def __contains__(self, key: str) -> bool:
        return key in self._modules

    def clear(self) -> None:
        self._modules.clear()

    def pop(self, key: str) -> Any:
        return self._modules.pop(key)

    def keys(self) -> KeysView[str]:
        return self._modules.keys()

    def items(self) -> ItemsView[str, Any]:
        return self._modules.items()

    def values(self) -> ValuesView[Any]:
        return self._modules.values()

    def update(self, modules: Any) -> None:
        for key, module in _pairs(modules, "ModuleDict", "ModuleDict", in_order=True):
            self[key] = module


def _described(key: Any, value: Any, kind: Any) -> str:
    """One line of the representation of a container of parameters."""
    if not isinstance(value, Tensor):
        return f"  ({key}): Object of type: {type(value).__name__}"
    what = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"  ({key}): {what} containing: [{kind(value)} of size {'x'.join(str(n) for n in value.shape)}]"


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


class ParameterList(Module):
    """A list of parameters; tensors become parameters, anything else is kept as it is.

    >>> len(nn.ParameterList([nn.Parameter(rl.ones(1)), nn.Parameter(rl.ones(2))]))
    2
    """

    def __init__(self, values: Iterable[Any] | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __getitem__(self, idx: Any) -> Any:
        if isinstance(idx, slice):
            return self.__class__([self[i] for i in range(*idx.indices(len(self)))])
        return getattr(self, str(_position(idx, len(self))))

    def __setitem__(self, idx: Any, param: Any) -> None:
        setattr(self, str(_position(idx, len(self))), _as_parameter(param))

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Any]:
        return iter([self[i] for i in range(len(self))])

    def __iadd__(self, parameters: Iterable[Any]) -> ParameterList:
        return self.extend(parameters)

    def append(self, value: Any) -> ParameterList:
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable[Any]) -> ParameterList:
        check(
            isinstance(values, Iterable) and not isinstance(values, Tensor),
            f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}",
            TypeError,
        )
        for value in list(values):
            self.append(value)
        return self

    def extra_repr(self) -> str:
        return "\n".join(_described(i, value, lambda tensor: tensor.dtype) for i, value in enumerate(self))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterList should not be called.")


class ParameterDict(Module):
    """A dictionary of parameters; tensors become parameters, anything else is kept as it is.

    >>> list(nn.ParameterDict({"scale": nn.Parameter(rl.ones(1))}))
    ['scale']
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        return getattr(self, _text(key))

    def __setitem__(self, key: str, value: Any) -> None:
        self._keys[_text(key)] = None
        setattr(self, key, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        del self._keys[key]
        delattr(self, _text(key))

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(self._keys)

    def __contains__(self, key: str) -> bool:
        return key in self._keys

    def copy(self) -> ParameterDict:
        return ParameterDict(OrderedDict(self.items()))

    def setdefault(self, key: str, default: Any = None) -> Any:
        if key not in self:
            self[key] = default
        return self[key]

    def clear(self) -> None:
        for key in list(self._keys):
            del self[key]

    def pop(self, key: str) -> Any:
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        key = next(reversed(self._keys))
        return key, self.pop(key)

    def get(self, key: str, default: Any = None) -> Any:
        return getattr(self, key) if key in self._keys else default

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        return ParameterDict((key, default) for key in keys)

    def keys(self) -> KeysView[str]:
        return self._keys.keys()

    def items(self) -> Iterable[tuple[str, Any]]:
        return ((key, self[key]) for key in self._keys)

    def values(self) -> Iterable[Any]:
        return (self[key] for key in self._keys)

    def update(self, parameters: Any) -> None:
        for key, value in _pairs(parameters, "ParameterDict", "ParametersDict", in_order=False):
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(_described(key, value, typename) for key, value in self.items())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError("ParameterDict should not be called.")

    def __or__(self, other: Any) -> ParameterDict:
        result = self.copy()
        result.update(other)
        return result

    def __ror__(self, other: Any) -> ParameterDict:
        result = other.copy()
        result.update(self)
        return cast(ParameterDict, result)

    def __ior__(self, other: Any) -> ParameterDict:
        self.update(other)
        return self


def _text(key: Any) -> str:
    check(
        isinstance(key, str),
        "Index given to ParameterDict cannot be used as a key as it is not a string (type is "
        f"'{type(key).__name__}').",
        TypeError,
    )
    return cast(str, key)
