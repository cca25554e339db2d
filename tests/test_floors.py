"""The house rules that the whole tree keeps: imports go down, files stay readable, stubs are current."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import rushlight
from rushlight.cli import stubs

PACKAGE = Path(rushlight.__file__).parent

# From the ground up; a module imports only from its own floor and those before it. Names on one line share a
# floor.
FLOORS = [
    ["logs", "__future__"],
    ["core"],
    ["ops"],
    ["kernels"],
    ["decompositions"],
    ["derivatives"],
    ["batching"],
    ["autograd"],
    ["graph"],
    ["capture"],
    ["loops"],
    ["lowering"],
    ["schedule"],
    ["runtime"],
    ["plan"],
    ["codegen"],
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
        "optim",
        "library",
        "_decomp",
        "_C",
        "_subclasses",
        "_functorch",
        "_vmap_internals",
        "_ops",
        "_library",
        "_custom_op",
        "_custom_ops",
        "accelerator",
        "backends",
        "cpu",
        "cuda",
        "distributed",
        "distributions",
        "jit",
        "mps",
        "multiprocessing",
        "overrides",
        "quasirandom",
        "return_types",
        "types",
        "version",
        "xpu",
    ],
    ["compiler"],
    ["__init__"],
    ["testing", "cli", "__main__"],
]
LEVEL = {name: level for level, names in enumerate(FLOORS) for name in names}


def modules() -> Iterator[tuple[str, Path]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE).with_suffix("").parts
        yield ".".join(parts), path


def imported_floors(module: str, path: Path) -> Iterator[tuple[str, int, bool]]:
    """(floor, line, inside a function) for each import of the package's own modules."""
    tree = ast.parse(path.read_text())
    local = {
        child
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for child in ast.walk(node)
    }
    package = module.split(".")[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            base = package[: len(package) - node.level + 1]
            target = [*base, *(node.module.split(".") if node.module else [])]
            for name in target[:1] or [alias.name for alias in node.names]:
                yield name, node.lineno, node in local
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "rushlight":
            yield (
                (node.module or "").split(".")[1] if "." in (node.module or "") else "__init__",
                node.lineno,
                node in local,
            )
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "rushlight":
                    yield "__init__", node.lineno, node in local


def test_every_module_stands_on_a_floor() -> None:
    unknown = {module.split(".")[0] for module, _ in modules()} - set(LEVEL)
    assert not unknown, f"add {sorted(unknown)} to FLOORS"


def test_imports_only_go_down() -> None:
    wrong = [
        f"{module}:{line} imports {floor}"
        for module, path in modules()
        for floor, line, _ in imported_floors(module, path)
        if floor in LEVEL and LEVEL[floor] > LEVEL[module.split(".")[0]]
    ]
    assert not wrong, "\n".join(wrong)


def test_no_local_import_breaks_a_cycle() -> None:
    wrong = [
        f"{module}:{line} imports {floor} inside a function"
        for module, path in modules()
        for floor, line, local in imported_floors(module, path)
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
