"""Every public function and class says what it does, with an example that runs and prints what it says.

The examples of operators run on PyTorch as well, and print the same.
"""

from __future__ import annotations

import doctest
import math
import subprocess
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from rushlight.cli.documentation import scope, transcript
from rushlight.core.documentation import sections
from rushlight.testing.public_names import MODULES, docstring, public_names

# Those whose examples need a process of their own: without PyTorch, or because they register something for good.
APART = {
    "rushlight.as_torch",
    "rushlight.distributions.register_kl",
    "rushlight.serialization.register_package",
    "rushlight.serialization.register_tensor_class",
}
# Operators of other devices, which PyTorch does not run here.
ELSEWHERE = ("cudnn_", "miopen_", "mkldnn_")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
NAMES = public_names()


def run(name: str, text: str, names: dict[str, Any]) -> list[str]:
    """What an example printed that it does not say."""
    test = doctest.DocTestParser().get_doctest(text, names, name, None, 0)
    said: list[str] = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        doctest.DocTestRunner(optionflags=FLAGS).run(test, out=said.append, clear_globs=False)
    return said


def test_there_are_public_names() -> None:
    assert len(NAMES) > 1500
    assert set(NAMES) >= APART


def test_every_public_name_has_an_example() -> None:
    assert not [name for name, value in NAMES.items() if ">>> " not in docstring(value)]


def test_docstrings_begin_with_a_sentence() -> None:
    wrong = []
    for name, value in NAMES.items():
        first = docstring(value).partition("\n\n")[0]
        if not first or first.startswith((">>>", "An operator of the registry")):
            wrong.append(name)
    assert not wrong


@pytest.mark.parametrize("module", MODULES)
def test_examples_run(module: str) -> None:
    failed = []
    for name, value in NAMES.items():
        if name.rpartition(".")[0] == module and ">>> " in docstring(value) and name not in APART:
            failed += run(name, docstring(value), scope())
    assert not failed, "".join(failed)


@pytest.mark.parametrize("name", sorted(APART))
def test_examples_run_in_a_process_of_their_own(name: str) -> None:
    module, _, short = name.rpartition(".")
    program = f"import doctest, rushlight, {module} as m; names = dict(rl=rushlight, __name__='e'); "
    program += f"e = doctest.DocTestParser().get_doctest(m.{short}.__doc__, names, 'e', None, 0); "
    program += "assert e.examples; assert doctest.DocTestRunner().run(e).failed == 0"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_examples_of_operators_print_the_same_on_torch() -> None:
    different = []
    for name, section in sections().items():
        if name.startswith(ELSEWHERE):
            continue
        names: dict[str, Any] = {
            "rl": torch,
            "nn": torch.nn,
            "F": torch.nn.functional,
            "np": np,
            "math": math,
        }
        printed = transcript(section.example, names).replace("torch.", "rushlight.")
        if printed != section.example:
            different.append(f"{name}:\n{section.example}\ntorch:\n{printed}")
    assert not different, "\n".join(different)


def test_sections_are_of_public_names() -> None:
    """Nothing is described that is not there, and in-place forms and methods of Tensor are described."""
    from rushlight._api.link import API
    from rushlight.core.documentation import key_of, section_of

    packets: list[Callable[..., Any]] = [*API.methods.values()]
    for table in API.functions.values():
        packets += table.values()
    public = [packet for packet in packets if not packet.__name__.startswith("_")]
    assert not [key_of(packet) for packet in public if section_of(packet) is None]
    known = {key_of(packet) for packet in public}
    known |= {key.removeprefix("Tensor.") for key in known}
    assert not set(sections()) - known
