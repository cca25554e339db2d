"""DistributedDataParallel: every process has the whole module and a part of the data.

Parameters begin equal in all processes. Each computes the gradients of its own data; their averages
(`_reducer.py`) become the gradients of all, so that equal optimizers keep the parameters equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..._api.compiler import is_compiling
from ..._api.link import cat
from ...autograd.grad_mode import no_grad
from ...core.construct import tensor
from ...core.dispatch import AMBIENT
from ...core.modes import MODES
from ...core.tensor import Tensor
from ...distributed import _results as results
from ...distributed import distributed_c10d as c10d
from ...distributed.algorithms.join import Join, Joinable, JoinHook
from ...distributed.groups import world
from ..modules.module import Module
from ._reducer import Reducer

__all__ = ["DistributedDataParallel"]

_NOT_HERE = "torch.nn.parallel.DistributedDataParallel: {} is not available"
BROADCAST_BYTES = 250 << 20  # that are sent at once when states are made equal


class DistributedDataParallel(Module, Joinable):
    """`module`, whose gradients are averages over the processes of `process_group`.

    Buckets of `bucket_cap_mb` are reduced while the backward pass runs, the first of 1 MB. With
    `gradient_as_bucket_view`, gradients are views of the buckets, which saves a copy of them. Parameters that
    take no part in the loss need `find_unused_parameters`, or `static_graph` if they are always the same ones.

    Each process runs this; `rushlight launch -n 4 program.py` starts four.

    >>> rl.distributed.init_process_group()
    >>> model = nn.parallel.DistributedDataParallel(nn.Linear(2, 1, bias=False))
    >>> model(rl.tensor([[1.0, 3.0]])).sum().backward()
    >>> model.module.weight.grad
    tensor([[1., 3.]])
    >>> rl.distributed.destroy_process_group()
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        delay_all_reduce_named_params: Any = None,
        param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None,
        device_mesh: Any = None,
    ) -> None:
        super().__init__()
        _refuse(
            delay_all_reduce_named_params=delay_all_reduce_named_params,
            param_to_hook_all_reduce=param_to_hook_all_reduce,
            mixed_precision=mixed_precision,
        )
        if device_ids or output_device is not None:
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with modules on one "
                f"accelerator each, but got device_ids {device_ids}, output_device {output_device}"
            )
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = [(n, p) for n, p in module.named_parameters() if n not in ignored and p.requires_grad]
        if not named:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that "
                "requires a gradient."
            )
        self.process_group = _group_of(process_group, device_mesh)
        self.module = module
        self.dim, self.device_ids, self.output_device = dim, None, None
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.gradient_as_bucket_view, self.static_graph = gradient_as_bucket_view, static_graph
        self.parameters_to_ignore = ignored
        self.require_backward_grad_sync = True
        self.require_forward_param_sync = True
        self._divides_by_all = True
        check_same_parameters(named, self.process_group)
        if init_sync:
            states = [p.detach() for n, p in module.named_parameters() if n not in ignored]
            states += [b.detach() for n, b in module.named_buffers() if n not in ignored]
            make_equal(states, self.process_group)
        self.bucket_bytes_cap = int((25 if bucket_cap_mb is None else bucket_cap_mb) * (1 << 20))
        self._use(bucket_cap_mb)

    def _use(self, bucket_cap_mb: float | None) -> None:
        named = [
            (n, p)
            for n, p in self.module.named_parameters()
            if n not in self.parameters_to_ignore and p.requires_grad
        ]
        self._cap = bucket_cap_mb
        self.reducer = Reducer(
            [p for _, p in named],
            [n for n, _ in named],
            self.process_group,
            bucket_cap_mb=bucket_cap_mb,
            find_unused=self.find_unused_parameters,
            as_views=self.gradient_as_bucket_view,
            static=self.static_graph,
        )

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        joins = self._join_config.enable
        syncs = self.broadcast_buffers and self.require_forward_param_sync
        if MODES.grad and self.require_backward_grad_sync:
            self.reducer.begin_forward()
        if joins and MODES.grad:
            self._notify(syncs)
        if syncs and (MODES.grad or not joins):
            self._sync_buffers(self._common_rank(True) if joins else 0)
        self.require_forward_param_sync = bool(MODES.grad) and self.require_backward_grad_sync
        return self.module(*inputs, **kwargs)

    def _sync_buffers(self, source: int) -> None:
        """Give all processes the buffers of one of them."""
        if self.reducer.world > 1:
            buffers = [b for n, b in self.module.named_buffers() if n not in self.parameters_to_ignore]
            make_equal(buffers, self.process_group, source)

    # Processes with different numbers of inputs (join).

    def _notify(self, syncs: bool) -> None:
        """Tell those that have no inputs left what happens for this one."""
        if is_compiling():
            AMBIENT.trace.refuse("join() of DistributedDataParallel")
        work = Join.notify_join_context(self)
        if work is not None:
            (left,) = work.result()
            if not self._divides_by_all:
                self.reducer.divisor = max(1, int(left.item()))
        self._agreed([syncs, self.require_backward_grad_sync])

    def _agreed(self, flags: Sequence[bool]) -> list[bool]:
        """Whether each flag is set in some process."""
        found = tensor([int(flag) for flag in flags])
        c10d.all_reduce(found, c10d.ReduceOp.MAX, group=self.process_group)
        return [bool(flag) for flag in found.tolist()]

    def _common_rank(self, eligible: bool) -> int:
        """The last process of the group that is eligible."""
        found = tensor([c10d.get_rank(self.process_group) if eligible else -1])
        c10d.all_reduce(found, c10d.ReduceOp.MAX, group=self.process_group)
        return int(found.item())

    def _take_part(self) -> None:
        """Do for one input of others what they do together."""
        syncs, averages = self._agreed([False, False])
        if syncs:
            self._sync_buffers(self._common_rank(False))
        self.require_forward_param_sync = averages
        if averages:
            self.reducer.take_part()

    def _take_final_state(self, is_last_joiner: bool) -> None:
        """All processes get the states of one that had the most inputs."""
        states = [p.detach() for n, p in self.module.named_parameters() if n not in self.parameters_to_ignore]
        states += [b.detach() for n, b in self.module.named_buffers() if n not in self.parameters_to_ignore]
        make_equal(states, self.process_group, self._common_rank(is_last_joiner))
        self.reducer.divisor = self.reducer.world

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """A context in which backward passes add gradients up in each process; the first one after it averages
        all that has added up."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        self.reducer.sync = False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before
            self.reducer.sync = before

    def register_comm_hook(self, state: Any, hook: Callable[[Any, Any], Any]) -> None:
        """`hook(state, bucket)` reduces a bucket (`GradBucket`) in place of the average over all processes, and
        returns a Future of the buffer. It also divides."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self.reducer.hook is not None:
            raise RuntimeError("register_comm_hook or register_builtin_comm_hook can only be called once.")
        self.reducer.hook = (state, hook)

    def join(
        self,
        divide_by_initial_world_size: bool = True,
        enable: bool = True,
        throw_on_early_termination: bool = False,
    ) -> Join:
        """A context for a loop over inputs of which some processes have more than others."""
        return Join(
            [self],
            enable,
            throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What this module does for inputs of others. `divide_by_initial_world_size=False`: gradients are divided
        by the number of processes that have inputs left."""
        self._divides_by_all = bool(kwargs.get("divide_by_initial_world_size", True))
        return _Hook(self)

    @property
    def join_device(self) -> Any:
        return next(self.module.parameters()).device

    @property
    def join_process_group(self) -> Any:
        return self.process_group

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        return {
            "world_size": self.reducer.world,
            "bucket_cap_bytes": self.bucket_bytes_cap,
            "num_buckets": len(self.reducer.buckets),
        }

    def _set_static_graph(self) -> None:
        self.static_graph = self.reducer.static = True

    def __getstate__(self) -> dict[str, Any]:
        kept = dict(self.__dict__)
        del kept["reducer"], kept["process_group"]
        return kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.process_group = world()
        self._use(self._cap)


class _Hook(JoinHook):
    def __init__(self, module: DistributedDataParallel) -> None:
        self.module = module

    def main_hook(self) -> None:
        self.module._take_part()

    def post_hook(self, is_last_joiner: bool) -> None:
        self.module._take_final_state(is_last_joiner)


def _refuse(**options: Any) -> None:
    for name, given in options.items():
        if given is not None:
            raise NotImplementedError(_NOT_HERE.format(name))


def _group_of(process_group: Any, device_mesh: Any) -> Any:
    if process_group is not None and device_mesh is not None:
        raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
    if device_mesh is None:
        return world() if process_group is None else process_group
    if device_mesh.ndim != 1:
        raise RuntimeError(f"Only 1D device mesh is supported, but got {device_mesh}.")
    return device_mesh.get_group(mesh_dim=0)


def check_same_parameters(named: Sequence[tuple[str, Tensor]], group: Any) -> None:
    """RuntimeError if the processes do not have parameters of the same names, shapes and dtypes."""
    world = c10d.get_world_size(group)
    if world == 1:
        return
    mine = [(name, tuple(p.shape), p.dtype.name) for name, p in named]
    all_of_them: list[Any] = [None] * world
    c10d.all_gather_object(all_of_them, mine, group=group)
    rank = c10d.get_rank(group)
    first = all_of_them[0]
    for other, theirs in enumerate(all_of_them):
        if len(theirs) != len(first):
            raise RuntimeError(
                f"DDP expects same model across all ranks, but Rank {other} has {len(theirs)} params, "
                f"while rank 0 "
                f"has inconsistent {len(first)} params."
            )
        for one, two in zip(first, theirs, strict=True):
            if one != two:
                raise RuntimeError(
                    f"DDP expects same model across all ranks: [{rank}] params[{two[0]}] in rank {other} "
                    f"has shape "
                    f"{list(two[1])} and dtype {two[2]}; {one[0]} in rank 0 has {list(one[1])} and {one[2]}"
                )


def make_equal(tensors: list[Tensor], group: Any, source: int = 0) -> None:
    """Give all processes of `group` the values that one of them has: as few broadcasts as there are dtypes,
    unless there is much to send."""
    by_dtype: dict[Any, list[Tensor]] = {}
    for state in tensors:
        by_dtype.setdefault(state.dtype, []).append(state)
    for kind, alike in by_dtype.items():
        while alike:
            count, total = 0, 0
            while count < len(alike) and (not count or total < BROADCAST_BYTES):
                total += alike[count].numel() * kind.itemsize
                count += 1
            _broadcast(alike[:count], group, source)
            alike = alike[count:]


def _broadcast(tensors: list[Tensor], group: Any, source: int) -> None:
    with no_grad():
        flat = cat([state.detach().reshape(-1) for state in tensors])
        if is_compiling():
            flat = results.broadcast(flat, source, group)
        else:
            c10d.broadcast(flat, group=group, group_src=source)
        offset = 0
        for state in tensors:
            state.detach().copy_(flat.narrow(0, offset, state.numel()).view(tuple(state.shape)))
            offset += state.numel()
