"""Temporaries that are written in place of others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rushlight


def notes(function: Callable[..., Any], *shapes: tuple[int, ...]) -> list[str]:
    """What the schedule says of temporaries in place of others; results are compared with the eager ones."""
    given = [
        rushlight.tensor(np.random.default_rng(n).uniform(-0.2, 0.2, shape).astype(np.float32))
        for n, shape in enumerate(shapes)
    ]
    run = rushlight.compile(function, fullgraph=True)
    np.testing.assert_allclose(run(*given).numpy(), function(*given).numpy(), rtol=2e-5, atol=2e-5)
    ((entry,),) = run.specializations.values()
    return [note for note in entry.artifact.schedule.notes if "in place of" in note]


@pytest.mark.parametrize("n", [32, 37, 61])
def test_rows_are_written_over_what_they_were_made_of(n: int) -> None:
    shape = (n, n)
    assert notes(lambda a, b: (a @ b).softmax(-1) @ b, shape, shape)
    assert notes(lambda a, b: rushlight.layer_norm(a @ b, (n,)) @ b, shape, shape)


def test_not_where_somebody_else_reads_the_old_contents() -> None:
    def twice(a: Any, b: Any) -> Any:
        product = a @ b
        return product.softmax(-1) @ product

    assert not notes(twice, (40, 40), (40, 40))


def test_not_where_an_element_is_read_after_it_was_written() -> None:
    assert not notes(lambda a, b: ((a @ b).T.contiguous() * 2).tanh() @ b, (40, 40), (40, 40))
    assert not notes(lambda a, b: (a @ b).roll(1, 0) @ b, (40, 40), (40, 40))


def test_small_ones_have_places_of_their_own() -> None:
    assert not notes(lambda a, b: (a @ b).softmax(-1) @ b, (9, 9), (9, 9))
