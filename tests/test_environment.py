"""What programs say before they compute: devices, default types, switches of other libraries, older names."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
import torch

import rushlight

LIBRARIES = [torch, rushlight]


def test_numbers() -> None:
    for name in ("pi", "e", "inf", "newaxis"):
        assert getattr(rushlight, name) == getattr(torch, name)
    assert rushlight.nan != rushlight.nan
    assert rushlight.ones(2)[:, rushlight.newaxis].shape == (2, 1)


@pytest.mark.parametrize("library", LIBRARIES)
def test_choosing_a_device(library: Any) -> None:
    assert str(library.device("cuda" if library.cuda.is_available() else "cpu")) == "cpu"
    assert not library.backends.mps.is_available() and library.cuda.device_count() == 0
    assert not library.accelerator.is_available() and library.accelerator.current_accelerator() is None
    library.cuda.manual_seed_all(0)
    library.cuda.empty_cache()
    assert library.cuda.memory_allocated() == 0 and library.cuda.get_rng_state_all() == []
    with library.cuda.stream(None):
        pass
    for call in (
        lambda: library.zeros(2).cuda(),
        lambda: library.nn.Linear(2, 2).cuda(),
        library.cuda.synchronize,
        library.cuda.current_device,
        lambda: library.zeros(2, device="cuda"),
    ):
        with pytest.raises(AssertionError):
            call()
    with pytest.raises(RuntimeError):
        library.device("gpu")


def test_switches_keep_what_they_are_told() -> None:
    cudnn = importlib.import_module("rushlight.backends.cudnn")
    assert cudnn is rushlight.backends.cudnn
    with cudnn.flags(enabled=False, deterministic=True):
        assert cudnn.deterministic and not cudnn.enabled
    assert not cudnn.deterministic and cudnn.enabled
    rushlight.backends.cuda.matmul.allow_tf32 = True
    assert rushlight.backends.cuda.matmul.allow_tf32
    rushlight.backends.cuda.matmul.allow_tf32 = False
    with rushlight.backends.cuda.sdp_kernel(enable_flash=False):
        assert not rushlight.backends.cuda.flash_sdp_enabled()
    assert rushlight.backends.cuda.flash_sdp_enabled()


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_device_of_new_tensors(library: Any) -> None:
    with library.device("meta"):
        layer = library.nn.Linear(2, 3)
        made = [
            layer.weight,
            library.arange(3),
            library.tensor([1.0]),
            library.rand(2, dtype=library.float64),
            library.full((2,), 3),
            library.as_tensor([1, 2]),
            library.zeros_like(layer.bias),
        ]
        kept = [library.zeros(2, device="cpu"), library.from_numpy(np.ones(2))]
        with library.device("cpu"):
            kept.append(library.ones(2))
        kept.append(kept[0].new_zeros(3))
    kept.append(library.ones(2))
    assert {t.device.type for t in made} == {"meta"} and {t.device.type for t in kept} == {"cpu"}
    library.set_default_device("meta")
    try:
        assert library.get_default_device().type == "meta" and library.empty(2).is_meta
        with library.device("cpu"):
            assert not library.empty(2).is_meta
    finally:
        library.set_default_device(None)
    assert library.get_default_device().type == "cpu" and not library.empty(2).is_meta


CONSTRUCTED = {
    "values": ("LongTensor", ([1, 2],)),
    "cut off": ("LongTensor", ([1.5],)),
    "nested": ("DoubleTensor", ([[1.0], [2.0]],)),
    "bool": ("BoolTensor", ([True, False],)),
    "bytes": ("ByteTensor", ([True, 2],)),
    "range": ("IntTensor", (range(3),)),
    "tuple": ("ShortTensor", ((2, 3),)),
    "nothing": ("FloatTensor", ()),
    "array": ("FloatTensor", (np.ones(2, np.float32),)),
}


@pytest.mark.parametrize("case", CONSTRUCTED)
def test_older_constructors(case: str) -> None:
    name, args = CONSTRUCTED[case]
    ours, theirs = getattr(rushlight, name)(*args), getattr(torch, name)(*args)
    assert ours.dtype.name == str(theirs.dtype).removeprefix("torch.") and ours.tolist() == theirs.tolist()
    assert isinstance(ours, getattr(rushlight, name)) and isinstance(theirs, getattr(torch, name))
    assert not isinstance(ours.to(rushlight.complex64), getattr(rushlight, name))


@pytest.mark.parametrize("library", LIBRARIES)
def test_older_types(library: Any) -> None:
    assert library.FloatTensor(2, 3).shape == library.FloatTensor(library.Size([2, 3])).shape == (2, 3)
    assert library.zeros(2).type(library.LongTensor).dtype is library.int64
    assert library.LongTensor.dtype is library.int64
    for call in (
        lambda: library.LongTensor(2.5),
        lambda: library.LongTensor("a"),
        lambda: library.FloatTensor(library.ones(2).double()),
    ):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(ValueError):
        library.zeros(2).type(int)


@pytest.mark.filterwarnings("ignore:(torch.)?set_default_tensor_type")
@pytest.mark.parametrize("library", LIBRARIES)
def test_default_tensor_types(library: Any) -> None:
    try:
        library.set_default_tensor_type(library.DoubleTensor)
        assert library.tensor(1.0).dtype is library.float64
        library.set_default_tensor_type(f"{library.__name__}.HalfTensor")
        assert library.tensor(1.0).dtype is library.float16
        with pytest.raises(TypeError):
            library.set_default_tensor_type(library.LongTensor)
    finally:
        library.set_default_dtype(library.float32)


@pytest.mark.filterwarnings("ignore:TypedStorage")
@pytest.mark.parametrize("library", LIBRARIES)
def test_storages_of_numbers(library: Any) -> None:
    x = library.arange(6.0)
    memory = x[2:].storage()
    assert (len(memory), memory[2], memory.tolist(), memory.dtype) == (6, 2.0, x.tolist(), library.float32)
    memory[3] = 9
    assert x[3] == 9 and memory.data_ptr() == x.data_ptr() and memory.nbytes() == 24
    assert isinstance(x.untyped_storage(), library.UntypedStorage)
    assert isinstance(memory, library.TypedStorage)


@pytest.mark.parametrize("library", LIBRARIES)
def test_older_names_of_autograd(library: Any) -> None:
    variable = library.autograd.Variable
    x = variable(library.ones(2), requires_grad=True)
    (x * 2).sum().backward()
    assert x.grad.tolist() == [2, 2] and isinstance(library.ones(1), variable) and not isinstance(3, variable)
    y = library.ones(2, requires_grad=True)
    assert library.autograd.grad((y * 3).sum(), y, only_inputs=True)[0].tolist() == [3, 3]


MODULES = [
    "autograd.function",
    "backends.cuda",
    "cuda.amp",
    "jit",
    "nn.modules.channelshuffle",
    "nn.modules.pixelshuffle",
    "nn.modules.utils",
    "nn.parallel",
    "optim.adadelta",
    "optim.adagrad",
    "optim.adamax",
    "optim.adamw",
    "optim.asgd",
    "optim.nadam",
    "optim.radam",
    "optim.rmsprop",
    "optim.rprop",
    "types",
    "utils._pytree",
    "utils.data._utils.collate",
    "utils.data.distributed",
    "utils.dlpack",
]


@pytest.mark.parametrize("path", MODULES)
def test_modules_are_where_programs_look(path: str) -> None:
    ours = importlib.import_module(f"rushlight.{path}")
    theirs = importlib.import_module(f"torch.{path}")
    assert [name for name in ours.__all__ if not hasattr(theirs, name)] == []


def test_trees_of_values() -> None:
    ours, theirs = (importlib.import_module(f"{name}.utils._pytree") for name in ("rushlight", "torch"))
    tree = {"b": [1, (2, None)], "a": 3.5}
    for module in (ours, theirs):
        leaves, spec = module.tree_flatten(tree)
        assert leaves == [1, 2, None, 3.5] and module.tree_unflatten(leaves, spec) == tree
        assert module.tree_map(lambda x, y: (x, y), [1, 2], [3, 4]) == [(1, 3), (2, 4)]
        assert module.tree_map_only(int, lambda x: -x, tree) == {"b": [-1, (-2, None)], "a": 3.5}
        assert module.tree_any(lambda x: x is None, tree) and not module.tree_all(lambda x: x is None, tree)
        assert module.tree_leaves(tree, is_leaf=lambda x: isinstance(x, list)) == [[1, (2, None)], 3.5]


def test_sizes_for_modules() -> None:
    ours, theirs = (importlib.import_module(f"{name}.nn.modules.utils") for name in ("rushlight", "torch"))
    for name in ("_single", "_pair", "_triple", "_quadruple"):
        for value in (2, (1, 2), [3, 4]):
            assert getattr(ours, name)(value) == getattr(theirs, name)(value)
    assert ours._reverse_repeat_tuple((1, 2), 2) == theirs._reverse_repeat_tuple((1, 2), 2)
    state = [{"module.a": 1, "b": 2}, {"module.a": 1, "b": 2}]
    for module, d in zip((ours, theirs), state, strict=True):
        module.consume_prefix_in_state_dict_if_present(d, "module.")
    assert state[0] == state[1] == {"a": 1, "b": 2}


def test_capsules_share_memory() -> None:
    x = rushlight.arange(3)
    y = rushlight.utils.dlpack.from_dlpack(rushlight.to_dlpack(x))
    y[0] = 9
    assert x[0] == 9


@pytest.mark.parametrize("library", LIBRARIES)
def test_named_results_are_printed_by_name(library: Any) -> None:
    result = library.max(library.ones(2, 2), 0)
    assert isinstance(result, library.return_types.max)
    assert repr(result).removeprefix(library.__name__) == (
        ".return_types.max(\nvalues=tensor([1., 1.]),\nindices=tensor([0, 0]))"
    )


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("library", LIBRARIES)
def test_decorators_of_scripts(library: Any) -> None:
    @library.jit.ignore
    def one(x: Any) -> Any:
        return x + 1

    @library.jit.unused
    def two(x: Any) -> Any:
        return x + 2

    assert one(1) == 2 and two(1) == 3 and not library.jit.is_scripting()
    traced = library.jit.trace(library.nn.ReLU(), library.ones(2))
    assert traced(library.tensor([-1.0, 1.0])).tolist() == [0, 1]


def test_batch_norms_without_statistics() -> None:
    nets = [
        m.nn.Sequential(m.nn.BatchNorm1d(2), m.nn.Sequential(m.nn.BatchNorm2d(3)), m.nn.Linear(2, 2))
        for m in LIBRARIES
    ]
    for library, net in zip(LIBRARIES, nets, strict=True):
        library.func.replace_all_batch_norm_modules_(net)
        assert net[0].running_mean is None and not net[1][0].track_running_stats


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested")
def test_an_encoder_skips_padding_as_pytorch_does() -> None:
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
    theirs = torch.nn.TransformerEncoder(layer, 2, norm=torch.nn.LayerNorm(8)).eval()
    ours = rushlight.nn.TransformerEncoder(
        rushlight.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0),
        2,
        norm=rushlight.nn.LayerNorm(8),
    ).eval()
    ours.load_state_dict({k: rushlight.from_numpy(v.numpy()) for k, v in theirs.state_dict().items()})
    x, padded = (
        np.sin(np.arange(80, dtype=np.float32)).reshape(2, 5, 8),
        np.array([[False] * 5, [False] * 3 + [True] * 2]),
    )
    with torch.no_grad(), rushlight.no_grad():
        expected = theirs(torch.from_numpy(x), src_key_padding_mask=torch.from_numpy(padded))
        found = ours(rushlight.from_numpy(x), src_key_padding_mask=rushlight.from_numpy(padded))
    np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-5, atol=1e-6)
    expected = theirs(torch.from_numpy(x), src_key_padding_mask=torch.from_numpy(padded))
    found = ours(rushlight.from_numpy(x), src_key_padding_mask=rushlight.from_numpy(padded))
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-5, atol=1e-6)
