"""A convolutional network learns to tell drawn shapes apart; images are generated, the step is compiled.

python examples/convnet.py --steps 200
"""

from __future__ import annotations

from command_line import classify

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F

SIDE = 16
SHAPES = ("disc", "square", "cross")


def images(count: int, generator: rl.Generator) -> tuple[rl.Tensor, rl.Tensor]:
    """Noisy images of shapes at random places, and which shape each shows."""
    labels = rl.randint(0, len(SHAPES), (count,), generator=generator)
    line = rl.linspace(-1, 1, SIDE)
    place = 0.6 * (rl.rand(count, 2, 1, 1, generator=generator) - 0.5)
    y, x = line.reshape(1, SIDE, 1) - place[:, 0], line.reshape(1, 1, SIDE) - place[:, 1]
    size = 0.4 + 0.25 * rl.rand(count, 1, 1, generator=generator)
    disc = (x.square() + y.square()).sqrt() < size
    square = (x.abs() < size) & (y.abs() < size)
    cross = ((x.abs() < 0.12) & (y.abs() < size)) | ((y.abs() < 0.12) & (x.abs() < size))
    which = labels.reshape(count, 1, 1)
    drawn = rl.where(which == 0, disc, rl.where(which == 1, square, cross)).float()
    noise = 0.1 * rl.randn(count, SIDE, SIDE, generator=generator)
    return (drawn + noise).unsqueeze(1), labels


class ConvNet(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width), nn.ReLU(), nn.MaxPool2d(2),
        )  # fmt: skip
        self.classify = nn.Sequential(nn.Flatten(), nn.Dropout(0.2), nn.Linear(2 * width * 16, len(SHAPES)))

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return self.classify(self.features(x))


class Training:
    """The model, its optimizer with a schedule, and one step."""

    def __init__(self, *, seed: int = 0, compiled: bool = True) -> None:
        rl.manual_seed(seed)
        self.model = ConvNet()
        self.optimizer = rl.optim.AdamW(self.model.parameters(), lr=4e-3)
        self.schedule = rl.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, 300)
        self.step = rl.compile(self.train_step, fullgraph=True) if compiled else self.train_step

    def train_step(self, x: rl.Tensor, labels: rl.Tensor) -> rl.Tensor:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(x), labels, label_smoothing=0.05)
        loss.backward()
        self.optimizer.step()
        return loss.detach()

    def accuracy(self, x: rl.Tensor, labels: rl.Tensor) -> float:
        self.model.eval()
        with rl.no_grad():
            return float((self.model(x).argmax(1) == labels).float().mean())


def run(steps: int, *, seed: int = 0, compiled: bool = True) -> tuple[list[float], float]:
    """The loss of each step, and the accuracy on images not seen."""
    generator = rl.Generator().manual_seed(seed)
    training = Training(seed=seed, compiled=compiled)
    losses = []
    for _ in range(steps):
        losses.append(float(training.step(*images(32, generator))))
        training.schedule.step()
    return losses, training.accuracy(*images(500, generator))


if __name__ == "__main__":
    classify(__doc__, 200, run, "images")
