"""Names that programs of others touch: each is there, and does what it says or raises an error that names it."""

from __future__ import annotations

import importlib
import importlib.util
from collections import OrderedDict
from pathlib import Path
from typing import Any

import pytest
import torch

import rushlight as rl

_spec = importlib.util.spec_from_file_location(
    "programs_names", Path(__file__).with_name("programs_names.py")
)
assert _spec is not None and _spec.loader is not None
_module = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_module)
PAIRS = [(place, name) for place, names in _module.NAMES.items() for name in names.split()]


def found(library: str, place: str, name: str) -> Any:
    """What a program gets that imports a module and reads a name of it, or imports that."""
    full = ".".join(filter(None, (library, place)))
    try:
        module: Any = importlib.import_module(full)
    except ModuleNotFoundError:
        module = importlib.import_module(library)
        for part in place.split("."):
            module = getattr(module, part)
    return getattr(module, name) if hasattr(module, name) else importlib.import_module(f"{full}.{name}")


@pytest.mark.parametrize("place", _module.NAMES)
@pytest.mark.filterwarnings("ignore")
def test_names_resolve(place: str) -> None:
    for library in ("torch", "rushlight"):
        for name in _module.NAMES[place].split():
            found(library, place, name)


# distributed


def test_a_group_of_one_process() -> None:
    dist = rl.distributed
    there = importlib.util.find_spec("mpi4py") is not None
    assert dist.is_available() is there and not dist.is_initialized() and not dist.is_nccl_available()
    for library in (rl, torch):
        for ask in (
            library.distributed.get_rank,
            library.distributed.get_world_size,
            library.distributed.barrier,
        ):
            with pytest.raises(ValueError, match="Default process group has not been initialized"):
                ask()
        with pytest.raises(ValueError, match="Default process group has not been initialized"):
            library.nn.parallel.DistributedDataParallel(library.nn.Linear(1, 1))
    with pytest.raises(ValueError, match=r"MPI has started 1 process: .*rushlight launch -n 2"):
        dist.init_process_group("gloo", rank=0, world_size=2)
    dist.init_process_group("gloo", rank=0, world_size=1)
    try:
        with pytest.raises(ValueError, match="twice"):
            dist.init_process_group("gloo", rank=0, world_size=1)
        assert (dist.get_rank(), dist.get_world_size(), dist.get_backend()) == (0, 1, "gloo")
        x, parts = rl.arange(3.0), [rl.zeros(3)]
        assert dist.all_reduce(x, dist.ReduceOp.SUM) is None and dist.broadcast(x, 0, async_op=True).wait()
        dist.all_gather(parts, x)
        assert parts[0].tolist() == x.tolist() == [0, 1, 2]
        objects = [None]
        dist.all_gather_object(objects, {"a": 1})
        assert objects == [{"a": 1}]
        model = rl.nn.parallel.DistributedDataParallel(rl.nn.Linear(3, 1))
        model(x).sum().backward()
        assert list(model.state_dict()) == ["module.weight", "module.bias"]
        assert model.module.weight.grad is not None
        with model.no_sync():
            assert not model.require_backward_grad_sync
        with pytest.raises(ValueError, match="rank 1 is not part of group"):
            dist.send(x, 1)
        with pytest.raises(ValueError, match="ranks"):
            dist.new_group([0, 1])
    finally:
        dist.destroy_process_group()
    assert not dist.is_initialized() and dist.group.WORLD is None


@pytest.mark.parametrize(
    "place, name",
    [
        ("distributed.fsdp", "FullyShardedDataParallel"),
        ("distributed.rpc", "init_rpc"),
        ("utils.cpp_extension", "load"),
        ("cuda", "CUDAGraph"),
        ("jit", "load"),
        ("jit.annotations", "get_signature"),
        ("_C", "ScriptFunction"),
    ],
)
def test_what_is_missing_says_so_when_it_is_used(place: str, name: str) -> None:
    missing = found("rushlight", place, name)
    with pytest.raises(NotImplementedError, match=f"torch.{place}.{name} is not available: "):
        missing()
    if isinstance(missing, type):
        assert not isinstance(rl.ones(1), missing)


