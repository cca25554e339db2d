"""Every public name of torch.nn, torch.optim and torch.utils.data is here, with the same signature."""

from __future__ import annotations

import importlib
import inspect

import pytest
import torch
import torch.nn.attention.bias
import torch.nn.attention.flex_attention
import torch.nn.utils.prune
import torch.nn.utils.stateless
import torch.optim.swa_utils
import torch.utils.data

import rushlight as rl
from rushlight import nn

QUANTIZED = "quantized modules: torch.ao, which has its own package"
JIT = "helps PyTorch's own Python code and its compilers; not documented"
GPU = "kernels of GPUs"
PIPES = "data pipes, which PyTorch no longer develops; datasets and samplers do the same"

# Names of torch that are not here, and why.
NOT_HERE = {
    "nn": {"intrinsic": QUANTIZED, "qat": QUANTIZED, "quantizable": QUANTIZED, "quantized": QUANTIZED},
    "nn.functional": dict.fromkeys(
        (
            "BroadcastingList1",
            "BroadcastingList2",
            "BroadcastingList3",
            "assert_int_or_pair",
            "boolean_dispatch",
            "handle_torch_function",
            "has_torch_function",
            "has_torch_function_unary",
            "has_torch_function_variadic",
        ),
        JIT,
    ),
    "nn.init": {},
    "nn.modules": {"linear_cross_entropy": "where a module is written"},
    "nn.parameter": {},
    "nn.grad": {},
    "nn.attention": dict.fromkeys(
        (
            "SDPAParams",
            "can_use_efficient_attention",
            "can_use_flash_attention",
            "activate_flash_attention_impl",
            "current_flash_attention_impl",
            "list_flash_attention_impls",
            "register_flash_attention_impl",
            "restore_flash_attention_impl",
            "varlen",
        ),
        GPU,
    ),
    "nn.attention.flex_attention": {},
    "nn.attention.bias": {},
    "nn.utils": {},
    "nn.utils.rnn": dict.fromkeys(("PackedSequence_", "bind", "copy_method_params"), JIT),
    "nn.utils.parametrize": dict.fromkeys(
        (
            "OpaqueBase",
            "get_swap_module_params_on_conversion",
            "is_opaque_reference_type",
            "is_traceable_wrapper_subclass",
        ),
        JIT,
    ),
    "nn.utils.parametrizations": {},
    "nn.utils.prune": {},
    "nn.utils.stateless": {"NamedMemberAccessor": JIT},
    "optim": {},
    "optim.lr_scheduler": {},
    "optim.swa_utils": {},
    "utils.data": {
        **dict.fromkeys(
            (
                "DFIterDataPipe",
                "DataChunk",
                "argument_validation",
                "datapipes",
                "functional_datapipe",
                "graph",
                "graph_settings",
                "guaranteed_datapipes_determinism",
                "non_deterministic",
                "runtime_validation",
                "runtime_validation_disabled",
            ),
            PIPES,
        )
    },
}
# Methods of public classes that are not here, and why.
NO_METHOD = {
    **dict.fromkeys(
        [("DataParallel", name) for name in ("gather", "parallel_apply", "replicate", "scatter")], GPU
    ),
    ("PackedSequence", "cuda"): GPU,
    **dict.fromkeys(
        [
            (kind, name)
            for kind in ("IterDataPipe", "MapDataPipe")
            for name in (
                "register_datapipe_as_function",
                "register_function",
                "reset",
                "set_getstate_hook",
                "set_reduce_ex_hook",
            )
        ],
        PIPES,
    ),
}
# Signatures that differ, and why.
DIFFERENT = {
    ("nn", "Container"): "a decorator hides the signature of what is deprecated",
    ("nn", "NLLLoss2d"): "a decorator hides the signature of what is deprecated",
    ("nn.parameter", "UninitializedTensorMixin"): "nobody makes one of its own",
}
# torch's signature is (*args, **kwargs), and overloads tell the rest
OVERLOADED = {"RNN", "LSTM", "GRU"}


def both(path):
    return importlib.import_module(f"torch.{path}"), importlib.import_module(f"rushlight.{path}")


def published(module):
    """What a module has for others: no private names, nothing that comes from Python or PyTorch's core."""
    own, stated = module.__name__, set(getattr(module, "__all__", ()))
    for name in dir(module):
        value = getattr(module, name)
        if name.startswith("_") or (own.startswith("torch.nn.attention.") and name not in stated):
            continue
        if inspect.ismodule(value):
            if value.__name__.startswith(own + "."):
                yield name
        elif name in stated or (
            str(getattr(value, "__module__", "")).startswith("torch") and value is not torch.Tensor
        ):
            yield name


