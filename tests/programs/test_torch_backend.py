"""Models of Hugging Face's transformers through torch.compile(backend="rushlight"): every operator is native,
results and gradients are those of eager mode, and other sizes compile nothing."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

pytest.importorskip("transformers", reason="a library of the extra `programs`")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of its dependencies, on import
    from .transformers_models import CASES

from rushlight.torch_backend import program, run, rushlight

pytestmark = pytest.mark.filterwarnings("ignore")  # of Dynamo's and transformers' own

QUICK = ("gpt2", "llama")  # each takes Dynamo 10 seconds and more
NAMES = [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in CASES]
# Dynamo unrolls a loop over the positions: another length is another program of its own
ONE_LENGTH = ("mamba",)
# captured anew by Dynamo: ViT's training step for the second batch size, and for no other
ANEW = ("vit",)


class Log:
    """What was compiled, and what PyTorch runs."""

    def __init__(self) -> None:
        self.programs = 0
        self.outside: set[str] = set()


@pytest.fixture(autouse=True)
def log(monkeypatch: pytest.MonkeyPatch) -> Iterator[Log]:
    log = Log()
    compiled, made = program.NativePart._compiled, run.CompiledGraph.__init__

    def counted(self: Any, bindings: Any) -> Any:
        log.programs += 1
        return compiled(self, bindings)

    def noted(self: Any, *args: Any, **kwargs: Any) -> None:
        made(self, *args, **kwargs)
        log.outside |= {str(s.node.target) for s in self.steps if not isinstance(s, run.CompiledPart)}

    monkeypatch.setattr(program.NativePart, "_compiled", counted)
    monkeypatch.setattr(run.CompiledGraph, "__init__", noted)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield log
    torch.set_num_threads(threads)
    torch._dynamo.reset()


def assert_close(actual: Any, expected: Any, name: str) -> None:
    torch.testing.assert_close(
        actual, expected, rtol=1e-4, atol=1e-4, msg=lambda message: f"{name}: {message}"
    )


def check(name: str, log: Log, training: bool) -> None:
    case = CASES[name]
    model = case.model().train(training)
    other = copy.deepcopy(model)
    fast = torch.compile(other, backend=rushlight, options={"fallback": False}, fullgraph=True, dynamic=True)
    programs, last_captured = 0, 3 if training and name in ANEW else 2
    for batch, length in ((2, 9), (3, 9 if name in ONE_LENGTH else 12), (4, 9 if name in ONE_LENGTH else 7)):
        inputs = case.inputs(batch, length)
        with torch.set_grad_enabled(training):
            expected, actual = model(**inputs), fast(**inputs)
        found, wanted = (
            {k: v for k, v in dict(o).items() if isinstance(v, torch.Tensor)} for o in (actual, expected)
        )
        assert_close(found, wanted, f"{batch} of length {length}")
        if training:
            for output in (expected, actual):
                output.loss.backward()
            for (label, mine), theirs in zip(other.named_parameters(), model.parameters(), strict=True):
                assert_close(mine.grad, theirs.grad, label)
        if batch <= last_captured:
            programs = log.programs
        assert log.programs == programs, f"{batch} of length {length} compiled again"
    assert not log.outside
    assert not torch._dynamo.utils.counters["graph_break"]


@pytest.mark.parametrize("name", NAMES)
def test_training(name: str, log: Log) -> None:
    check(name, log, training=True)


@pytest.mark.parametrize(
    "name", [n if n == "llama" else pytest.param(n, marks=pytest.mark.slow) for n in CASES]
)
def test_inference(name: str, log: Log) -> None:
    check(name, log, training=False)