# hub


def test_local_repositories(tmp_path: Path) -> None:
    (tmp_path / "own_part.py").write_text("WIDTH = 3\n")
    (tmp_path / "hubconf.py").write_text(
        "dependencies = ['torch']\nimport own_part\n\n"
        "def model(scale=1):\n    'A model of a test.'\n    return own_part.WIDTH * scale\n\n"
        "def _hidden():\n    pass\n"
    )
    for library in (rl, torch):
        hub = library.hub
        assert hub.load(str(tmp_path), "model", scale=2, source="local") == 6
        with pytest.raises(RuntimeError, match="Cannot find callable"):
            hub.load(str(tmp_path), "other", source="local")
        with pytest.raises(ValueError, match="Unknown source"):
            hub.load(str(tmp_path), "model", source="elsewhere")
    assert rl.hub.list(str(tmp_path)) == ["model"]
    assert rl.hub.help(str(tmp_path), "model") == "A model of a test."
    (tmp_path / "hubconf.py").write_text("dependencies = ['no_such_package']\n")
    for library in (rl, torch):
        with pytest.raises(RuntimeError, match="Missing dependencies: no_such_package"):
            library.hub.load(str(tmp_path), "model", source="local")


def test_nothing_is_fetched() -> None:
    with pytest.raises(NotImplementedError, match='source="local"'):
        rl.hub.load("pytorch/vision", "resnet18")
    with pytest.raises(NotImplementedError, match='source="local"'):
        rl.hub.list("pytorch/vision")
    with pytest.raises(NotImplementedError, match=r"Fetch https://example\.com/w\.pt yourself"):
        rl.hub.load_state_dict_from_url("https://example.com/w.pt")


# pytree


class Pair:
    def __init__(self, a: Any, b: Any, note: list[str]) -> None:
        self.a, self.b, self.note = a, b, note


class Output(OrderedDict):
    """A dictionary with a class of its own, as model outputs are."""


def test_containers_of_ones_own() -> None:
    for library in (rl, torch):
        pytree = importlib.import_module(f"{library.__name__}.utils._pytree")
        kind = type("Pair", (Pair,), {})
        pytree.register_pytree_node(
            kind, lambda p: ([p.a, p.b], p.note), lambda parts, note, kind=kind: kind(*parts, note)
        )
        leaves, spec = pytree.tree_flatten([kind(1, {"x": 2}, ["n"]), 3])
        assert leaves == [1, 2, 3]
        made = pytree.tree_unflatten([10, 20, 30], spec)
        assert (made[0].a, made[0].b, made[0].note, made[1]) == (10, {"x": 20}, ["n"], 30)
        assert pytree.tree_flatten([kind(1, {"x": 2}, ["m"]), 3])[1] != spec
        pairs, _ = pytree.tree_flatten_with_path({"a": [1, (2,)]})
        assert [pytree.keystr(path) for path, _ in pairs] == ["['a'][0]", "['a'][1][0]"]
        assert pytree.tree_map_with_path(lambda path, leaf: (len(path), leaf), {"a": [5]}) == {"a": [(2, 5)]}
        assert pytree._dict_flatten({"a": 1}) == ([1], ["a"])


def test_compiled_functions_return_registered_containers() -> None:
    pytree = rl.utils._pytree
    pytree.register_pytree_node(
        Output,
        lambda o: (list(o.values()), list(o)),
        lambda parts, keys: Output(zip(keys, parts, strict=True)),
    )

    @rl.compile(fullgraph=True)
    def function(x: Any) -> Output:
        return Output(loss=x.sum(), logits=x * 2)

    for x in (rl.ones(3), rl.arange(3.0)):
        made = function(x)
        assert type(made) is Output and list(made) == ["loss", "logits"]
        assert made["logits"].tolist() == (x * 2).tolist()