@pytest.mark.parametrize("path", sorted(NOT_HERE))
def test_names(path):
    theirs, mine = both(path)
    missing = {name for name in published(theirs) if not hasattr(mine, name)}
    assert missing == set(NOT_HERE[path]) & set(published(theirs)), missing ^ set(NOT_HERE[path])
    assert not {name for name in NOT_HERE[path] if hasattr(mine, name)}, "now there: take it out of NOT_HERE"


def default(value):
    if value is inspect.Parameter.empty:
        return "required"
    if isinstance(value, torch.dtype | rl.dtype):
        return str(value).split(".")[-1]
    if isinstance(value, torch.Generator | rl.Generator):
        return "the default generator"
    return value.__name__ if callable(value) else value


def parameters(thing):
    """Names, kinds and defaults, or None for what is not written in Python."""
    try:
        signature = inspect.signature(thing)
    except (TypeError, ValueError):
        return None
    return [(p.name, p.kind.name, default(p.default)) for p in signature.parameters.values()]


ANYTHING = [("args", "VAR_POSITIONAL", "required"), ("kwargs", "VAR_KEYWORD", "required")]


def differs(theirs, mine):
    """Whether `mine` cannot be called as `theirs`; what takes anything says nothing about its arguments."""
    a, b = parameters(theirs), parameters(mine)
    return a is not None and a != b and a[-2:] != ANYTHING


@pytest.mark.parametrize("path", sorted(NOT_HERE))
def test_signatures(path):
    """Of functions, and of the constructors of classes: parameter names, their order, kinds and defaults."""
    theirs, mine = both(path)
    wrong = {}
    for name in published(theirs):
        pair = getattr(theirs, name), getattr(mine, name, None)
        known = (path, name) in DIFFERENT or ("nn", name) in DIFFERENT or name in OVERLOADED
        if pair[1] is None or not callable(pair[0]) or name == "LinearCrossEntropyLoss" or known:
            continue
        if isinstance(pair[0], type) and issubclass(pair[0], torch.Tensor) and path == "nn.attention.bias":
            continue  # made by __new__ here
        if differs(*pair):
            wrong[name] = [parameters(each) for each in pair]
    assert not wrong, "\n".join(f"{name}:\n {a}\n {b}" for name, (a, b) in wrong.items())


def test_linear_cross_entropy_loss():
    """Its default is an object of its own kind."""
    theirs, mine = (parameters(m.LinearCrossEntropyLoss) for m in (torch.nn, nn))
    assert [p[:2] for p in mine] == [p[:2] for p in theirs]


def added(cls, method):
    """Whether a library has put a method on a class of PyTorch's in this process, as transformers does."""
    module = getattr(getattr(cls, method), "__module__", None) or "torch"
    return module.partition(".")[0] == "transformers"


@pytest.mark.parametrize("path", sorted(NOT_HERE))
def test_methods(path):
    """Every public method of every public class, with its signature where the class itself defines it."""
    theirs, mine = both(path)
    missing, wrong = [], []
    for name in published(theirs):
        pair = getattr(theirs, name), getattr(mine, name, None)
        if not isinstance(pair[0], type) or pair[1] is None or issubclass(pair[0], torch.Tensor):
            continue
        for method in dir(pair[0]):
            if method.startswith("_") or not callable(getattr(pair[0], method)) or added(pair[0], method):
                continue
            if not hasattr(pair[1], method):
                missing.append((name, method))
            elif (
                method in pair[0].__dict__
                and name not in OVERLOADED
                and differs(*[getattr(cls, method) for cls in pair])
            ):
                wrong.append((name, method, *[parameters(getattr(cls, method)) for cls in pair]))
    assert set(missing) <= set(NO_METHOD), set(missing) - set(NO_METHOD)
    assert not wrong, "\n".join(map(str, wrong))


def test_module_has_the_same_methods():
    theirs = [name for name in dir(torch.nn.Module) if not added(torch.nn.Module, name)]
    missing = {name for name in theirs if not hasattr(nn.Module, name)}
    assert missing - {"___needs_generation_tag_patch"} <= {  # set by PyTorch's compiler, once it is used
        "_maybe_warn_non_full_backward_hook",
        "_slow_forward",
        "_wrapped_call_impl",
        "T_destination",
        "__annotations__",
    }


def test_every_exception_is_needed():
    for name, method in NO_METHOD:
        owners = (nn, nn.utils.rnn, rl.utils.data)
        owner = next(owner for owner in owners if hasattr(owner, name))
        assert not hasattr(getattr(owner, name), method)
    for path, name in DIFFERENT:
        assert differs(*[getattr(m, name) for m in both(path)]) or (
            parameters(getattr(both(path)[0], name))[-2:] == ANYTHING
        )
