"""Programs of nested tensors of the strided layout, and what of their results is compared."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

import rushlight as rl

SHAPES = {
    "n": [(2, 3), (4, 3), (1, 3)],
    "m": [(2, 3), (4, 3), (1, 3)],
    "r": [(2, 3), (1, 5)],
    "v": [(2,), (4,)],
    "h": [(2, 3, 4), (2, 1, 4)],
    "k": [(2, 5, 4), (2, 2, 4)],
    "s": [(1, 3), (1, 3)],
    "z": [(0, 3), (2, 3)],
    "g": [(2, 3, 4), (5, 3, 4)],
    "e": [],
    "c": [(3, 3), (4, 3)],
}


def made(lib: Any, name: str, requires_grad: bool = False) -> Any:
    generator = np.random.default_rng(len(name) + ord(name[0]))
    rows = [lib.tensor(generator.standard_normal(shape)) for shape in SHAPES[name]]
    return lib.nested.nested_tensor(rows, dtype=lib.float64, requires_grad=requires_grad)


def scope(lib: Any, requires_grad: bool = False) -> dict[str, Any]:
    generator = np.random.default_rng(0)
    dense = {"w": (5, 3), "b": (5,), "d": (3, 3, 2), "q": (4, 2), "one": (3,), "zero": (3,)}
    found = {
        name: lib.tensor(generator.standard_normal(shape), requires_grad=requires_grad)
        for name, shape in dense.items()
    }
    nested = {name: made(lib, name, requires_grad) for name in SHAPES}
    ids = lib.nested.nested_tensor([lib.tensor([0, 1]), lib.tensor([2])])
    mask = lib.nested.nested_tensor([lib.ones(shape, dtype=lib.bool) for shape in SHAPES["n"]])
    return {**found, **nested, "L": lib, "F": lib.nn.functional, "ids": ids, "mask": mask}


def told(value: Any) -> Any:
    """What can be compared of a result."""
    if isinstance(value, list | tuple):
        return [told(item) for item in value]
    if isinstance(value, torch.Tensor | rl.Tensor):
        if not value.is_nested:
            return "dense", str(value.dtype).split(".")[-1], np.asarray(value.detach().tolist())
        tables = ("size", "strides", "storage_offsets") if value.dim() > 1 else ()
        shapes = [getattr(value, f"_nested_tensor_{table}")().tolist() for table in tables]
        return "nested", str(value.dtype).split(".")[-1], shapes, [told(row) for row in value.unbind()]
    return value


def same(first: Any, second: Any) -> None:
    if isinstance(first, list | tuple):
        assert len(first) == len(second)
        for a, b in zip(first, second, strict=True):
            same(a, b)
    elif isinstance(first, np.ndarray):
        np.testing.assert_allclose(first, second, rtol=1e-9, atol=1e-12)
        assert first.shape == second.shape or not first.size
    else:
        assert first == second


def outcome(lib: Any, program: str, requires_grad: bool = False) -> Any:
    names = scope(lib, requires_grad)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return names, eval(program, names)