# others


def test_futures() -> None:
    for library in (rl, torch):
        futures = importlib.import_module(f"{library.__name__}.futures")
        first, second = futures.Future(), futures.Future()
        doubled = first.then(lambda f: f.value() * 2)
        both = futures.collect_all([first, second])
        assert not first.done()
        first.set_result(3)
        second.set_result(4)
        assert doubled.wait() == 6 and [f.wait() for f in both.wait()] == [3, 4]
        assert futures.wait_all([first, second]) == [3, 4]


def test_the_profiler_measures_the_steps_that_a_schedule_chooses(tmp_path: Path) -> None:
    seen = []
    with rl.profiler.profile(
        activities=[rl.profiler.ProfilerActivity.CPU],
        schedule=rl.profiler.schedule(wait=1, warmup=1, active=2, repeat=1),
        on_trace_ready=lambda p: seen.append([e.key for e in p.key_averages()]),
    ) as prof:
        for step in range(6):
            with rl.profiler.record_function(f"step {step}"):
                rl.ones(2) + 1
            prof.step()
    assert len(seen) == 1
    assert "step 2" in seen[0] and "step 3" in seen[0] and "step 1" not in seen[0]
    actions = [
        [
            str(library.profiler.schedule(wait=1, warmup=1, active=2, repeat=2, skip_first=1)(i))
            for i in range(12)
        ]
        for library in (rl, torch)
    ]
    assert actions[0] == actions[1]
    with rl.profiler.profile(on_trace_ready=rl.profiler.tensorboard_trace_handler(str(tmp_path))):
        rl.ones(2) + 1
    assert list(tmp_path.glob("*.pt.trace.json"))


def test_helpers_of_optimizers() -> None:
    for library in (rl, torch):
        optimizer = importlib.import_module(f"{library.__name__}.optim.optimizer")

        class Own(library.optim.Optimizer):
            def __init__(self, params: Any, differentiable: bool) -> None:
                super().__init__(params, {"differentiable": differentiable})

            @optimizer._use_grad_for_differentiable
            def step(self, closure: Any = None) -> Any:
                return library.is_grad_enabled()

        assert [Own([library.ones(1)], flag).step() for flag in (False, True)] == [False, True]
        assert optimizer._get_value(library.tensor(2.0)) == 2.0 and optimizer._get_value(3) == 3
        assert optimizer._default_to_fused_or_foreach([library.ones(1)], False) == (False, False)
        assert optimizer._get_scalar_dtype() is library.float32
        params, state = [library.ones(2, dtype=library.complex64)], [library.ones(2, dtype=library.complex64)]
        optimizer._view_as_real(params, state)
        assert params[0].shape == state[0].shape == (2, 2)
        groups = importlib.import_module(f"{library.__name__}.utils._foreach_utils")
        a, b, c = library.ones(1), library.ones(1, dtype=library.int64), library.zeros(1)
        made = groups._group_tensors_by_device_and_dtype([[a, b, c], [None, b, None]], with_indices=True)
        assert sorted(places for _, places in made.values()) == [[0, 2], [1]]
        assert [lists[1] for lists, places in made.values() if places == [0, 2]] == [[None, None]]


