"""A variational autoencoder learns to draw small rings and bars; noise and all, the step is one function.

python examples/vae.py --steps 300
"""

from __future__ import annotations

from command_line import options

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F

SIDE = 12
LATENT = 4


def pictures(count: int, generator: rl.Generator) -> rl.Tensor:
    """Rings and bars of random place and size, as rows of pixels between 0 and 1."""
    line = rl.linspace(-1, 1, SIDE)
    y, x = line.reshape(1, SIDE, 1), line.reshape(1, 1, SIDE)
    place = rl.rand(count, 2, 1, 1, generator=generator) - 0.5
    size = 0.3 + 0.4 * rl.rand(count, 1, 1, generator=generator)
    ring = (-(((y - place[:, 0]).square() + (x - place[:, 1]).square()).sqrt() - size).square() / 0.02).exp()
    bar = (-(x - place[:, 1]).square() / 0.02).exp() * ((y - place[:, 0]).abs() < size)
    which = rl.rand(count, 1, 1, generator=generator) < 0.5
    return rl.where(which, ring, bar).flatten(1)


class VAE(nn.Module):
    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(SIDE * SIDE, width), nn.SiLU(), nn.Linear(width, 2 * LATENT))
        self.decoder = nn.Sequential(nn.Linear(LATENT, width), nn.SiLU(), nn.Linear(width, SIDE * SIDE))

    def forward(self, x: rl.Tensor) -> tuple[rl.Tensor, rl.Tensor, rl.Tensor]:
        mean, log_variance = self.encoder(x).chunk(2, 1)
        latent = mean + (0.5 * log_variance).exp() * rl.randn_like(mean)
        return self.decoder(latent), mean, log_variance


class Training:
    """The model, its optimizer and one step."""

    def __init__(self, *, seed: int = 0, compiled: bool = True) -> None:
        rl.manual_seed(seed)
        self.model = VAE()
        self.optimizer = rl.optim.Adam(self.model.parameters(), lr=2e-3)
        self.step = rl.compile(self.train_step, fullgraph=True) if compiled else self.train_step

    def train_step(self, x: rl.Tensor) -> rl.Tensor:
        self.optimizer.zero_grad()
        drawn, mean, log_variance = self.model(x)
        pixels = F.binary_cross_entropy_with_logits(drawn, x, reduction="sum")
        spread = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
        loss = (pixels + spread) / len(x)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def run(steps: int, *, seed: int = 0, compiled: bool = True) -> tuple[list[float], Training]:
    """The loss of each step, and what was trained."""
    generator = rl.Generator().manual_seed(seed)
    training = Training(seed=seed, compiled=compiled)
    return [float(training.step(pictures(64, generator))) for _ in range(steps)], training


def as_text(picture: rl.Tensor) -> str:
    shades = " .:-=+*#%@"
    rows = picture.reshape(SIDE, SIDE).clamp(0, 0.999).tolist()
    return "\n".join("".join(2 * shades[int(10 * v)] for v in row) for row in rows)


def main() -> None:
    chosen = options(__doc__, 300)
    losses, training = run(chosen.steps, seed=chosen.seed)
    print(f"loss {losses[0]:.1f} at first, {losses[-1]:.1f} at last; a drawing of its own:")
    with rl.no_grad():
        print(as_text(training.model.decoder(rl.randn(1, LATENT)).sigmoid()))


if __name__ == "__main__":
    main()
