"""A multilayer perceptron learns to tell spirals apart; the training step is one compiled function.

python examples/mlp.py --steps 300
"""

from __future__ import annotations

import math

from command_line import classify

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F
from rushlight.utils.data import DataLoader, TensorDataset

CLASSES = 3


def spirals(count: int, generator: rl.Generator) -> tuple[rl.Tensor, rl.Tensor]:
    """Points on three arms of a spiral, and which arm each is on."""
    labels = rl.randint(0, CLASSES, (count,), generator=generator)
    radius = rl.rand(count, generator=generator)
    angle = 4 * radius + labels * (2 * math.pi / CLASSES) + 0.15 * rl.randn(count, generator=generator)
    return rl.stack([radius * angle.cos(), radius * angle.sin()], 1), labels


class Classifier(nn.Sequential):
    def __init__(self, width: int = 64) -> None:
        super().__init__(
            nn.Linear(2, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, CLASSES)
        )


class Training:
    """The model, its optimizer and one step."""

    def __init__(self, *, seed: int = 0, compiled: bool = True) -> None:
        rl.manual_seed(seed)
        self.model = Classifier()
        self.optimizer = rl.optim.AdamW(self.model.parameters(), lr=1e-2)
        self.step = rl.compile(self.train_step, fullgraph=True) if compiled else self.train_step

    def train_step(self, points: rl.Tensor, labels: rl.Tensor) -> rl.Tensor:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(points), labels)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def accuracy(self, points: rl.Tensor, labels: rl.Tensor) -> float:
        with rl.no_grad():
            return float((self.model(points).argmax(1) == labels).float().mean())


def run(steps: int, *, seed: int = 0, compiled: bool = True) -> tuple[list[float], float]:
    """The loss of each step, and the accuracy on points not seen."""
    generator = rl.Generator().manual_seed(seed)
    data = TensorDataset(*spirals(2048, generator))
    loader = DataLoader(data, batch_size=64, shuffle=True, drop_last=True, generator=generator)
    training = Training(seed=seed, compiled=compiled)
    losses: list[float] = []
    while len(losses) < steps:
        for points, labels in loader:
            losses.append(float(training.step(points, labels)))
            if len(losses) == steps:
                break
    return losses, training.accuracy(*spirals(1000, generator))


if __name__ == "__main__":
    classify(__doc__, 300, run, "points")
