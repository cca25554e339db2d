"""Every name of torch.nn is here, with the same constructor."""

from __future__ import annotations

import inspect

import pytest
import torch
import torch.nn.utils.prune

import rushlight as rl
from rushlight import nn

# Names of torch.nn that are not modules of neural networks on a CPU.
NOT_HERE = {
    "nn": {
        "attention",
        "common_types",
        "factory_kwargs",
        "grad",
        "intrinsic",
        "qat",
        "quantizable",
        "quantized",
    },
    "nn.utils": set(),
    "nn.init": set(),
    "nn.utils.rnn": {"PackedSequence_", "bind"},
    "nn.utils.parametrize": set(),
    "nn.utils.parametrizations": set(),
    "nn.utils.prune": set(),
}


def at(root, path):
    for name in path.split("."):
        root = getattr(root, name)
    return root


def published(module):
    """What a module defines for others: no imports, nothing private."""
    own = module.__name__
    for name in dir(module):
        value = getattr(module, name)
        if name.startswith("_") or getattr(value, "__module__", own) == "typing":
            continue
        if inspect.ismodule(value):
            if value.__name__.startswith(own + "."):
                yield name
        elif str(getattr(value, "__module__", "")).startswith("torch.nn"):
            yield name


@pytest.mark.parametrize("path", sorted(NOT_HERE))
def test_names(path):
    theirs, mine = at(torch, path), at(rl, path)
    missing = {name for name in published(theirs) if not hasattr(mine, name)}
    assert missing == NOT_HERE[path]


def parameters(thing):
    return [
        (p.name, p.kind, getattr(p.default, "__name__", p.default))
        for p in inspect.signature(thing).parameters.values()
    ]


CLASSES = sorted(
    name
    for name in dir(torch.nn)
    if isinstance(getattr(torch.nn, name), type) and issubclass(getattr(torch.nn, name), torch.nn.Module)
)
# torch's signature is (*args, **kwargs), and an overload tells the rest
OVERLOADED = {"RNN", "LSTM", "GRU"}
# a decorator hides the signature
DEPRECATED = {"Container", "NLLLoss2d"}


@pytest.mark.parametrize("name", CLASSES)
def test_constructors(name):
    theirs, mine = parameters(getattr(torch.nn, name)), parameters(getattr(nn, name))
    if name == "LinearCrossEntropyLoss" or name in OVERLOADED:
        theirs, mine = [p[:2] for p in theirs], [p[:2] for p in mine]
    assert mine == theirs or name in DEPRECATED


@pytest.mark.parametrize("name", CLASSES)
def test_forward_takes_the_same_arguments(name):
    theirs, mine = (getattr(module, name).forward for module in (torch.nn, nn))
    names = [[n for n, *_ in parameters(forward)] for forward in (theirs, mine)]
    if names[0] != ["self", "args", "kwargs"]:
        assert names[1] == names[0] or name in OVERLOADED | {"RNNBase"}


@pytest.mark.parametrize(
    "path",
    [
        "nn.init",
        "nn.utils",
        "nn.utils.prune",
        "nn.utils.rnn",
        "nn.utils.parametrize",
        "nn.utils.parametrizations",
    ],
)
def test_functions(path):
    different = []
    for name in published(at(torch, path)):
        theirs, mine = getattr(at(torch, path), name), getattr(at(rl, path), name, None)
        if inspect.isfunction(theirs) and mine is not None and (path != "nn.init" or name.endswith("_")):
            names = [[n for n, *_ in parameters(function)] for function in (theirs, mine)]
            if names[0] != names[1]:
                different.append((name, *names))
    assert not different


def test_module_has_the_same_methods():
    missing = {name for name in dir(torch.nn.Module) if not hasattr(nn.Module, name)}
    assert missing <= {
        "_maybe_warn_non_full_backward_hook",
        "_slow_forward",
        "_wrapped_call_impl",
        "T_destination",
        "__annotations__",
    }
