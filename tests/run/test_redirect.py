"""`rushlight.as_torch()`, in processes of their own, and what it is made of."""

from __future__ import annotations

import importlib.util
import pkgutil
from pathlib import Path

import pytest
import torch

import rushlight as rl
from rushlight.programs.redirect import OWN, TorchDistribution
from rushlight.torch_version import TorchVersion

from .running import python


def test_it_must_come_before_pytorch() -> None:
    with pytest.raises(RuntimeError, match=r"PyTorch is imported already, from .*torch.*Call as_torch"):
        rl.as_torch()
    assert str(rl.float32) == "rushlight.float32"


USE = """
import rushlight
rushlight.as_torch()
rushlight.as_torch()
import torch
assert torch is rushlight and str(torch.int8) == "torch.int8"
from rushlight.programs import redirect
redirect.undo()
redirect.undo()
assert str(torch.int8) == "rushlight.int8" and rushlight.__version__ == "0.1.0" and not hasattr(torch, "torch")
import torch.nn, sys, multiprocessing.spawn
assert torch is not rushlight and torch.nn is not rushlight.nn
assert sys.excepthook is sys.__excepthook__
assert multiprocessing.spawn.get_preparation_data.__module__ == "multiprocessing.spawn"
"""


def test_it_can_be_called_twice_and_undone() -> None:
    done = python("-c", USE)
    assert done.returncode == 0, done.stderr


LATE = """
import sys
sys.path.insert(0, {directory!r})
import rushlight
rushlight.as_torch()
import torch
def work(queue):
    import torch.nn
    queue.put(torch.nn.__name__)
if __name__ == "__main__":
    import multiprocessing
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    process = context.Process(target=work, args=(queue,))
    process.start()
    print(queue.get(timeout=120))
    process.join()
"""


def test_workers_find_the_package_where_the_program_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)
    program = tmp_path / "program.py"
    program.write_text(LATE.format(directory=str(Path(rl.__file__).parents[1])))
    done = python(program)
    assert done.stdout == "rushlight.nn\n", done.stderr


def test_floors_are_no_modules_of_torchs() -> None:
    def in_torch(name: str) -> bool:
        try:
            return importlib.util.find_spec(f"torch.{name}") is not None
        except ValueError:  # a module without a spec
            return True

    names = {module.name for module in pkgutil.iter_modules(rl.__path__)}
    assert {name for name in names if not in_torch(name)} == OWN


def test_the_distribution() -> None:
    found = TorchDistribution()
    assert found.metadata["Name"] == "torch"
    assert found.version == "2.13.0+rushlight.0.1.0"
    assert found.read_text("top_level.txt") == "torch\n"


@pytest.mark.parametrize(
    "other", ["2.4", "2.13.0", "2.13", "10.0", (2, 4), (2, 13, 0), (2, 14), "1.13.1+cpu"]
)
@pytest.mark.parametrize("version", ["2.13.0", "2.4.1", "2.13.0+cpu"])
def test_versions_compare_as_torchs(version: str, other: object) -> None:
    ours, theirs = TorchVersion(version), torch.torch_version.TorchVersion(version)
    for compare in ("__lt__", "__le__", "__gt__", "__ge__", "__eq__"):
        assert getattr(ours, compare)(other) == getattr(theirs, compare)(other), compare


FUNCTORCH = """
import sys, warnings
if "ours" in sys.argv:
    import rushlight
    rushlight.as_torch()
import functorch
import torch
from functorch import make_functional, make_fx, vmap
from functorch.experimental import replace_all_batch_norm_modules_

warnings.simplefilter("error")
x = torch.arange(3.0)
for name in ("grad", "jacrev", "jacfwd", "hessian", "functionalize", "grad_and_value", "vmap"):
    try:
        getattr(functorch, name)(torch.sin)
        print("no warning")
    except FutureWarning as warning:
        print(name, f"functorch.{name}" in str(warning), "torch." in str(warning))
warnings.simplefilter("ignore")
print(vmap(functorch.grad(torch.sin))(x).tolist() == torch.cos(x).tolist())
print(functorch.jacrev(torch.sin)(x).diagonal().tolist() == torch.cos(x).tolist())
print([str(node.target) for node in make_fx(lambda x: torch.sin(x) + 1)(x).graph.nodes])
function, parameters = make_functional(torch.nn.Linear(3, 1))
print(torch.equal(function(parameters, x), parameters[0] @ x + parameters[1]), len(parameters))
norm = torch.nn.BatchNorm1d(3)
replace_all_batch_norm_modules_(norm)
print(norm.running_mean, functorch.__version__ == torch.__version__)
print(sorted(name for name in dir(functorch) if name in {names!r}))
"""
FUNCTORCH_NAMES = {
    "FunctionalModule", "FunctionalModuleWithBuffers", "combine_state_for_ensemble", "functionalize", "grad",
    "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "make_functional", "make_functional_with_buffers",
    "make_fx", "vjp", "vmap",
}  # fmt: skip


def test_functorch_is_found_too() -> None:
    program = FUNCTORCH.replace("{names!r}", repr(FUNCTORCH_NAMES))
    ours, theirs = python("-c", program, "ours"), python("-c", program)
    assert theirs.returncode == 0, theirs.stderr
    assert ours.returncode == 0, ours.stderr
    assert "make_functional_with_buffers" in theirs.stdout
    ours_lines, their_lines = (done.stdout.splitlines() for done in (ours, theirs))
    assert ours_lines == their_lines
    missing = python("-c", "import rushlight; rushlight.as_torch(); import functorch.compile")
    assert "functorch.compile is not there: torch is Rushlight" in missing.stderr
