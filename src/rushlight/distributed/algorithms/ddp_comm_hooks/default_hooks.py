"""Hooks that average the gradients of a bucket as they are, or as numbers of half the size while they travel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....core.dtypes import bfloat16, float16
from ....futures import Future
from ... import distributed_c10d as c10d

__all__ = [
    "allreduce_hook",
    "bf16_compress_hook",
    "bf16_compress_wrapper",
    "fp16_compress_hook",
    "fp16_compress_wrapper",
]

Hook = Callable[[Any, Any], Future[Any]]


def allreduce_hook(process_group: Any, bucket: Any) -> Future[Any]:
    """The average over the processes of `process_group`, or of all processes if that is None."""
    buffer = bucket.buffer()
    buffer.div_(c10d.get_world_size(process_group))
    return _summed(buffer, process_group)


def fp16_compress_hook(process_group: Any, bucket: Any) -> Future[Any]:
    """The average, sent as float16."""
    return _compressed(allreduce_hook, float16, process_group, bucket)


def bf16_compress_hook(process_group: Any, bucket: Any) -> Future[Any]:
    """The average, sent as bfloat16."""
    return _compressed(allreduce_hook, bfloat16, process_group, bucket)


def fp16_compress_wrapper(hook: Hook) -> Hook:
    """`hook`, given float16 in place of the gradients' dtype."""
    return lambda state, bucket: _compressed(hook, float16, state, bucket)


def bf16_compress_wrapper(hook: Hook) -> Hook:
    """`hook`, given bfloat16 in place of the gradients' dtype."""
    return lambda state, bucket: _compressed(hook, bfloat16, state, bucket)


def _summed(buffer: Any, group: Any) -> Future[Any]:
    work = c10d.all_reduce(buffer, group=group, async_op=True)
    return work.get_future().then(lambda _: buffer)


def _compressed(hook: Hook, dtype: Any, state: Any, bucket: Any) -> Future[Any]:
    """What `hook` makes of the bucket in another dtype, as the gradients' own."""
    own = bucket.buffer()
    bucket.set_buffer(own.to(dtype))

    def back(done: Future[Any]) -> Any:
        result = done.value()
        return own.copy_(result[0] if isinstance(result, list | tuple) else result)

    return hook(state, bucket).then(back)
