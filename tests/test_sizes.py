"""Files, functions and parameter lists stay readable.

Parameters that are an operator's arguments, or those of the function or class of the same name in PyTorch, are
not ours to choose and are not counted. The examples of docstrings are not counted either: they are read on
their own, in the reference, and tests run them.
"""

from __future__ import annotations

import ast
import functools
import importlib.util
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
ROOT = Path(__file__).parents[1]
AROUND = ("tests", "benchmarks", "examples")  # beside the package: files are short there as well
FILE, FUNCTION, PARAMETERS = 500, 60, 8  # lines, lines, number
LOOSE = 12  # modules directly in the package whose names are not PyTorch's
NEW_OPERATOR = 60  # lines that add an operator with all its stages, as docs/operators.md says

# Longer lists of parameters than ours may be, each with the signature of PyTorch's that it follows. Nothing of
# our own belongs here, and an entry that is no longer above the limit must go.
FOLLOW_TORCH = {
    "_higher_order_ops/flex_attention.py: flex_attention": "torch._higher_order_ops.flex_attention",
    "core/python_dispatch.py: _make_wrapper_subclass": "Tensor._make_wrapper_subclass",
    "decompositions/attention.py: attention_gradients": "_scaled_dot_product_flash_attention_for_cpu_backward",
    "decompositions/backend_names_attention.py: bias_gradient": "_efficient_attention_backward",
    "decompositions/backend_names_attention.py: gradients": "_efficient_attention_backward",
    "decompositions/backend_names_attention.py: some_gradients": (
        "_scaled_dot_product_efficient_attention_backward"
    ),
    "decompositions/backend_names_conv.py: _batched": "convolution",
    "decompositions/backend_names_rnn.py: mkldnn_rnn_layer": "mkldnn_rnn_layer",
    "decompositions/backend_names_rnn.py: mkldnn_rnn_layer_backward": "mkldnn_rnn_layer_backward",
    "decompositions/conv.py: convolve": "convolution",
    "decompositions/foreach_fused.py: adam": "_fused_adam, of one tensor",
    "decompositions/foreach_fused.py: sgd": "_fused_sgd, of one tensor",
    "decompositions/loss_classes.py: _ctc_loss": "ctc_loss",
    "derivatives/attention.py: flash_attention": "_scaled_dot_product_flash_attention_for_cpu",
    "derivatives/embedding.py: bag_double_backward": "_embedding_bag_dense_backward",
    "derivatives/embedding.py: bag_sample_double_backward": "_embedding_bag_per_sample_weights_backward",
    "derivatives/indexing_dim.py: index_reduce_tangent": "index_reduce",
    "derivatives/indexing_dim.py: scatter_reduce_tangent": "scatter_reduce.two",
    "nn/attention/flex_attention.py: BlockMask.from_kv_blocks": "BlockMask.from_kv_blocks",
    "nn/modules/conv.py: _Conv.__init__": "nn.Conv2d",
    "nn/modules/conv.py: _ConvNd._set_up": "nn.Conv2d and nn.ConvTranspose2d",
    "nn/modules/conv.py: _ConvTranspose.__init__": "nn.ConvTranspose2d",
    "nn/modules/conv.py: _LazyConv.__init__": "nn.LazyConv2d",
    "nn/modules/conv.py: _LazyConvTranspose.__init__": "nn.LazyConvTranspose2d",
    "sparse/_construct.py: sparse_compressed_tensor": "sparse_compressed_tensor",
    "sparse/_construct.py: sparse_coo_tensor": "sparse_coo_tensor",
    "utils/tensorboard/writer.py: SummaryWriter.add_histogram_raw": "utils.tensorboard.SummaryWriter",
    "utils/tensorboard/writer.py: SummaryWriter.add_pr_curve_raw": "utils.tensorboard.SummaryWriter",
}

# What rules may ask for beside an operator's arguments.
ASKED = {"ops", "out", "low", "batch", "grad", "grads", "needs", "result", "output", "model", "used"}
RULES = ("ops", "kernels", "decompositions", "derivatives", "batching", "lowering", "onnx")
SPACES: tuple[Any, ...] = (
    torch,
    torch.nn,
    torch.nn.functional,
    torch.nn.attention.flex_attention,
    torch.optim,
    torch.optim.lr_scheduler,
    torch.profiler,
    torch.autograd,
    torch.distributed,
    torch.hub,
    torch.onnx,
    torch.nn.parallel,
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


def example_lines(tree: ast.AST) -> int:
    """How many lines the examples of docstrings take, with the empty one before them and the closing one."""
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    texts = [ast.get_docstring(node, clean=False) or "" for node in ast.walk(tree) if isinstance(node, kinds)]
    parts = [text.partition(">>> ") for text in texts if ">>> " in text]
    return sum(example.count("\n") + 1 + (said.strip().count("\n") == 0) for said, _, example in parts)


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
            lines = node.end_lineno - node.lineno + 1 - example_lines(node)
            yield Function(f"{file}: {'.'.join(names)}", names, lines, parameters)
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


def test_files() -> None:
    files = {path.relative_to(PACKAGE).as_posix(): path for path in paths()}
    for directory in AROUND:
        found = sorted((ROOT / directory).rglob("*.py"))
        assert found, directory
        files |= {path.relative_to(ROOT).as_posix(): path for path in found}
    texts = {name: path.read_text() for name, path in files.items()}
    long = {name: text for name, text in texts.items() if len(text.splitlines()) > FILE}
    assert not {
        name for name, text in long.items() if len(text.splitlines()) - example_lines(ast.parse(text)) > FILE
    }


def test_loose_modules() -> None:
    names = [path.stem for path in PACKAGE.glob("*.py")]
    own = [name for name in names if importlib.util.find_spec(f"torch.{name}") is None]
    assert len(own) <= LOOSE, own


def test_a_new_operator_is_short() -> None:
    assert len((ROOT / "tests/test_new_operator.py").read_text().splitlines()) <= NEW_OPERATOR


def test_functions() -> None:
    assert not {function.place for function in functions() if function.lines > FUNCTION}


def test_parameters() -> None:
    many = {
        function.place
        for function in functions()
        if len(function.parameters) > PARAMETERS
        and not are_an_operators(function)
        and not are_torchs(function)
    }
    known = FOLLOW_TORCH.keys()
    assert not many - known, "regroup these"
    assert not known - many, "below the limit now: take them off the list"


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
