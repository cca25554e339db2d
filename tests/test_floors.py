"""The house rules that the whole tree keeps: imports go down, files stay readable, stubs are current."""

from __future__ import annotations

import ast
import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import rushlight
from rushlight.cli import stubs

PACKAGE = Path(rushlight.__file__).parent

# From the ground up; a module imports only from its own floor and those before it. Names on one line share a
# floor. A dotted name is a module that stands lower than the rest of its package.
FLOORS = [
    ["logs", "__future__", "pages"],
    ["core"],
    ["comm"],  # messages between processes
    ["ops"],
    ["kernels"],
    ["decompositions"],
    ["derivatives"],
    ["batching"],
    ["autograd"],
    # which kernels eager operators run, and the thread that makes native ones
    ["eager.settings", "eager.worker", "eager.operators", "eager.layouts", "eager.signatures", "eager.calls"],
    ["graph"],
    ["capture"],
    ["loops"],
    ["lowering"],
    ["schedule"],
    # the machine that code is for, what makes code callable, and the modes that change what is generated
    [
        "runtime.target",
        "runtime.cache",
        "runtime.machine",
        "runtime.images",
        "runtime.objects",
        "runtime.llvm_compiler",
        "runtime.engine",
        "runtime.profile",
        "runtime.redzones",
    ],
    ["plan"],
    ["codegen"],
    ["runtime"],  # what runs generated code
    ["_api"],
    [
        "func",
        "functional",
        "special",
        "linalg",
        "fft",
        "signal",
        "masked",
        "nested",
        "random",
        "sparse",
        "serialization",
        "_serialization",
        "_utils",
        "__config__",
        "storage",
        "utils",
        "amp",
        "nn",
        "ao",
        "optim",
        "library",
        "_decomp",
        "_C",
        "_prims_common",
        "_subclasses",
        "_tensor_str",
        "_functorch",
        "_vmap_internals",
        "_ops",
        "_higher_order_ops",
        "_library",
        "_custom_op",
        "_custom_ops",
        "accelerator",
        "backends",
        "cpu",
        "cuda",
        "distributed",
        "distributions",
        "export",
        "futures",
        "fx",
        "hub",
        "jit",
        "onnx",
        "mps",
        "multiprocessing",
        "overrides",
        "profiler",
        "quasirandom",
        "return_types",
        "types",
        "version",
        "torch_version",
        "xpu",
    ],
    ["compiler"],
    ["eager"],  # operators as programs of the compiler
    ["planning"],  # compiles and times programs of processes that need not exist
    ["_inductor"],
    ["_dynamo"],
    ["programs"],  # of PyTorch's, which find this package under its name
    ["__init__"],
    ["testing", "cli", "atlas", "__main__"],
    ["torch_backend"],  # imported by PyTorch alone
]
LEVEL = {name: level for level, names in enumerate(FLOORS) for name in names}

# Modules that a lower one loads when it is first used, and why it may. There are no others.
LATE = {
    ("_api.compile", "compiler.function"): "rushlight.compile is public, and the compiler slow to import",
    ("_api.compile", "compiler.capturable"): "as compile",
    ("_api.compile", "compiler.explain"): "as compile",
    ("_api.compile", "nn.modules.module"): "compile() takes a module",
    ("_api.compile", "nn.modules._compiled"): "compile() of a module gives a module",
    ("_api.compiler", "nn.modules.module"): "disable() takes a module",
    ("eager.calls", "eager.kernels"): "what loads native code is imported when an operator is worth a kernel",
    ("eager.calls", "eager.known_calls"): "reads the disk, which an import does not",
    ("eager.calls", "eager.compiling"): "the compiler is loaded when a kernel has to be made",
    ("optim._native", "eager.row_programs"): "as eager.kernels",
    ("optim._native", "eager.compiling"): "as eager.kernels",
    ("library", "testing.opcheck"): "torch.library.opcheck is public, and part of the test harness",
}

FORGET = "compiled functions hold for this setting"
# Names of a lower module that a higher one fills with functions, and why it may. Beside them are only what the
# registry and higher-order operators know of an operator, and the methods of tensors and storages.
CALLBACKS = {
    ("_api.compiler", "_on_reset"): "rushlight.compiler.reset is there before the compiler is loaded",
    ("autograd.hooks", "_listeners"): FORGET,
    ("autograd.inner", "_listeners"): FORGET,
    ("core.determinism", "_on_change"): FORGET,
    ("core.dispatch", "_layers"): "autograd, transforms, autocast and the profiler wrap every operator",
    ("core.dtypes", "_on_default_change"): FORGET,
    ("core.generator", "_native"): "native code that draws the same numbers is made when there are many",
    ("core.mutation", "before_write"): "a write to a tensor with history",
    ("core.mutation", "prepare"): "as before_write",
    ("core.mutation", "rebase"): "as before_write",
    ("core.nested", "RULES"): "rules of operators for nested tensors",
    ("core.nested_strided", "RULES"): "as core.nested",
    ("core.pytree", "_RECORDS"): "structures that a capture takes apart",
    ("core.resolve", "_native"): "native calls are made when a program has made many",
    ("core.stance", "_on_change"): FORGET,
    ("core.symbols", "_live"): "arithmetic of sizes that leaves the integers",
    ("core.tensor", "_before_flag"): "requires_grad is set in a capture",
    ("core.transforms", "_untracked"): "a tensor of a transform is printed",
    ("eager.calls", "_stored"): "kernels are taken from disk once the compiler is loaded",
    ("eager.calls", "_stored_under"): "kernels are taken from disk once the compiler is loaded",
    ("runtime.profile", "_listeners"): "compiled functions have forms with clocks, and others",
    ("runtime.redzones", "_listeners"): FORGET,
}


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        yield ".".join(parts), path


