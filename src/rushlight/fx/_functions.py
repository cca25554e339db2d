"""Functions of the package as a recorded program calls them: which, under what name, and with what arguments.

Operators ask their arguments themselves (`__torch_function__`). A function such as `F.softmax` or `einsum` is one
node of a recorded program as well, although it is made of several operators: while a program is
recorded, the public names lead to functions that look for proxies among the arguments first.

A node has the arguments without defaults as they stand, and all others by name: that is how PyTorch's functions
ask. Those that are built into PyTorch ask with the arguments as they were given.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import operator
from collections.abc import Callable
from typing import Any

from .. import functional as _functional
from ..core.aten import OpOverload, OpOverloadPacket
from ..core.resolve import Packet
from ..nn import functional as F

# names of nn.functional that are built into PyTorch: in torch, or in torch._C._nn
IN_TORCH = frozenset((
    "adaptive_avg_pool1d", "avg_pool1d", "bilinear", "celu_", "channel_shuffle", "conv1d", "conv2d", "conv3d",
    "conv_tbc", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d", "cosine_similarity", "hardshrink",
    "native_channel_shuffle", "pairwise_distance", "pdist", "pixel_shuffle", "pixel_unshuffle", "prelu", "relu_",
    "rrelu_", "selu_", "threshold_",
))  # fmt: skip
IN_NN = {name: name for name in (
    "avg_pool2d", "avg_pool3d", "elu_", "gelu", "hardtanh_", "leaky_relu_", "linear", "one_hot",
    "scaled_dot_product_attention", "softplus", "softshrink",
)} | {"logsigmoid": "log_sigmoid"}  # fmt: skip
AS_METHODS = ("sigmoid", "tanh")  # which call the method of their argument
_LIBRARIES = ("special", "linalg", "fft")  # whose operators PyTorch has in torch._C._special and so on
_FUNCTIONAL = (
    "atleast_1d", "atleast_2d", "atleast_3d", "block_diag", "broadcast_shapes", "broadcast_tensors",
    "cartesian_prod", "cdist", "chain_matmul", "einsum", "istft", "meshgrid", "norm", "split", "stft",
    "tensordot", "unique", "unique_consecutive", "unravel_index",
)  # fmt: skip
_NOT_RECORDED = (
    "grad", "upsample", "upsample_bilinear", "upsample_nearest", "scaled_mm", "scaled_grouped_mm", "grouped_mm",
)  # fmt: skip
# functions that return indices if they are asked to, and those that do the work then
_WITH_INDICES = {
    name.removesuffix("_with_indices"): getattr(F, name)
    for name in F.__all__
    if name.endswith("_with_indices")
}
_NOT_ASKED = {"l1_loss": ("weight",)}  # what PyTorch leaves out of the node
_BY_NAME = {"unravel_index": ("shape",)}  # arguments without a default that go by name


def package() -> Any:
    """The package itself, which is `torch` in generated code."""
    return importlib.import_module(__name__.partition(".")[0])


def _recorded_functions() -> dict[int, tuple[str, Any]]:
    found: dict[int, tuple[str, Any]] = {}
    for name, value in [*vars(F).items(), *((name, getattr(_functional, name)) for name in _FUNCTIONAL)]:
        if inspect.isfunction(value) and not name.startswith("_") and name not in _NOT_RECORDED:
            found[id(value)] = (name, value)
    return found


def arranged(name: str, function: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, Any, Any]:
    """The target and the arguments of the node of a call."""
    if name in IN_TORCH:  # one function in PyTorch, whose name is that of the package's
        return inspect.unwrap(getattr(package(), name, function)), args, kwargs
    if name in IN_NN:
        return function, args, kwargs
    if name == "einsum":
        return function, _flat_operands(args), kwargs
    with_indices = _WITH_INDICES.get(name)
    bound = inspect.signature(function if with_indices is None else with_indices).bind(*args, **kwargs)
    bound.apply_defaults()
    given: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in bound.signature.parameters.values():
        value = bound.arguments[parameter.name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            given.extend(value)
        elif parameter.kind is parameter.VAR_KEYWORD:
            named.update(value)
        elif parameter.default is parameter.empty and parameter.name not in _BY_NAME.get(name, ()):
            given.append(value)
        elif parameter.name not in _NOT_ASKED.get(name, ()):
            named[parameter.name] = value
    if with_indices is not None and named["return_indices"] is True:
        function = with_indices
    return function, tuple(given), named


def _flat_operands(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of einsum, whose operands may come in one list: those of the node never do."""
    while len(args) == 2 and isinstance(args[0], str) and isinstance(args[1], tuple | list):
        args = (args[0], *args[1])
    return args


def _public_names() -> dict[int, str]:
    names: dict[int, str] = {}
    for name in _FUNCTIONAL:
        names[id(getattr(_functional, name))] = f"torch.functional.{name}"
    for name, value in vars(F).items():
        if name in IN_NN:
            names[id(value)] = f"torch._C._nn.{IN_NN[name]}"
        elif inspect.isfunction(value) and not name.startswith("_") and name not in IN_TORCH:
            names[id(value)] = f"torch.nn.functional.{name}"
    return names


# by identity: name and function of what looks for proxies while a program is recorded
RECORDED = _recorded_functions()
# by identity: where PyTorch has the functions of `functional` and `nn.functional`
PUBLIC_NAMES = _public_names()


def qualified_name(function: Callable[..., Any]) -> str:
    """How source code calls a function, in which the package is `torch`."""
    if isinstance(function, OpOverload | OpOverloadPacket):
        return f"torch.ops.{function}"
    if id(function) in PUBLIC_NAMES:
        return PUBLIC_NAMES[id(function)]
    name = getattr(function, "__name__", type(function).__name__)
    if getattr(builtins, name, None) is function:
        return name
    module = getattr(function, "__module__", None) or ""
    if module == "_operator" and getattr(operator, name, None) is function:
        return f"_operator.{name}"
    package, _, rest = module.partition(".")
    if package == "rushlight":
        if isinstance(function, Packet) and rest in _LIBRARIES:
            return f"torch._C._{rest}.{rest}_{name}"
        if rest.startswith("_api"):  # what is defined there is public in the package itself
            rest = ""
        module = "torch" + (f".{rest}" if rest else "")
    return f"{module}.{name}" if module else name
