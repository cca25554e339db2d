"""An LSTM reads a sequence of brackets and tags each with its depth; the step is compiled.

python examples/tagger.py --steps 200
"""

from __future__ import annotations

from command_line import classify

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F

LENGTH = 16
DEEPEST = 4


def sequences(count: int, generator: rl.Generator) -> tuple[rl.Tensor, rl.Tensor]:
    """Random brackets (0 opens, 1 closes), and how deep each is; there is a deepest level."""
    brackets = rl.randint(0, 2, (count, LENGTH), generator=generator)
    depth, depths = rl.zeros(count, dtype=rl.int64), []
    for step in brackets.unbind(1):
        depth = (depth + 1 - 2 * step).clamp(0, DEEPEST - 1)
        depths.append(depth)
    return brackets, rl.stack(depths, 1)


class Tagger(nn.Module):
    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embed = nn.Embedding(2, 8)
        self.read = nn.LSTM(8, width, batch_first=True)
        self.tag = nn.Linear(width, DEEPEST)

    def forward(self, brackets: rl.Tensor) -> rl.Tensor:
        return self.tag(self.read(self.embed(brackets))[0])


class Training:
    """The model, its optimizer and one step."""

    def __init__(self, *, seed: int = 0, compiled: bool = True) -> None:
        rl.manual_seed(seed)
        self.model = Tagger()
        self.optimizer = rl.optim.Adam(self.model.parameters(), lr=1e-2)
        self.step = rl.compile(self.train_step, fullgraph=True) if compiled else self.train_step

    def train_step(self, brackets: rl.Tensor, depths: rl.Tensor) -> rl.Tensor:
        self.optimizer.zero_grad()
        loss = F.cross_entropy(self.model(brackets).flatten(0, 1), depths.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()

    def accuracy(self, brackets: rl.Tensor, depths: rl.Tensor) -> float:
        with rl.no_grad():
            return float((self.model(brackets).argmax(2) == depths).float().mean())


def run(steps: int, *, seed: int = 0, compiled: bool = True) -> tuple[list[float], float]:
    """The loss of each step, and the share of tags right on sequences not seen."""
    generator = rl.Generator().manual_seed(seed)
    training = Training(seed=seed, compiled=compiled)
    losses = [float(training.step(*sequences(32, generator))) for _ in range(steps)]
    return losses, training.accuracy(*sequences(200, generator))


if __name__ == "__main__":
    classify(__doc__, 200, run, "tags")
