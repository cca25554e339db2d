"""What users see of the values that a node keeps: `grad_fn._saved_self`, `grad_fn._raw_saved_self`.

The names are those of the operator's arguments (`result`, `result0`, ... for its outputs); a shape has the
name PyTorch gives it, `self_sym_sizes` for the sizes of `self`. A tensor that a formula would need, had its
gradient been asked for, is None where it was not kept.
"""

from __future__ import annotations

import re
from typing import Any

from ..derivatives.declare import ALL, Capture, Entry, Take
from .saved import OpNode, Packed, second_time
from .tape import FREED

_VALUES = (Take.VALUE, Take.TENSOR, Take.TENSORS, Take.RESULT, Take.RESULTS)
_SIZES = re.compile(
    r"(?P<argument>\w+?)_sym_(?P<what>sizes|numel|argsize_(?P<minus>minus_)?(?P<dim>\d+))(_opt)?$"
)


class SavedTensor:
    """A tensor in the keeping of a node; `register_hooks` has it packed and unpacked by a pair of hooks.

    >>> y = rl.ones(2, requires_grad=True).exp()
    >>> saved = y.grad_fn._raw_saved_result
    >>> isinstance(saved, rl.autograd.SavedTensor)
    True
    >>> saved.register_hooks(lambda tensor: tensor.half(), lambda packed: packed.float() * 0)
    >>> y.grad_fn._saved_result.detach()
    tensor([0., 0.])
    """

    __slots__ = ("_holder", "_index", "_node", "_output_nr")

    _node: Any
    _holder: list[Any]
    _index: int
    _output_nr: int | None

    def __init__(self, *args: Any) -> None:
        raise RuntimeError(
            "Trying to create a SavedTensor object from Python is forbidden; a node that "
            "saves tensors has them, as `grad_fn._raw_saved_self` for instance."
        )

    def register_hooks(self, *hooks: Any) -> None:
        """Keep `pack_hook(tensor)` in place of the tensor; `unpack_hook` undoes it."""
        if len(hooks) != 2 or not all(map(callable, hooks)):
            raise TypeError(
                "register_hooks(): incompatible function arguments; expected a pack hook and an "
                "unpack hook, both callable"
            )
        if self._node_freed():
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed: backward "
                "was called without retain_graph=True, which frees what is saved"
            )
        item = self._holder[self._index]
        nested = isinstance(item, tuple) and len(item) == 2 and (item[1] is None or type(item[0]) is tuple)
        value = item[0] if nested else item  # a custom function keeps the number of the output beside it
        if value is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor with value None is forbidden: there "
                "is nothing to pack"
            )
        if type(value) is Packed:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set: "
                "only one pair of hooks is allowed at a time"
            )
        packed = Packed(value[0], hooks, self._output_nr is not None)
        self._holder[self._index] = (packed, item[1]) if nested else packed

    def _node_freed(self) -> bool:
        node = self._node
        return (node.saved if isinstance(node, OpNode) else node._saved) is FREED


def raw(node: Any, holder: list[Any], index: int, output_nr: int | None) -> SavedTensor:
    saved = object.__new__(SavedTensor)
    saved._node, saved._holder, saved._index, saved._output_nr = node, holder, index, output_nr
    return saved


def _label(entry: Entry, capture: Capture) -> str:
    _, index, output = capture
    if not output:
        return str(entry.op.schema.argument_names[index])
    returns = entry.op.schema.returns
    return "result" if len(returns) == 1 or index == ALL else returns[index].name or f"result{index}"


def saved_attribute(node: OpNode, name: str) -> Any:
    """`node._saved_<...>` and `node._raw_saved_<...>`; AttributeError for all other names."""
    if name.startswith("_saved_"):
        return _value(node, name[7:])
    if name.startswith("_raw_saved_"):
        return _raw(node, name[11:])
    raise AttributeError(f"{node.name()} has no attribute {name}")


def _value(node: OpNode, wanted: str) -> Any:
    if node.saved is FREED:
        raise second_time()
    for capture, item, unpack in zip(node.plan.captures, node.saved, node.plan.unpack or (), strict=False):
        if capture[0] in _VALUES and _label(node.entry, capture) == wanted:
            return item if unpack is None else unpack(item, node)
    if wanted in _kept_by_some_formula(node.entry):
        return None
    found = _SIZES.match(wanted)
    shape = None if found is None else _shape_of(node, found["argument"])
    if found is None or shape is None:
        raise AttributeError(f"{node.name()} has no attribute _saved_{wanted}")
    if found["what"] == "sizes":
        return shape
    if found["what"] == "numel":
        count = 1
        for size in shape:
            count *= size
        return count
    return shape[-int(found["dim"]) if found["minus"] else int(found["dim"])]


def _kept_by_some_formula(entry: Entry) -> set[str]:
    sources = [source for formula in entry.formulas for source in formula.sources]
    return {
        _label(entry, source)
        for source in sources
        if isinstance(source, tuple) and source[0] in (Take.TENSOR, Take.TENSORS)
    }


def _shape_of(node: OpNode, argument: str) -> Any:
    """The sizes of an argument that has a gradient, or whose shape was kept."""
    entry = node.entry
    names = entry.op.schema.argument_names
    if argument not in names:
        return None
    for (take, index, output), item in zip(node.plan.captures, node.saved, strict=False):
        if take is Take.SHAPE and not output and names[index] == argument:
            return item
    position = names.index(argument)
    if node.counts is not None or position not in entry.targets:
        return None
    edge = node._next[entry.targets.index(position)]
    return None if edge is None else edge[0]._meta[edge[1]][0]


def _raw(node: OpNode, wanted: str) -> Any:
    saved = node.saved if node.saved is not FREED else [FREED] * len(node.plan.captures)
    for i, capture in enumerate(node.plan.captures):
        take, index, _ = capture
        if _label(node.entry, capture) != wanted:
            continue
        if take in (Take.TENSOR, Take.RESULT):
            return raw(node, saved, i, index if take is Take.RESULT else None)
        if take is Take.TENSORS and saved[i] is not None:
            if saved[i] is FREED:
                raise second_time()
            return tuple([raw(node, saved[i], k, None) for k in range(len(saved[i]))])
    raise AttributeError(f"{node.name()} has no attribute _raw_saved_{wanted}")


OpNode.__getattr__ = saved_attribute  # type: ignore[method-assign]
