"""Selective checkpointing: which results of a checkpointed part are kept, and which are computed again.

A policy is asked for each operator. The first run keeps the results it says to save; the second takes them,
in the order in which the operator was called, instead of computing them.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from collections.abc import Callable
from typing import Any

from ..core import pytree
from ..core.aten import OpOverload, OpOverloadPacket
from ..core.dispatch import run_name
from ..core.overrides import modes_replaced
from ..core.tensor import Tensor
from ._python_dispatch import TorchDispatchMode

Storage = dict[Any, list[Any]]


class CheckpointPolicy(enum.Enum):
    """What to do with the result of an operator. What is preferred may be decided otherwise by a compiler,
    what must be may not.

    >>> rl.utils.checkpoint.CheckpointPolicy.MUST_SAVE.name
    'MUST_SAVE'
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3


class SelectiveCheckpointContext:
    """What a policy is told besides the operator: whether this is the second run.

    >>> rl.utils.checkpoint.SelectiveCheckpointContext(is_recompute=True).is_recompute
    True
    """

    def __init__(self, *, is_recompute: bool) -> None:
        self.is_recompute = is_recompute


class _VersionWrapper:
    """A kept result, and how often it had been written to."""

    def __init__(self, value: Any) -> None:
        self.val = run_name("detach", value) if isinstance(value, Tensor) else value
        self.version = value._version if isinstance(value, Tensor) else None

    def get_val(self, allow_cache_entry_mutation: bool) -> Any:
        if self.version is not None and not allow_cache_entry_mutation and self.val._version != self.version:
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated: "
                "clone it before writing to it, or say allow_cache_entry_mutation=True"
            )
        return self.val


_IGNORED = ("aten::detach",)  # it marks the end of a history, and computes nothing


def _saves(policy: Any) -> bool:
    if isinstance(policy, bool):
        return policy
    if not isinstance(policy, CheckpointPolicy):
        raise TypeError(f"expected the policy to return a CheckpointPolicy, got {type(policy).__name__}")
    return policy in (CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE)


class _CachingTorchDispatchMode(TorchDispatchMode):
    """The first run."""

    def __init__(self, policy_fn: Callable[..., Any], storage: Storage) -> None:
        self.policy_fn = policy_fn
        self.storage = storage

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.name() in _IGNORED:
            return func(*args, **kwargs)
        save = _saves(self.policy_fn(SelectiveCheckpointContext(is_recompute=False), func, *args, **kwargs))
        result = func(*args, **kwargs)
        if save:
            with modes_replaced(()):
                self.storage[func].append(pytree.tree_map(_VersionWrapper, result))
        return result


class _CachedTorchDispatchMode(TorchDispatchMode):
    """The second run."""

    def __init__(
        self, policy_fn: Callable[..., Any], storage: Storage, allow_cache_entry_mutation: bool
    ) -> None:
        self.policy_fn = policy_fn
        self.storage = storage
        self.allow_cache_entry_mutation = allow_cache_entry_mutation

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func.name() in _IGNORED:
            return func(*args, **kwargs)
        context = SelectiveCheckpointContext(is_recompute=True)
        if not _saves(self.policy_fn(context, func, *args, **kwargs)):
            return func(*args, **kwargs)
        kept = self.storage.get(func)
        if kept is None:
            raise RuntimeError(
                f"{func} encountered during backward, but not found in storage: the policy "
                "must say the same in both runs"
            )
        if not kept:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on "
                "any region computed under selective activation checkpoint."
            )
        return pytree.tree_map(lambda entry: entry.get_val(self.allow_cache_entry_mutation), kept.pop(0))


def create_selective_checkpoint_contexts(
    policy_fn_or_list: Any, allow_cache_entry_mutation: bool = False
) -> tuple[TorchDispatchMode, TorchDispatchMode]:
    """The contexts of the two runs, for `context_fn` of checkpoint: given a policy, called with a context,
    the operator and its arguments, or a list of the operators whose results are saved.

    >>> contexts = rl.utils.checkpoint.create_selective_checkpoint_contexts([rl.ops.aten.mm.default])
    >>> len(contexts)
    2
    """
    if isinstance(policy_fn_or_list, list):
        for op in policy_fn_or_list:
            if not isinstance(op, OpOverload):
                hint = (
                    " Please update the OpOverloadPacket to a specific OpOverload, as aten.sin.default "
                    "for aten.sin."
                    if isinstance(op, OpOverloadPacket)
                    else ""
                )
                raise ValueError(
                    f"Expected op in `op_list` to be an OpOverload but got: {op} of type "
                    f"{type(op).__name__}.{hint}"
                )
        saved = list(policy_fn_or_list)

        def policy(ctx: Any, op: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
            return CheckpointPolicy.MUST_SAVE if op in saved else CheckpointPolicy.PREFER_RECOMPUTE
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    storage: Storage = defaultdict(list)
    return (
        _CachingTorchDispatchMode(policy, storage),
        _CachedTorchDispatchMode(policy, storage, allow_cache_entry_mutation),
    )
