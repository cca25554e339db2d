"""Every module against PyTorch's: the same state dict, the same outputs, gradients and representation."""

from __future__ import annotations

import copy
import inspect
import itertools
import re
import warnings

import pytest
import safetensors.torch
import torch
from torch.testing._internal.common_modules import FunctionInput, ModuleInput, module_db

import rushlight as rl
from rushlight import nn
from rushlight._api import link
from rushlight.nn import functional as F

from .conftest import ours, theirs

torch.manual_seed(0)


def tensor(*shape, **options):
    return torch.randn(*shape, dtype=torch.float64, **options)


def case(*args, inputs, **kwargs):
    return ModuleInput(constructor_input=FunctionInput(*args, **kwargs), forward_input=FunctionInput(*inputs))


CLASSES = torch.tensor([[[0, 1], [2, 0]], [[1, 1], [0, 2]]])

# What PyTorch's own table of modules leaves out.
MORE = {
    "Identity": [case(inputs=(tensor(2, 3),))],
    "ChannelShuffle": [case(2, inputs=(tensor(1, 4, 2, 2),))],
    "PixelShuffle": [case(2, inputs=(tensor(1, 8, 2, 2),))],
    "PixelUnshuffle": [case(2, inputs=(tensor(1, 2, 4, 4),))],
    "CosineSimilarity": [case(dim=0, inputs=(tensor(3, 4), tensor(3, 4)))],
    "PairwiseDistance": [case(p=1.0, keepdim=True, inputs=(tensor(3, 4), tensor(3, 4)))],
    "Flatten": [case(inputs=(tensor(2, 3, 4),)), case(0, 1, inputs=(tensor(2, 3, 4),))],
    "Unflatten": [case(1, (2, 3), inputs=(tensor(2, 6),))],
    "Fold": [case((4, 5), (2, 2), inputs=(tensor(1, 8, 12),))],
    "Unfold": [case((2, 3), padding=1, inputs=(tensor(1, 2, 4, 5),))],
    "Hardsigmoid": [case(inputs=(tensor(7),))],
    "RReLU": [case(0.1, 0.4, inputs=(tensor(7),))],
    "Dropout": [case(0.3, inputs=(tensor(7),))],
    "Dropout1d": [case(inputs=(tensor(2, 3, 4),))],
    "Dropout2d": [case(inputs=(tensor(2, 3, 4, 4),))],
    "Dropout3d": [case(inputs=(tensor(2, 3, 4, 4, 4),))],
    "AlphaDropout": [case(inputs=(tensor(7),))],
    "FeatureAlphaDropout": [case(inputs=(tensor(2, 3, 4),))],
    "Embedding": [
        case(5, 3, padding_idx=-1, inputs=(torch.tensor([0, 4, 2]),)),
        case(5, 3, scale_grad_by_freq=True, inputs=(torch.tensor([[0, 0], [1, 2]]),)),
    ],
    "EmbeddingBag": [
        *[
            case(5, 3, mode=mode, inputs=(torch.tensor([0, 4, 2, 2]), torch.tensor([0, 1])))
            for mode in ("sum", "mean", "max")
        ],
        case(5, 3, padding_idx=2, inputs=(torch.tensor([[0, 4], [2, 2]]),)),
        case(5, 3, include_last_offset=True, inputs=(torch.tensor([0, 4, 2]), torch.tensor([0, 1, 3]))),
        case(5, 3, mode="sum", inputs=(torch.tensor([0, 4, 2]), torch.tensor([0, 1]), tensor(3))),
        case(5, 3, max_norm=1.0, scale_grad_by_freq=True, inputs=(torch.tensor([[0, 4], [4, 4]]),)),
    ],
    "NLLLoss2d": [case(torch.rand(3, dtype=torch.float64), inputs=(tensor(2, 3, 2, 2), CLASSES))],
    "TransformerDecoder": [
        case(
            torch.nn.TransformerDecoderLayer(4, 2, 6, 0.0, batch_first=first),
            2,
            torch.nn.LayerNorm(4) if first else None,
            inputs=(tensor(2, 3, 4), tensor(2, 3, 4)),
        )
        for first in (False, True)
    ],
    "CrossMapLRN2d": [case(3, inputs=(tensor(1, 5, 3, 3),))],
    "TripletMarginLoss": [case(swap=True, inputs=(tensor(3, 4), tensor(3, 4), tensor(3, 4)))],
    "TripletMarginWithDistanceLoss": [case(inputs=(tensor(3, 4), tensor(3, 4), tensor(3, 4)))],
    "MaxUnpool1d": [case(2, inputs=(tensor(1, 2, 3), torch.tensor([[[0, 3, 5], [1, 2, 4]]])))],
    "MaxUnpool2d": [case(2, inputs=(tensor(1, 1, 2, 2), torch.tensor([[[[0, 3], [9, 15]]]])))],
    "MaxUnpool3d": [case(2, inputs=(tensor(1, 1, 1, 1, 1), torch.tensor([[[[[5]]]]])))],
    "Upsample": [
        case(scale_factor=2, inputs=(tensor(1, 2, 3, 3),)),
        case((5, 4), mode="bilinear", align_corners=True, inputs=(tensor(1, 2, 3, 3),)),
    ],
    "UpsamplingBilinear2d": [case(scale_factor=2, inputs=(tensor(1, 2, 3, 3),))],
    "UpsamplingNearest2d": [case((5, 6), inputs=(tensor(1, 2, 3, 3),))],
    "AdaptiveLogSoftmaxWithLoss": [
        case(
            8,
            20,
            [4, 10],
            div_value=2.0,
            head_bias=True,
            inputs=(tensor(6, 8), torch.tensor([0, 3, 5, 11, 19, 4])),
        ),
        case(8, 20, [7], inputs=(tensor(3, 8), torch.tensor([0, 19, 4]))),
    ],
    "SyncBatchNorm": [
        case(3, inputs=(tensor(2, 3, 4),)),
        case(3, affine=False, track_running_stats=False, inputs=(tensor(2, 3, 4),)),
    ],
    "LazyBatchNorm1d": [case(inputs=(tensor(4, 3),))],
    "LazyBatchNorm2d": [case(affine=False, inputs=(tensor(4, 3, 2, 2),))],
    "LazyBatchNorm3d": [case(inputs=(tensor(4, 3, 2, 2, 2),))],
    "LazyInstanceNorm1d": [case(affine=True, inputs=(tensor(4, 3, 5),))],
    "LazyInstanceNorm2d": [case(inputs=(tensor(4, 3, 2, 2),))],
    "LazyInstanceNorm3d": [case(track_running_stats=True, inputs=(tensor(4, 3, 2, 2, 2),))],
    "LazyLinear": [case(3, inputs=(tensor(2, 4),)), case(3, bias=False, inputs=(tensor(2, 4),))],
    "RMSNorm": [
        case((3, 4), eps=1e-3, inputs=(tensor(2, 3, 4),)),
        case(4, elementwise_affine=False, inputs=(tensor(2, 3, 4),)),
    ],
    "LSTM": [case(3, 4, 2, bidirectional=True, proj_size=2, inputs=(tensor(5, 2, 3),))],
}

