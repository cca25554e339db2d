"""torchdiffeq: a neural differential equation, learned through the adjoint method (the example of its README)."""

import torch
from driver import same_weights, serve, training
from torch import nn
from torchdiffeq import odeint, odeint_adjoint


class Derivative(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(2, 50), nn.Tanh(), nn.Linear(50, 2))

    def forward(self, t, y):
        return self.net(y**3)


model = Derivative()
same_weights(model, scale=0.3)
times = torch.linspace(0.0, 2.0, 20)
spiral = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]])
starts = torch.tensor([[2.0, 0.0], [1.5, 0.5], [0.5, 1.0], [1.0, -1.0]])
with torch.no_grad():
    truth = odeint(lambda t, y: (y**3) @ spiral, starts, times, method="dopri5", rtol=1e-5, atol=1e-6)


def loss():
    found = odeint_adjoint(model, starts, times, method="dopri5", rtol=1e-4, atol=1e-5)
    return (found - truth).abs().mean()


serve(training(model, loss))