MODULES = {module.removesuffix(".__init__") for module, _ in modules()}


def floor_of(module: str) -> int | None:
    """The level of a module: that of the longest name that it, or a package it is in, has in FLOORS."""
    parts = module.split(".")
    names = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((LEVEL[name] for name in names if name in LEVEL), None)


def imported_modules(module: str, path: Path) -> Iterator[tuple[str, int, bool]]:
    """(module, line, inside a function) for each import of the package's own modules."""
    tree = ast.parse(path.read_text())
    local = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.walk(node)
    }
    package = module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            target = [*base, *(node.module.split(".") if node.module else [])]
            if not node.level:
                if target[0] != "rushlight":
                    continue
                target = target[1:]
            for alias in node.names:
                inner = ".".join([*target, alias.name])
                yield (
                    inner if inner in MODULES else ".".join(target) or "__init__",
                    node.lineno,
                    node in local,
                )
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "rushlight":
                    yield "__init__", node.lineno, node in local


def late_modules(path: Path) -> Iterator[tuple[str, int]]:
    """(module, line) for each module of the package that is named in a string, to be imported when it is
    first used."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            name = node.args[0].value
            reads_modules = isinstance(node.func, ast.Attribute) and ast.unparse(node.func).startswith(
                "sys.mod"
            )
            if (called in ("LazyModule", "import_module", "__import__") or reads_modules) and str(
                name
            ).startswith("rushlight."):
                yield str(name).removeprefix("rushlight."), node.lineno


def test_every_module_stands_on_a_floor() -> None:
    unknown = {module.split(".")[0] for module, _ in modules()} - set(LEVEL)
    assert not unknown, f"add {sorted(unknown)} to FLOORS"


def test_every_floor_has_modules() -> None:
    gone = {name for name in LEVEL if name not in MODULES} - {"__future__", "__init__"}
    assert not gone, f"remove {sorted(gone)} from FLOORS"


def is_above(target: str, module: str) -> bool:
    above, own = floor_of(target), floor_of(module)
    return above is not None and own is not None and above > own


def test_imports_only_go_down() -> None:
    wrong = [
        f"{module}:{line} imports {target}"
        for module, path in modules()
        for target, line, _ in imported_modules(module, path)
        if is_above(target, module)
    ]
    assert not wrong, "\n".join(wrong)


def test_late_imports_go_down_or_are_declared() -> None:
    """A module that is loaded by its name is an edge as well."""
    upward = {
        (module, target): f"{module}:{line} loads {target}"
        for module, path in modules()
        for target, line in late_modules(path)
        if is_above(target, module)
    }
    wrong = [text for edge, text in upward.items() if edge not in LATE]
    assert not wrong, "\n".join(wrong)
    assert not LATE.keys() - upward.keys(), "declared, but there is no such edge"


def functions_in(value: Any) -> Iterator[FunctionType]:
    """A function, or those of a container."""
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, dict | list | tuple | set):
        for item in value.values() if isinstance(value, dict) else value:
            yield from functions_in(item)


def test_callbacks_are_declared() -> None:
    """Imports go down, so that a higher module has put its function where a lower one has it."""
    for name in ("compiler.function", "eager.compiling", "nested"):
        importlib.import_module(f"rushlight.{name}")
    loaded = {module: sys.modules.get(f"rushlight.{module}") for module in MODULES}
    found = {
        (module, name)
        for module, content in loaded.items()
        if content is not None
        for name, value in vars(content).items()
        for function in functions_in(value)
        if is_above(function.__module__.removeprefix("rushlight."), module)
    }
    assert found == CALLBACKS.keys()


def test_no_local_import_breaks_a_cycle() -> None:
    wrong = [
        f"{module}:{line} imports {target} inside a function"
        for module, path in modules()
        for target, line, local in imported_modules(module, path)
        if local and module.split(".")[0] not in ("cli", "testing")
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["core", "ops", "kernels", "decompositions", "derivatives"])
def test_modules_say_what_they_are(name: str) -> None:
    silent = [
        path.name
        for path in (PACKAGE / name).rglob("*.py")
        if ast.get_docstring(ast.parse(path.read_text())) is None
    ]
    assert not silent


def test_stubs_are_current() -> None:
    assert not stubs.outdated(), "run `make stubs`"