def test_small_names() -> None:
    assert rl._shape_as_tensor(rl.ones(2, 3)).tolist() == torch._shape_as_tensor(torch.ones(2, 3)).tolist()
    sparse = rl.tensor([[0.0, 2.0], [1.0, 0.0]]).to_sparse()
    assert rl.spmm(sparse, rl.ones(2, 1)).tolist() == [[2], [1]]
    assert rl._tensor_str.PRINT_OPTS.precision == torch._tensor_str.PRINT_OPTS.precision == 4
    mode = rl._subclasses.FakeTensorMode()
    assert rl._subclasses.fake_tensor.is_fake(mode.from_tensor(rl.ones(1)))
    assert not rl._subclasses.fake_tensor.is_fake(rl.ones(1))
    assert isinstance(rl.compile(rl.nn.Linear(1, 1)), rl._dynamo.OptimizedModule)
    assert not isinstance(rl.jit.script(rl.nn.Linear(1, 1)), rl.jit.ScriptModule)
    rl._dynamo.config.suppress_errors = True
    assert rl.nn.parallel.data_parallel(rl.nn.Identity(), rl.ones(1)).tolist() == [1]
    with pytest.raises(RuntimeError, match="NVTX"):
        rl.cuda.nvtx.range_push("x")


def test_functions_that_must_not_be_captured() -> None:
    refused = rl._dynamo.forbid_in_graph(lambda x: x + 1)
    assert refused(rl.ones(1)).tolist() == [2]
    with pytest.raises(rl._dynamo.exc.Unsupported, match="forbidden"):
        rl.compile(lambda x: refused(x), fullgraph=True)(rl.ones(1))


# torchvision and what imports it


def test_places_of_quantization() -> None:
    x = rl.tensor([-1.0, 2.0])
    for lib in (rl, torch):
        q = lib.ao.quantization
        wrapped = q.QuantWrapper(lib.nn.Sequential(lib.nn.ReLU(), q.DeQuantStub(qconfig="kept")).eval())
        assert [name for name, _ in wrapped.named_modules()][1:] == [
            "quant", "dequant", "module", "module.0", "module.1"
        ]  # fmt: skip
        assert not wrapped.training and wrapped.module[1].qconfig == "kept"
        assert not isinstance(wrapped.dequant, q.QuantStub)
        given = lib.tensor(x.tolist())
        assert wrapped(given).tolist() == [0.0, 2.0]
    with pytest.raises(AttributeError):
        _ = rl.ao.quantization.prepare


def test_modules_made_of_parts_of_others() -> None:
    for lib, graphs in ((rl, rl.fx), (torch, torch.fx)):
        source = lib.nn.Sequential(lib.nn.Sequential(lib.nn.Linear(2, 3)), lib.nn.ReLU())
        source[0].register_buffer("table", lib.ones(2))
        target = lib.nn.Module()
        for name in ("0.0", "1", "0.table", "0.0.weight"):
            graphs.graph_module._copy_attr(source, target, name)
        assert list(target.state_dict()) == ["0.table", "0.0.weight", "0.0.bias"]
        assert target.get_submodule("0.0") is source[0][0]
        alike = graphs.graph_module._CodeOnlyModule(source.__dict__)
        assert list(alike.state_dict()) == list(source.state_dict())


def test_small_names_that_libraries_ask_for() -> None:
    for lib in (rl, torch):
        assert lib._dynamo.utils.is_compile_supported("cpu")
        assert not lib._dynamo.utils.is_compile_supported(lib.device("meta"))
        assert lib.jit.annotations.BroadcastingList2[int] is None
        activation = lib.nn.modules.transformer._get_activation_fn
        assert activation("gelu") is lib.nn.functional.gelu
        with pytest.raises(RuntimeError, match="activation should be relu/gelu, not tanh"):
            activation("tanh")
        shape = lib.onnx.operators.shape_as_tensor(lib.ones(2, 6))
        assert lib.onnx.operators.reshape_from_tensor_shape(lib.ones(12), shape).shape == (2, 6)
        assert lib.hub.urlparse("a://b/c").path == "/c"
        assert not isinstance(lib.nn.Linear(1, 1), lib.ScriptModule | lib.ScriptFunction)
    for range_of in (rl.autograd.profiler.emit_nvtx, rl.autograd.profiler.emit_itt):
        with pytest.raises(NotImplementedError, match="profile"):
            range_of()
