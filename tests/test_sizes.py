"""Files, functions and parameter lists stay readable; what is above a limit is named here.

Parameters that are an operator's arguments, or those of the function or class of the same name in PyTorch, are
not ours to choose and are not counted.
"""

from __future__ import annotations

import ast
import functools
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.nn.attention.flex_attention
import torch.utils.benchmark
import torch.utils.data

import rushlight
from rushlight.core.registry import REGISTRY

PACKAGE = Path(rushlight.__file__).parent
FILE, FUNCTION, PARAMETERS = 500, 60, 8  # lines, lines, number

TABLES = {"codegen/llvm/math/coefficients.py"}  # data, of any length

# Above a limit today. Nothing may be added, and an entry that is no longer above its limit must go.
FILES: set[str] = set()
FUNCTIONS = {
    "autograd/api.py: grad",
    "autograd/function_vmap.py: _vmapped",
    "batching/indexing.py: index_put_rule",
    "batching/loss.py: _declare_ctc",
    "decompositions/backend_names_rnn.py: back_through_layers",
    "decompositions/backend_names_rnn.py: declare",
    "decompositions/quantization_observer.py: observe",
    "nn/_attention.py: multi_head_attention_forward",
    "nn/_embedding.py: embedding_bag",
    "ops/conv.py: result_shape",
    "optim/lbfgs.py: _strong_wolfe",
    "sparse/_invariants.py: check_compressed",
}
PARAMETER_LISTS = {
    "capture/numbers.py: LiveInputs.__init__",
    "core/declare_pointwise.py: pointwise",
    "core/python_dispatch.py: _make_wrapper_subclass",
    "core/registry.py: OpDef.__init__",
    "core/registry.py: define",
    "decompositions/attention.py: attention_gradients",
    "decompositions/backend_names_attention.py: bias_gradient",
    "decompositions/backend_names_attention.py: gradients",
    "decompositions/backend_names_attention.py: some_gradients",
    "decompositions/backend_names_conv.py: _batched",
    "decompositions/backend_names_rnn.py: back_through_layers",
    "decompositions/backend_names_rnn.py: back_through_network",
    "decompositions/backend_names_rnn.py: mkldnn_rnn_layer",
    "decompositions/backend_names_rnn.py: mkldnn_rnn_layer_backward",
    "decompositions/conv.py: convolve",
    "decompositions/foreach_fused.py: adam",
    "decompositions/foreach_fused.py: sgd",
    "decompositions/loss_classes.py: _ctc_loss",
    "decompositions/pooling.py: max_pool_backward",
    "decompositions/recurrent.py: run_layers",
    "derivatives/attention.py: flash_attention",
    "derivatives/embedding.py: bag_double_backward",
    "derivatives/embedding.py: bag_sample_double_backward",
    "derivatives/indexing_dim.py: index_reduce_tangent",
    "derivatives/indexing_dim.py: scatter_reduce_tangent",
    "func/vmap.py: _in_chunks",
    "nn/attention/flex_attention.py: BlockMask.from_kv_blocks",
    "nn/modules/conv.py: _Conv.__init__",
    "nn/modules/conv.py: _ConvNd._set_up",
    "nn/modules/conv.py: _ConvTranspose.__init__",
    "nn/modules/conv.py: _LazyConv.__init__",
    "nn/modules/conv.py: _LazyConvTranspose.__init__",
    "ops/conv.py: result_shape",
    "sparse/_construct.py: sparse_compressed_tensor",
    "sparse/_construct.py: sparse_coo_tensor",
    "utils/data/worker.py: run_worker",
}

# What rules may ask for beside an operator's arguments.
ASKED = {"ops", "out", "low", "batch", "grad", "grads", "needs", "result", "output"}
RULES = ("ops", "kernels", "decompositions", "derivatives", "batching", "lowering")
SPACES: tuple[Any, ...] = (
    torch,
    torch.nn,
    torch.nn.functional,
    torch.nn.attention.flex_attention,
    torch.optim,
    torch.optim.lr_scheduler,
    torch.autograd,
    torch.linalg,
    torch.sparse,
    torch.testing,
    torch.utils.data,
    torch.utils.benchmark,
    torch.Tensor,
)


class Function(NamedTuple):
    place: str  # "nn/_loss.py: triplet_margin_loss"
    names: tuple[str, ...]  # of the class, if any, and of the function
    lines: int
    parameters: list[str]


def paths() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@functools.cache
def functions() -> list[Function]:
    return [
        found
        for path in paths()
        for found in functions_in(ast.parse(path.read_text()), path.relative_to(PACKAGE).as_posix(), ())
    ]


def functions_in(tree: ast.AST, file: str, inside: tuple[str, ...]) -> Iterator[Function]:
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            names = (*inside, node.name)
            given = node.args
            parameters = [a.arg for a in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
            if inside and parameters[:1] in (["self"], ["cls"]):
                del parameters[0]
            assert node.end_lineno is not None
            yield Function(f"{file}: {'.'.join(names)}", names, node.end_lineno - node.lineno + 1, parameters)
            yield from functions_in(node, file, names)
        elif isinstance(node, ast.ClassDef):
            yield from functions_in(node, file, (*inside, node.name))
        else:
            yield from functions_in(node, file, inside)


@functools.cache
def operator_arguments() -> list[frozenset[str]]:
    return [frozenset(op.schema.argument_names) for op in REGISTRY]


def are_an_operators(function: Function) -> bool:
    """Whether the parameters of a rule are arguments of one operator, and facts about them."""
    if not function.place.startswith(RULES):
        return False
    asked = {
        name.removesuffix("_").removesuffix("_batched").removesuffix("_ndim") for name in function.parameters
    }
    return any(asked - ASKED <= names for names in operator_arguments())


def are_torchs(function: Function) -> bool:
    """Whether the function, or a class that it makes, has these parameters in PyTorch."""
    *classes, name = function.names
    if name not in ("__init__", "forward", "from_pretrained"):
        classes, holder = [], ""
    else:
        holder = classes[-1] if classes else ""
    for space in SPACES:
        found = getattr(getattr(space, holder, None), name, None) if holder else getattr(space, name, None)
        if found is None:
            continue
        try:
            known = set(inspect.signature(found).parameters)
        except (TypeError, ValueError):
            continue
        if set(function.parameters) <= known | {"device", "dtype"}:
            return True
    return False


def compare(found: set[str], known: set[str]) -> None:
    assert not found - known, "split these"
    assert not known - found, "below the limit now: take them off the list"


def test_files() -> None:
    long = {
        path.relative_to(PACKAGE).as_posix() for path in paths() if len(path.read_text().splitlines()) > FILE
    }
    compare(long - TABLES, FILES)


def test_functions() -> None:
    compare({function.place for function in functions() if function.lines > FUNCTION}, FUNCTIONS)


def test_parameters() -> None:
    many = {
        function.place
        for function in functions()
        if len(function.parameters) > PARAMETERS
        and not are_an_operators(function)
        and not are_torchs(function)
    }
    compare(many, PARAMETER_LISTS)


def test_classes_of_the_compiler_have_names_of_their_own() -> None:
    floors = ("capture", "graph", "loops", "lowering", "schedule", "plan", "codegen", "runtime", "compiler")
    found: dict[str, list[str]] = {}
    for path in paths():
        place = path.relative_to(PACKAGE)
        if place.parts[0] in floors:
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name, []).append(place.as_posix())
    assert not {name: places for name, places in found.items() if len(places) > 1}
