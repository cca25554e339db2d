"""Programs as users write them, eager and compiled: everything they show must agree.

A program is a generator function of one argument, `compiled`: identity, or `rushlight.compile`. What it
yields (tensors, numbers, containers of them) is compared step by step: values, dtype, shape, strides,
requires_grad, whether a gradient is there, and which tensors of one step are one object or share memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from .._api.compile import compile as compile_function
from ..capture.errors import CaptureError
from ..core.generator import default_generator
from ..core.pytree import flatten
from ..core.tensor import Tensor

Program = Callable[[Callable[..., Any]], Iterator[Any]]


def check_agreement(program: Program, *, fullgraph: bool = True, tolerance: float = 2e-5) -> list[Any]:
    """Run `program` eagerly and compiled, with and without fullgraph; AssertionError where they differ.

    With `fullgraph` False it must be refused as one graph, and agree all the same. Gives the functions that
    were compiled without fullgraph.
    """
    expected = _run(program, lambda function: function)
    for whole in (True, False):
        made: list[Any] = []

        def compiled(function: Any, whole: bool = whole, made: list[Any] = made) -> Any:
            made.append(compile_function(function, fullgraph=whole))
            return made[-1]

        if whole and not fullgraph:
            try:
                _run(program, compiled)
            except CaptureError:
                continue
            raise AssertionError("the program was captured as one graph")
        found = _run(program, compiled)
        assert len(found) == len(expected), f"{len(found)} steps, not {len(expected)}"
        for step, (a, b) in enumerate(zip(found, expected, strict=True)):
            _compare(a, b, step, tolerance)
    return made


def _run(program: Program, compiled: Callable[..., Any]) -> list[Any]:
    default_generator.manual_seed(0)
    return [_frozen(shown) for shown in program(compiled)]


def _frozen(shown: Any) -> tuple[Any, list[Any]]:
    """What was shown, as it is now."""
    leaves, structure = flatten(shown, records=True)
    objects: dict[int, int] = {}
    memory: dict[int, int] = {}
    frozen: list[Any] = []
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            frozen.append(leaf)
            continue
        looks = (
            leaf.dtype,
            tuple(leaf.shape),
            leaf.stride(),
            leaf.requires_grad,
            leaf.is_leaf,
            leaf.is_leaf and leaf.grad is not None,
            objects.setdefault(id(leaf), len(objects)),
            memory.setdefault(leaf.untyped_storage().data_ptr(), len(memory)) if leaf.numel() else None,
        )
        frozen.append((looks, np.array(leaf.detach().resolve_conj().resolve_neg().numpy())))
    return structure, frozen


def _compare(found: Any, expected: Any, step: int, tolerance: float) -> None:
    assert found[0] == expected[0], f"step {step}: {found[0]}, not {expected[0]}"
    for i, (a, b) in enumerate(zip(found[1], expected[1], strict=True)):
        where = f"step {step}, leaf {i}: "
        if isinstance(b, tuple) and len(b) == 2 and isinstance(b[1], np.ndarray):
            assert isinstance(a, tuple), f"{where}{a!r} is no tensor"
            assert a[0] == b[0], f"{where}{a[0]}, not {b[0]}"
            exact = b[1].dtype.kind not in "fc"
            with np.errstate(all="ignore"):
                same = (
                    np.array_equal(a[1], b[1])
                    if exact
                    else np.allclose(a[1], b[1], tolerance, tolerance, equal_nan=True)
                )
            assert same, f"{where}{a[1]}, not {b[1]}"
        else:
            assert type(a) is type(b), f"{where}{a!r}, not {b!r}"
            assert a == b or a != a, f"{where}{a!r}, not {b!r}"
