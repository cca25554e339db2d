"""SparseAdam, and an optimizer with other tensors swapped in, against PyTorch's."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

import rushlight as rl

OPTIONS = [{}, {"lr": 0.1, "betas": (0.8, 0.9), "eps": 1e-5}, {"maximize": True}]


def tables(m):
    values = np.random.default_rng(0).standard_normal((6, 3)).astype(np.float32)
    return m.nn.Parameter(m.from_numpy(values.copy())), m.nn.Parameter(m.from_numpy(values.copy() * 2))


def step(m, params, optimizer, number):
    rows = np.random.default_rng(number).integers(0, 6, (2, 4))
    optimizer.zero_grad()
    loss = sum(
        (m.nn.functional.embedding(m.from_numpy(index), param, sparse=True) ** 2).sum() * (i + 1)
        for i, (index, param) in enumerate(zip(rows, params, strict=True))
    )
    loss.backward()
    optimizer.step()


@pytest.mark.parametrize("options", OPTIONS)
def test_twenty_steps(options):
    results = []
    for m in (rl, torch):
        params = tables(m)
        groups = [{"params": [params[0]]}, {"params": [params[1]], "lr": 0.02}]
        optimizer = m.optim.SparseAdam(groups, **options)
        for number in range(20):
            step(m, params, optimizer, number)
        states = optimizer.state_dict()["state"]
        results.append(
            [
                *[p.detach().numpy() for p in params],
                *[states[i][name].numpy() for i in (0, 1) for name in ("exp_avg", "exp_avg_sq")],
            ]
        )
        assert [states[i]["step"] for i in (0, 1)] == [20, 20]
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=2e-5, atol=1e-6)


def test_rows_without_gradient_stay():
    (param, _), before = tables(rl), tables(rl)[0].detach()
    optimizer = rl.optim.SparseAdam([param])
    for _ in range(3):
        optimizer.zero_grad()
        rl.nn.functional.embedding(rl.tensor([1, 4, 1]), param, sparse=True).sum().backward()
        optimizer.step()
    same = (param.detach() == before).all(1)
    assert same.tolist() == [True, False, True, True, False, True]


def test_state_dict():
    params = tables(rl)
    optimizer = rl.optim.SparseAdam(params)
    step(rl, params, optimizer, 0)
    others = [rl.nn.Parameter(p.detach().clone()) for p in params]
    copied = rl.optim.SparseAdam(others)
    copied.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for number in range(1, 4):
        step(rl, params, optimizer, number)
        step(rl, others, copied, number)
    for a, b in zip(params, others, strict=True):
        assert rl.equal(a, b)


def test_errors():
    for m in (torch, rl):
        param = m.nn.Parameter(m.ones(2))
        for options in ({"lr": 0.0}, {"eps": 0.0}, {"betas": (1.0, 0.9)}, {"betas": (0.9, -0.1)}):
            with pytest.raises(ValueError, match="Invalid"):
                m.optim.SparseAdam([param], **options)
        optimizer = m.optim.SparseAdam([param])
        param.sum().backward()
        with pytest.raises(RuntimeError, match="dense gradients"):
            optimizer.step()


# Other tensors for a while.


def trained(m):
    p = m.nn.Parameter(m.tensor([1.0, 2.0]))
    q = m.nn.Parameter(m.tensor([3.0]))
    optimizer = m.optim.Adam([{"params": [p]}, {"params": [q], "lr": 0.5}], lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        (p.square().sum() + q.sum()).backward()
        optimizer.step()
    return p, q, optimizer


def test_swap_in():
    results = []
    for m in (torch, rl):
        p, q, optimizer = trained(m)
        before = [t.detach().tolist() for t in (p, q)]
        state = copy.deepcopy(optimizer.state_dict())
        state["param_groups"][0]["lr"] = 0.7
        others = {"a": m.nn.Parameter(m.tensor([5.0, 6.0])), "b": m.nn.Parameter(m.tensor([7.0]))}
        live = optimizer.param_groups[0]["params"]
        with m.optim.swap_in_optimizer_params_and_state(optimizer, others, state):
            assert optimizer.param_groups[0]["params"][0] is others["a"]
            for other in others.values():
                other.grad = m.ones_like(other)
            optimizer.step()
        assert optimizer.param_groups[0]["params"] is live
        assert optimizer.param_groups[0]["lr"] == 0.1
        assert [t.detach().tolist() for t in (p, q)] == before
        results.append(
            [t.detach().tolist() for t in others.values()]
            + [float(state["state"][0]["step"]), float(optimizer.state[p]["step"])]
        )
        with (
            pytest.raises((ValueError, RuntimeError)),
            m.optim.swap_in_optimizer_params_and_state(optimizer, {"a": others["a"]}, state),
        ):
            pass
    np.testing.assert_allclose(results[0][0], results[1][0], rtol=1e-6)
    np.testing.assert_allclose(results[0][1], results[1][1], rtol=1e-6)
    assert results[0][2:] == results[1][2:]
