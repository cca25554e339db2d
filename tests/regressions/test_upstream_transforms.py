"""Defects that PyTorch's functorch/test_eager_transforms found."""

from __future__ import annotations

import pytest
import torch

import rushlight as rl


@pytest.mark.parametrize("library", [rl, torch], ids=["rushlight", "torch"])
def test_vjp_takes_one_tree_and_two_flags(library) -> None:
    x = library.tensor([1.0, 2.0])
    _, pull = library.func.vjp(lambda x: x.sin(), x)
    (grad,) = pull(library.ones(2), True, True)
    assert library.allclose(grad, x.cos())
    _, pull = library.func.vjp(lambda x: (x * 2, x * 3), x)
    assert pull((library.ones(2), library.ones(2)))[0].tolist() == [5.0, 5.0]
    for wrong in ([library.ones(2), library.ones(2)], library.ones(2)):
        with pytest.raises(RuntimeError, match="Expected pytree structure of cotangents"):
            pull(wrong)


@pytest.mark.parametrize("library", [rl, torch], ids=["rushlight", "torch"])
def test_vjp_frees_its_graph_if_it_is_told_to(library) -> None:
    _, pull = library.func.vjp(lambda x: x.sin(), library.ones(2))
    pull(library.ones(2), retain_graph=False)
    with pytest.raises(RuntimeError, match="second time"):
        pull(library.ones(2))
