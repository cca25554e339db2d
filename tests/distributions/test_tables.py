"""Nothing of torch.distributions is missing: names, signatures, attributes, modules, KL pairs."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import subprocess
import sys
from typing import Any

import pytest
import torch
import torch.distributions.constraint_registry

import rushlight

from .cases import CASES

theirs, ours = torch.distributions, rushlight.distributions
CLASSES = sorted(name for name in theirs.__all__ if isinstance(getattr(theirs, name), type))


def parameters(function: Any) -> list[tuple[str, Any]]:
    return [(each.name, each.kind) for each in inspect.signature(function).parameters.values()]


def test_every_name_is_here() -> None:
    assert sorted(ours.__all__) == sorted(theirs.__all__)
    assert all(hasattr(ours, name) for name in ours.__all__)
    assert set(CASES) == {
        name for name in CLASSES if issubclass(getattr(theirs, name), theirs.Distribution)
    } - {"Distribution", "ExponentialFamily"}


@pytest.mark.parametrize("name", CLASSES)
def test_class(name: str) -> None:
    their, our = getattr(theirs, name), getattr(ours, name)
    assert parameters(our.__init__) == parameters(their.__init__)
    defaults = {each.name: each.default for each in inspect.signature(their.__init__).parameters.values()}
    for each in inspect.signature(our.__init__).parameters.values():
        if not isinstance(defaults[each.name], tuple):  # shapes
            assert each.default == defaults[each.name]
    for attribute in dir(their):
        if attribute.startswith("_"):
            continue
        assert hasattr(our, attribute), attribute
        value = getattr(their, attribute)
        if inspect.isfunction(value):
            assert parameters(getattr(our, attribute)) == parameters(value), attribute
        elif isinstance(value, bool):
            assert getattr(our, attribute) is value, attribute
    families = [base.__name__ for base in their.__mro__ if base.__module__.startswith("torch.distributions")]
    assert [base for base in (each.__name__ for each in our.__mro__) if base in families] == families


@pytest.mark.parametrize("name", [module.name for module in pkgutil.iter_modules(theirs.__path__)])
def test_module(name: str) -> None:
    their = importlib.import_module(f"torch.distributions.{name}")
    our = importlib.import_module(f"rushlight.distributions.{name}")
    assert all(hasattr(our, public) for public in their.__all__)


def test_constraints() -> None:
    assert sorted(ours.constraints.__all__) == sorted(theirs.constraints.__all__)
    for name in theirs.constraints.__all__:
        their, our = getattr(theirs.constraints, name), getattr(ours.constraints, name)
        assert hasattr(our, "check") == hasattr(their, "check")
        if isinstance(their, type):
            assert parameters(our.__init__) == parameters(their.__init__), name


@pytest.mark.parametrize("name", ["biject_to", "transform_to"])
def test_constraint_registries(name: str) -> None:
    kinds = [{kind.__name__ for kind in getattr(library, name)._registry} for library in (theirs, ours)]
    assert kinds[0] == kinds[1]


def test_kl_pairs() -> None:
    pairs = [{(p.__name__, q.__name__) for p, q in library.kl._KL_REGISTRY} for library in (theirs, ours)]
    assert pairs[0] == pairs[1]
    assert len(pairs[0]) == 87


def test_loaded_on_demand() -> None:
    program = (
        "import sys, rushlight; assert 'rushlight.distributions' not in sys.modules; "
        "rushlight.distributions.Normal(0.0, 1.0).sample()"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