# Dropout inside: its probability is set to zero.
INNER_DROPOUT = ("Transformer", "MultiheadAttention", "RNN", "LSTM", "GRU")
# Functions or operators that are not there yet, and the modules that call them.
MISSING: dict[str, list[str]] = {}
# Modules that are compared in a weaker way, and why.
NO_VALUES = {
    "CrossMapLRN2d": "PyTorch's forward keeps the first channel in every window",
    "FractionalMaxPool2d": "places are drawn at random",
    "FractionalMaxPool3d": "places are drawn at random",
}
# Modules that behave differently in training; of the others evaluation is enough.
TRAINED = re.compile("Norm|RNN|LSTM|GRU|Transformer|MultiheadAttention|Linear$")
MOST = 6  # cases of PyTorch's table for each module
# Modules that have no forward of their own, or need more than one device; their tests are elsewhere.
NO_FORWARD = {
    "Container",
    "DataParallel",
    "Module",
    "ModuleDict",
    "ModuleList",
    "ParameterDict",
    "ParameterList",
    "RNNBase",
    "RNNCellBase",
    "Sequential",
}


def table():
    infos = {info.module_cls.__name__: info for info in module_db}
    for name in sorted({*infos, *MORE}):
        for training in (False, True):
            if training and not TRAINED.search(name):
                continue
            found = list(MORE.get(name, []))
            if name in infos:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    made = infos[name].module_inputs_func(
                        infos[name], device="cpu", dtype=torch.float64, requires_grad=False, training=training
                    )
                    step = max(1, len(made) // MOST)
                    found += made[::step][:MOST] if len(made) > MOST else made
            for i, sample in enumerate(found):
                yield pytest.param(name, sample, training, id=f"{name}-{i}-{'train' if training else 'eval'}")


def test_every_module_is_in_the_table():
    names = {
        name
        for name in dir(torch.nn)
        if isinstance(getattr(torch.nn, name), type) and issubclass(getattr(torch.nn, name), torch.nn.Module)
    }
    assert names - NO_FORWARD == {info.module_cls.__name__ for info in module_db} | set(MORE)


def containers(m):
    """One of every container, with weights in all of them."""
    return m.nn.ModuleDict(
        {
            "list": m.nn.ModuleList([m.nn.Linear(2, 3), m.nn.Conv1d(1, 2, 3)]),
            "sequence": m.nn.Sequential(m.nn.BatchNorm1d(3), m.nn.Sequential(m.nn.Linear(3, 1, bias=False))),
            "numbers": m.nn.ParameterList([m.nn.Parameter(m.ones(2)), m.nn.Parameter(m.ones(3, 1))]),
            "names": m.nn.ParameterDict({"a": m.nn.Parameter(m.ones(4)), "b": m.nn.Parameter(m.ones(()))}),
        }
    )


def test_containers(tmp_path):
    module, mine = containers(torch), containers(rl)
    assert same_text(repr(module), repr(mine))
    load(module, mine, tmp_path)

    def run(c, m, x):
        y = c["sequence"](c["list"][0](x))
        return (
            y.sum() * c["names"]["b"]
            + c["numbers"][1].sum() * c["names"]["a"].sum()
            + c["list"][1](y.reshape(1, 1, -1)).sum()
        )

    x = torch.randn(4, 2)
    result, my_result = run(module, torch, x), run(mine, rl, ours(x))
    torch.testing.assert_close(theirs(my_result), plain(result))
    compare_gradients(module, mine, ((), {}), ((), {}), result, my_result)


def there(function: str) -> bool:
    recurrent = function.startswith(("rnn", "lstm", "gru"))
    return function in link.API.functions[""] if recurrent else hasattr(F, function)


def absent(name: str) -> bool:
    return any(name in modules and not there(function) for function, modules in MISSING.items())


def floating(value):
    """All floating point tensors inside of `value`."""
    if isinstance(value, torch.Tensor | rl.Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, tuple | list):
        return [t for item in value for t in floating(item)]
    return []


def watched(value):
    """`value` with its floating point tensors as leaves that require grad."""
    if isinstance(value, torch.Tensor):
        return value.detach().clone().requires_grad_() if value.is_floating_point() else value
    if isinstance(value, torch.nn.utils.rnn.PackedSequence):
        return torch.nn.utils.rnn.PackedSequence(watched(value.data), *value[1:])
    if isinstance(value, tuple | list):
        return type(value)(watched(item) for item in value)
    return value


def without_dropout(module):
    for inner in module.modules():
        if type(inner).__name__.startswith("Dropout"):
            inner.p = 0.0
        elif type(inner).__name__ in INNER_DROPOUT:
            inner.dropout = 0.0


def same_text(a: str, b: str) -> bool:
    plain = [
        re.sub(r"0x[0-9a-f]+", "", text).replace("torch.", "").replace("rushlight.", "") for text in (a, b)
    ]
    return plain[0] == plain[1]


@pytest.mark.parametrize(("name", "sample", "training"), list(table()))
@pytest.mark.filterwarnings("ignore")
def test_module(name, sample, training, tmp_path):
    if absent(name):
        pytest.skip("its function is not there yet")
    constructor, call = sample.constructor_input, sample.forward_input
    module = getattr(torch.nn, name)(*constructor.args, **constructor.kwargs)
    module.zero_grad()  # a module among the arguments is that of the case before
    mine = getattr(nn, name)(*ours(constructor.args), **ours(constructor.kwargs))
    assert same_text(repr(module), repr(mine))
    for each in (module, mine):
        each.double().train(training)
        without_dropout(each)
    targets = list(inspect.signature(module.forward).parameters)
    args = tuple(
        value if key == "target" else watched(value) for key, value in zip(targets, call.args, strict=False)
    )
    kwargs = dict(call.kwargs)
    my_args, my_kwargs = ours(args), ours(kwargs)
    if name.startswith("Lazy"):
        module(*copy.deepcopy(args), **kwargs)
        mine(*ours(args), **ours(kwargs))
        assert same_text(repr(module), repr(mine))
    load(module, mine, tmp_path)
    result, my_result = module(*args, **kwargs), mine(*my_args, **my_kwargs)
    if name in NO_VALUES:
        assert [t.shape for t in floating(theirs(my_result))] == [t.shape for t in floating(result)]
        return
    torch.testing.assert_close(theirs(my_result), plain(result), equal_nan=True)
    compare_gradients(module, mine, (args, kwargs), (my_args, my_kwargs), result, my_result)
    for key, value in module.state_dict().items():  # running statistics
        torch.testing.assert_close(theirs(mine.state_dict()[key]), value)


def plain(result):
    if isinstance(result, torch.Tensor):
        return result.detach().resolve_conj()
    return tuple(plain(item) for item in result) if isinstance(result, tuple | list) else result


def load(module, mine, folder):
    """Random values, given to both modules by way of a safetensors file."""
    state = {
        key: torch.rand_like(value) + 0.1 if value.is_floating_point() else value.clone()
        for key, value in module.state_dict().items()
    }
    module.load_state_dict(state)
    assert list(mine.state_dict()) == list(state)
    assert {k: tuple(v.shape) for k, v in mine.state_dict().items()} == {
        k: tuple(v.shape) for k, v in state.items()
    }
    safetensors.torch.save_file(state, folder / "state")
    assert str(mine.load_state_dict(rl.load(folder / "state"))) == "<All keys matched successfully>"


def compare_gradients(module, mine, inputs, my_inputs, result, my_result):
    outputs = [t for t in floating(result) if t.requires_grad]
    my_outputs = [t for t in floating(my_result) if t.requires_grad]
    assert len(outputs) == len(my_outputs)
    if not outputs:
        return
    weights = [torch.rand_like(t) for t in outputs]
    sum((t * w).sum() for t, w in zip(outputs, weights, strict=True)).backward()
    sum((t * ours(w)).sum() for t, w in zip(my_outputs, weights, strict=True)).backward()
    for a, b in itertools.chain(
        zip(floating(inputs[0]), floating(my_inputs[0]), strict=True),
        zip(module.parameters(), mine.parameters(), strict=True),
    ):
        assert (a.grad is None) == (b.grad is None)
        if a.grad is not None:
            torch.testing.assert_close(theirs(b.grad), a.grad, equal_nan=True)


def test_missing_functions_are_just_these():
    now = [function for function in MISSING if there(function)]
    assert not now, f"now there; take them out of MISSING: {now}"
