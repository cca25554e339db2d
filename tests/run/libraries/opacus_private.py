"""opacus: training with clipped gradients per sample, without noise (generators draw other numbers)."""

import torch
from driver import integers, numbers, same_weights, serve
from opacus import GradSampleModule
from opacus.optimizers import DPOptimizer
from torch import nn
from torch.nn import functional as F

net = nn.Sequential(
    nn.Conv2d(1, 16, 8, 2, padding=3), nn.ReLU(), nn.MaxPool2d(2, 1), nn.Conv2d(16, 32, 4, 2), nn.ReLU(),
    nn.MaxPool2d(2, 1), nn.Flatten(), nn.Linear(32 * 16, 32), nn.ReLU(), nn.Linear(32, 10),
)  # fmt: skip
same_weights(net)
model = GradSampleModule(net)
optimizer = DPOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.05),
    noise_multiplier=0.0,
    max_grad_norm=1.0,
    expected_batch_size=32,
)
images, labels = numbers("images", 32, 1, 28, 28), integers("labels", 10, 32)


def step():
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    return [loss.item()]


serve(step)
