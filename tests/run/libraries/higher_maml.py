"""higher: model-agnostic meta-learning, gradients through the steps of an inner optimizer."""

import higher
import torch
from driver import numbers, same_weights, serve
from torch import nn
from torch.nn import functional as F

model = nn.Sequential(nn.Linear(1, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 1))
same_weights(model)
inner = torch.optim.SGD(model.parameters(), lr=0.01)
outer = torch.optim.Adam(model.parameters(), lr=1e-3)
tasks = [(numbers(f"x{i}", 10, 1), numbers(f"y{i}", 10, 1)) for i in range(4)]


def step():
    outer.zero_grad()
    losses = []
    for x, y in tasks:
        with higher.innerloop_ctx(model, inner, copy_initial_weights=False) as (fast, optimizer):
            for _ in range(3):
                optimizer.step(F.mse_loss(fast(x), y))
            loss = F.mse_loss(fast(x), y)
            loss.backward()
            losses.append(loss.item())
    outer.step()
    return losses


serve(step)
