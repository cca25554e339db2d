"""Averaging the gradients of several processes while the backward pass runs.

A hook on each parameter tells when its gradient is there. When a bucket is full, and those before it are on
their way, its reduction begins and the pass goes on; at the end of the pass the reductions are waited for and the
averages become the gradients. All processes reduce the same buckets in the same order.

When a whole step is captured the hooks run while it is: the reductions are functional collectives of the graph,
and the compiler decides where they start and where they are waited for.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._api.compiler import is_compiling
from ..._api.link import cat, zeros
from ...autograd.edges import edge_of
from ...core.dispatch import AMBIENT
from ...core.dtypes import int32
from ...core.modes import MODES
from ...core.tensor import Tensor
from ...distributed import _results as results
from ...distributed import distributed_c10d as c10d
from ...futures import Future
from ._buckets import DEFAULT_MEGABYTES, FIRST_BYTES, GRAPH_BUCKETS, Bucket, GradBucket, make_buckets, split

_TWICE = (
    "Expected to mark a variable ready only once: the gradient of parameter {name} was completed twice in one "
    "reduction. Either a parameter is shared by several backward passes over one forward, or a part of the model "
    "is run again in backward (reentrant checkpoints); static_graph=True allows that"
)
_UNFINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one: these "
    "parameters got no "
    "gradient: {names}. Pass find_unused_parameters=True to DistributedDataParallel if not all outputs of the "
    "module take part in the loss"
)


class Reducer:
    """Averages the gradients of `parameters` in the processes of `group`."""

    def __init__(
        self,
        parameters: Sequence[Tensor],
        names: Sequence[str],
        group: Any,
        *,
        bucket_cap_mb: float | None = None,
        find_unused: bool = False,
        as_views: bool = False,
        static: bool = False,
    ) -> None:
        self.parameters, self.names, self.group = list(parameters), list(names), group
        self.world = c10d.get_world_size(group)
        self.divisor = self.world  # of sums of gradients
        self.find_unused, self.as_views, self.static = find_unused, as_views, static
        self.sync = True  # whether hooks reduce: not under no_sync()
        self.hook: tuple[Any, Any] | None = None  # (state, hook) of register_comm_hook
        self.limit = int((DEFAULT_MEGABYTES if bucket_cap_mb is None else bucket_cap_mb) * (1 << 20))
        self.asked = bucket_cap_mb is not None
        first = FIRST_BYTES if bucket_cap_mb is None else self.limit
        order = range(len(self.parameters))[::-1]  # the last ones are used last, and differentiated first
        self.buckets = make_buckets(self.parameters, order, self.limit, first)
        self.first = first
        self.arrived = False  # whether buckets are in the order in which gradients arrive
        self.visits: list[int] | None = None  # of a static graph: how often each hook runs in a pass
        self.current: Reduction | None = None
        self.captured: weakref.WeakKeyDictionary[Any, Reduction] = weakref.WeakKeyDictionary()
        self.handles = [
            parameter.register_post_accumulate_grad_hook(_Ready(weakref.ref(self), position))
            for position, parameter in enumerate(self.parameters)
        ]

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()

    def begin_forward(self) -> None:
        """RuntimeError if the reduction of the step before was not finished."""
        left = None if is_compiling() else self.current
        if left is not None:
            self.current = None
            missing = [self.names[i] for i, count in enumerate(left.counts) if not count]
            raise RuntimeError(_UNFINISHED.format(names=", ".join(missing)))

    def ready(self, position: int) -> None:
        """The gradient of a parameter is complete."""
        if not self.sync or (self.world == 1 and self.hook is None):
            return
        if is_compiling():
            if self.hook is not None:
                AMBIENT.trace.refuse("a communication hook of DistributedDataParallel")
            if MODES.run.create_graph:
                AMBIENT.trace.refuse(
                    "gradients that are averaged by DistributedDataParallel and differentiated"
                )
        if is_compiling():
            reduction = self.captured.get(AMBIENT.trace)
            if reduction is None:
                reduction = self.captured[AMBIENT.trace] = CapturedReduction(self)
        else:
            reduction = self.current
            if reduction is None:
                reduction = self.current = Reduction(self, self.buckets)
            left = None if AMBIENT.trace is None else self.captured.pop(AMBIENT.trace, None)
            if left is not None:  # the capture was left in the middle of the backward pass: there is data now
                left.buckets = []
                reduction.enter(MODES.run)
                for earlier in left.arrival:
                    reduction.ready(earlier)
        reduction.enter(MODES.run)
        reduction.ready(position)

    def buckets_of_graph(self) -> list[Bucket]:
        """The buckets of a captured step. Nothing computes while the last one travels, so that there are several
        even of a small model, unless their size was asked for."""
        if self.asked:
            return self.buckets
        order = [position for bucket in self.buckets for position in bucket.positions]
        total = sum(p.numel() * p.dtype.itemsize for p in self.parameters)
        limit = min(max(total // GRAPH_BUCKETS, FIRST_BYTES), self.limit)
        return make_buckets(self.parameters, order, limit, self.first)

    def is_first_static(self) -> bool:
        return self.static and self.visits is None

    def finished(self, reduction: Reduction) -> None:
        """A reduction has been waited for."""
        self.current = None
        if self.is_first_static():
            self.visits = list(reduction.counts)
        arrival = list(dict.fromkeys(reduction.arrival))
        left = [i for i in range(len(self.parameters))[::-1] if not reduction.counts[i]]
        self._order_buckets(arrival + left)

    def _order_buckets(self, order: list[int]) -> None:
        """After the first reduction: buckets in the order in which gradients came in the first process."""
        if not self.arrived and not self.find_unused:
            self.arrived = True
            orders = [order]
            c10d.broadcast_object_list(orders, group_src=0, group=self.group)
            self.buckets = make_buckets(self.parameters, orders[0], self.limit, self.first)

    def take_part(self) -> None:
        """Without gradients of its own, add nothing to the reductions of others."""
        reduction = Reduction(self, self.buckets)
        for position in range(len(self.parameters)):
            reduction.add_nothing(position)
        for begun in reduction.begun:
            begun.wait()
        reduction.used_anywhere()
        self._order_buckets([position for bucket in self.buckets for position in bucket.positions])


class _Ready:
    """The hook of one parameter."""

    def __init__(self, reducer: weakref.ref[Reducer], position: int) -> None:
        self.reducer, self.position = reducer, position

    def __call__(self, parameter: Tensor) -> None:
        reducer = self.reducer()
        if reducer is not None:
            reducer.ready(self.position)


class Reduction:
    """One reduction of all gradients: from the first that is ready to the end of the backward pass."""

    def __init__(self, reducer: Reducer, buckets: list[Bucket]) -> None:
        self.reducer = reducer
        self.buckets = buckets
        self.where = {
            position: (bucket, i) for bucket in self.buckets for i, position in enumerate(bucket.positions)
        }
        count = len(reducer.parameters)
        self.counts = [0] * count  # how often a gradient was completed
        self.unused: set[int] = set()
        self.arrival: list[int] = []
        self.left = [len(bucket.positions) for bucket in self.buckets]
        self.begun: list[Any] = []  # of each bucket that is on its way
        self.runs: list[Any] = []

    def enter(self, run: Any) -> None:
        """Take part in a backward pass."""
        if not any(run is known for known in self.runs):
            self.runs.append(run)
            run.callbacks.append(self.end_of_pass)
            reducer = self.reducer
            if reducer.find_unused and not reducer.static:
                for position, parameter in enumerate(reducer.parameters):
                    edge = edge_of(parameter)
                    if edge is None or not run.executes(edge[0]):
                        self.add_nothing(position)
            elif reducer.visits is not None:
                for position, visits in enumerate(reducer.visits):
                    if not visits:
                        self.add_nothing(position)

    def add_nothing(self, position: int) -> None:
        """There is no gradient of a parameter here."""
        if position not in self.unused:
            self.unused.add(position)
            self.fill(position, None)
            self._one_less(position)

    def ready(self, position: int) -> None:
        reducer = self.reducer
        self.counts[position] += 1
        self.arrival.append(position)
        if reducer.is_first_static():
            return
        expected = 1 if reducer.visits is None else reducer.visits[position]
        if self.counts[position] > expected or position in self.unused:
            raise RuntimeError(_TWICE.format(name=reducer.names[position]))
        if self.counts[position] == expected:
            self.fill(position, reducer.parameters[position].grad)
            self._one_less(position)

    def _one_less(self, position: int) -> None:
        bucket, _ = self.where[position]
        self.left[bucket.index] -= 1
        while len(self.begun) < len(self.buckets) and not self.left[len(self.begun)]:
            self.begun.append(self.begin(self.buckets[len(self.begun)]))

    def end_of_pass(self) -> None:
        """The backward pass is done."""
        reducer = self.reducer
        if not self.buckets:  # another goes on with this one
            return
        if reducer.is_first_static():
            for position, count in enumerate(self.counts):
                if count:
                    self.fill(position, reducer.parameters[position].grad)
                    self._one_less(position)
                else:
                    self.add_nothing(position)
        if len(self.begun) < len(self.buckets):
            self.missing()
            return
        self.finish()

    def missing(self) -> None:
        """Not all gradients are there; another pass may bring them, and the next forward complains if not."""

    # What is done with data.

    def fill(self, position: int, grad: Tensor | None) -> None:
        """Put a gradient, divided by the number of processes, into its bucket; zeros for none."""
        bucket, i = self.where[position]
        parameters = self.reducer.parameters
        if bucket.buffer is None:
            bucket.buffer = zeros(bucket.numel, dtype=bucket.dtype)
            bucket.views = split(bucket, bucket.buffer, parameters)
        view = bucket.views[i]
        if grad is None:
            view.zero_()
            return
        if grad._parts is not None:
            raise NotImplementedError(
                f"DistributedDataParallel: the gradient of {self.reducer.names[position]} is sparse, and only "
                "dense gradients are averaged"
            )
        grad = grad.detach()
        if self.reducer.hook is not None:
            if not _same_memory(grad, view):
                view.copy_(grad)
        elif _same_memory(grad, view):
            view.mul_(1 / self.reducer.divisor)
        else:
            _scale_into(view, grad, 1 / self.reducer.divisor)

    def begin(self, bucket: Bucket) -> Any:
        """Begin to reduce a full bucket."""
        buffer = bucket.buffer
        assert buffer is not None
        hook = self.reducer.hook
        if hook is None:
            return c10d.all_reduce(buffer, group=self.reducer.group, async_op=True)
        last = bucket.index == len(self.buckets) - 1
        future = hook[1](hook[0], GradBucket(bucket, buffer, self.reducer.parameters, last))
        if not isinstance(future, Future):
            raise RuntimeError(f"a communication hook returns a Future, not a {type(future).__name__}")
        return future

    def finish(self) -> None:
        """Wait for all buckets; the averages become the gradients."""
        reducer = self.reducer
        used = self.used_anywhere()
        for bucket, begun in zip(self.buckets, self.begun, strict=True):
            result = begun.wait()
            assert bucket.buffer is not None
            if reducer.hook is not None:
                result = result[0] if isinstance(result, list | tuple) else result
                if not _same_memory(result, bucket.buffer):
                    bucket.buffer.copy_(result)
            for position, view in zip(bucket.positions, bucket.views, strict=True):
                if used[position]:
                    self._store(reducer.parameters[position], view)
        reducer.finished(self)

    def used_anywhere(self) -> list[bool]:
        """Whether some process has a gradient of each parameter; one of none keeps what it has."""
        reducer = self.reducer
        if not reducer.find_unused or reducer.static:
            return [position not in self.unused for position in range(len(reducer.parameters))]
        from_all = zeros(len(reducer.parameters), dtype=int32)
        for position in range(len(reducer.parameters)):
            from_all[position] = int(position not in self.unused)
        c10d.all_reduce(from_all, group=reducer.group)
        return [bool(count) for count in from_all.tolist()]

    def _store(self, parameter: Tensor, view: Tensor) -> None:
        grad = parameter.grad
        if self.reducer.as_views:
            if grad is None or not _same_memory(grad, view):
                parameter.grad = view
        elif grad is None:
            parameter.grad = view.clone()
        else:
            grad.detach().copy_(view)


class CapturedReduction(Reduction):
    """A reduction that is recorded: gradients are abstract, collectives results."""

    def __init__(self, reducer: Reducer) -> None:
        super().__init__(reducer, reducer.buckets_of_graph())
        self.grads: dict[int, Tensor] = {}

    def fill(self, position: int, grad: Tensor | None) -> None:
        if grad is not None:
            self.grads[position] = grad.detach()
        elif not self.reducer.static:
            AMBIENT.trace.refuse(
                f"the parameter {self.reducer.names[position]}, which gets no gradient here and may get "
                f"one in another "
                "process (static_graph=True says that it does not)"
            )

    def begin(self, bucket: Bucket) -> Any:
        present = [position for position in bucket.positions if position in self.grads]
        if not present:
            return present, None
        factor = 1 / self.reducer.world  # before they are joined: where the gradient is made
        rows = [self.grads[position].reshape(-1) * factor for position in present]
        flat = rows[0] if len(rows) == 1 else cat(rows)
        return present, results.all_reduce(flat, "sum", self.reducer.group)

    def missing(self) -> None:
        names = [self.reducer.names[i] for i, count in enumerate(self.counts) if not count]
        raise RuntimeError(_UNFINISHED.format(names=", ".join(names)))

    def finish(self) -> None:
        parameters = self.reducer.parameters
        for present, begun in self.begun:
            if begun is None:
                continue
            reduced, offset = begun, 0
            for position in present:
                parameter = parameters[position]
                count = parameter.numel()
                # a copy, made where the optimizer reads it: the step takes over the old gradient's memory
                parameter.grad = reduced.narrow(0, offset, count).view(tuple(parameter.shape)).clone()
                offset += count
        del self.reducer.captured[AMBIENT.trace]


def _same_memory(first: Tensor, second: Tensor) -> bool:
    return first.data_ptr() == second.data_ptr() and first.shape == second.shape


def _scale_into(view: Tensor, grad: Tensor, factor: float) -> None:
    """grad * factor, in one pass over the memory where both are plain arrays."""
    target, given = view._array, grad._array
    if target is None or given is None or target.dtype != given.dtype:
        view.copy_(grad).mul_(factor)
    else:
        np.multiply(given, given.dtype.type(factor), out=target)
