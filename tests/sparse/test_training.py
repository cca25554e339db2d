"""Sparse gradients in training, and sparse tensors in compiled functions and transforms."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as rl

TABLE = np.random.default_rng(0).standard_normal((6, 3))
ROWS = [1, 2, 1, 5, 0, 0]
OPTIMIZERS = {
    "SGD": {"lr": 0.1},
    "SGD momentum": {"lr": 0.1, "momentum": 0.9, "dampening": 0.1},
    "Adagrad": {"lr": 0.1, "lr_decay": 0.01},
}


def trained(library, kind, optimizer, steps=3):
    """The table after a few steps, and the last gradient."""
    options = {"sparse": True, "dtype": library.float64}
    module = (
        library.nn.Embedding(6, 3, padding_idx=0, **options)
        if kind == "embedding"
        else library.nn.EmbeddingBag(6, 3, mode=kind, **options)
    )
    with library.no_grad():
        module.weight.copy_(library.tensor(TABLE))
    optimiser = getattr(library.optim, optimizer.split()[0])(module.parameters(), **OPTIMIZERS[optimizer])
    rows = library.tensor(ROWS)
    for _ in range(steps):
        optimiser.zero_grad()
        for power in (2, 3):
            out = module(rows) if kind == "embedding" else module(rows, library.tensor([0, 2]))
            (out**power).sum().backward()
        optimiser.step()
    return module.weight, module.weight.grad


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("kind", ["embedding", "sum", "mean"])
def test_embeddings_with_sparse_gradients(kind, optimizer, agree):
    agree(trained, kind, optimizer)


def test_weights_of_samples(agree):
    def scenario(library):
        table = library.tensor(TABLE, requires_grad=True)
        weights = library.tensor([0.5, 1.0, 2.0, 1.0, 3.0, 1.0], dtype=library.float64, requires_grad=True)
        library.nn.functional.embedding_bag(
            library.tensor(ROWS),
            table,
            library.tensor([0, 3]),
            mode="sum",
            sparse=True,
            per_sample_weights=weights,
        ).sum().backward()
        return table.grad, weights.grad

    agree(scenario)


def test_refusals(refuse_alike):
    def by_frequency(library):
        table = library.tensor(TABLE, requires_grad=True)
        library.nn.functional.embedding(
            library.tensor(ROWS), table, sparse=True, scale_grad_by_freq=True
        ).sum().backward()

    def adam(library):
        module = library.nn.Embedding(6, 3, sparse=True)
        module(library.tensor(ROWS)).sum().backward()
        library.optim.Adam(module.parameters()).step()

    def decay(library):
        module = library.nn.Embedding(6, 3, sparse=True)
        module(library.tensor(ROWS)).sum().backward()
        library.optim.Adagrad(module.parameters(), weight_decay=0.1).step()

    for scenario in (by_frequency, adam, decay):
        refuse_alike(scenario)


def test_gather_with_a_sparse_gradient(agree):
    def scenario(library):
        table = library.tensor(TABLE, requires_grad=True)
        picked = library.gather(table, 1, library.tensor([[0, 2], [1, 1], [2, 0]]), sparse_grad=True)
        (picked**2).sum().backward()
        return table.grad

    agree(scenario)


# Compiled functions.


def sparse(kind: str = "sparse_coo"):
    return rl.tensor([[0.0, 2.0, 0.0], [3.0, 0.0, 4.0]]).to_sparse(layout=getattr(rl, kind))


@pytest.mark.parametrize("kind", ["sparse_coo", "sparse_csr"])
def test_compiled_functions_of_sparse_tensors_run_eagerly_and_say_so(kind):
    matrix, dense = sparse(kind), rl.ones(3, 2)
    compiled = rl.compile(lambda s, d: (s @ (d + 1)) * 2)
    for scale in (1, 3):
        assert compiled(matrix * scale, dense).tolist() == ((matrix * scale) @ (dense + 1) * 2).tolist()
    assert all("takes a sparse tensor" in reason for reason in compiled.eager.values()) and compiled.eager
    with pytest.raises(Exception, match="takes a sparse tensor, which has no place in a graph"):
        rl.compile(lambda s, d: s @ d, fullgraph=True)(matrix, dense)


def test_structure_is_no_constant_of_a_compiled_function():
    compiled = rl.compile(lambda s, d: d * s._nnz())
    more = (sparse() + rl.tensor([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]).to_sparse()).coalesce()
    assert compiled(sparse(), rl.ones(2)).tolist() == [3.0, 3.0]
    assert compiled(more, rl.ones(2)).tolist() == [4.0, 4.0]


def test_sparse_results_in_the_middle_of_a_compiled_function():
    compiled = rl.compile(lambda d: (d.to_sparse() * 2).to_dense() + d.sin())
    dense = rl.tensor([[0.0, 1.0], [2.0, 0.0]], requires_grad=True)
    for _ in range(2):
        dense.grad = None
        compiled(dense).sum().backward()
        mine, dense.grad = dense.grad, None
        ((dense.to_sparse() * 2).to_dense() + dense.sin()).sum().backward()
        assert np.allclose(mine.numpy(), dense.grad.numpy())


def test_a_compiled_step_with_sparse_gradients():
    def run(step_of):
        rl.manual_seed(0)
        module = rl.nn.Embedding(6, 3, sparse=True)
        optimizer = rl.optim.SGD(module.parameters(), lr=0.1)

        def step(rows):
            optimizer.zero_grad()
            loss = (module(rows) ** 2).sum()
            loss.backward()
            optimizer.step()
            return loss

        step = step_of(step)
        for _ in range(3):
            step(rl.tensor(ROWS))
        return module.weight.detach().numpy()

    assert np.allclose(run(rl.compile), run(lambda step: step))


def test_transforms_refuse_sparse_tensors():
    matrix = sparse()
    with pytest.raises((RuntimeError, NotImplementedError), match="sparse"):
        rl.vmap(lambda x: matrix * x)(rl.ones(2))
    with pytest.raises((RuntimeError, NotImplementedError), match="sparse"):
        rl.vmap(lambda x: x.to_sparse())(rl.eye(2))
    with pytest.raises((RuntimeError, NotImplementedError), match="sparse"):
        rl.vmap(lambda m: m * 2)(matrix)


def test_func_grad_of_a_sparse_tensor():
    matrix = sparse()
    found = rl.func.grad(lambda m: (m.to_dense() ** 2).sum())(matrix)
    assert found.to_dense().tolist() == (matrix * 2).to_dense().tolist()
