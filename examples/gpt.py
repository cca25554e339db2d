"""A character-level GPT trained on the source of Python's standard library.

    python examples/gpt.py --steps 200

The whole training step (forward, backward, gradient clipping, AdamW) is one compiled function.
"""

from __future__ import annotations

import argparse
import sysconfig
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F


@dataclass(frozen=True)
class Config:
    """The size of the model and of a batch."""

    layers: int = 4
    heads: int = 4
    width: int = 128
    context: int = 128
    batch: int = 8
    dropout: float = 0.0


SIZES = {
    "tiny": Config(layers=2, heads=2, width=32, context=32, batch=4),
    "small": Config(),
    "medium": Config(layers=6, heads=6, width=192, context=192, batch=8),
}


class Block(nn.Module):
    """Attention and a two-layer perceptron, each after a normalization and added to what came in."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.heads = config.heads
        self.before_attention = nn.LayerNorm(config.width)
        self.qkv = nn.Linear(config.width, 3 * config.width)
        self.project = nn.Linear(config.width, config.width)
        self.before_mlp = nn.LayerNorm(config.width)
        self.expand = nn.Linear(config.width, 4 * config.width)
        self.contract = nn.Linear(4 * config.width, config.width)
        self.dropout = nn.Dropout(config.dropout)

    def attend(self, x: rl.Tensor) -> rl.Tensor:
        batch, length, width = x.shape
        parts = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.project(mixed.transpose(1, 2).reshape(batch, length, width))

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        x = x + self.dropout(self.attend(self.before_attention(x)))
        return x + self.dropout(self.contract(F.gelu(self.expand(self.before_mlp(x)))))


class GPT(nn.Module):
    """Characters in, scores of the next character out."""

    def __init__(self, characters: int, config: Config) -> None:
        super().__init__()
        self.config = config
        self.tokens = nn.Embedding(characters, config.width)
        self.places = nn.Embedding(config.context, config.width)
        self.blocks = nn.Sequential(*[Block(config) for _ in range(config.layers)])
        self.final = nn.LayerNorm(config.width)
        self.scores = nn.Linear(config.width, characters, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim == 2:
                deep = name.endswith(("project.weight", "contract.weight"))
                nn.init.normal_(parameter, std=0.02 / (2 * config.layers) ** 0.5 if deep else 0.02)

    def forward(self, text: rl.Tensor) -> rl.Tensor:
        places = rl.arange(text.shape[1])
        return self.scores(self.final(self.blocks(self.tokens(text) + self.places(places))))


@dataclass(frozen=True)
class Text:
    """A text as numbers, the last tenth held out."""

    alphabet: str
    train: rl.Tensor
    held_out: rl.Tensor

    def decode(self, numbers: list[int]) -> str:
        return "".join(self.alphabet[i] for i in numbers)

    def encode(self, text: str) -> rl.Tensor:
        return rl.tensor([self.alphabet.index(c) for c in text])


def standard_library(limit: int = 2_000_000) -> str:
    """Source text that every machine with Python has."""
    pieces, size = [], 0
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="ignore")
        pieces.append("".join(c for c in text if c == "\n" or " " <= c <= "~"))
        size += len(pieces[-1])
        if size >= limit:
            break
    return "\n".join(pieces)[:limit]


def load_text(limit: int = 2_000_000) -> Text:
    text = standard_library(limit)
    alphabet = "".join(sorted(set(text)))
    numbers = {c: i for i, c in enumerate(alphabet)}
    data = rl.tensor([numbers[c] for c in text])
    split = len(data) * 9 // 10
    return Text(alphabet, data[:split], data[split:])


def draw_batch(data: rl.Tensor, config: Config, generator: rl.Generator) -> tuple[rl.Tensor, rl.Tensor]:
    starts = rl.randint(0, len(data) - config.context - 1, (config.batch, 1), generator=generator)
    index = starts + rl.arange(config.context + 1)
    pieces = data[index]
    return pieces[:, :-1].contiguous(), pieces[:, 1:].contiguous()


class Trainer:
    """A model, its optimizer, and one step of training, compiled or not."""

    def __init__(
        self, text: Text, config: Config, *, seed: int = 0, compiled: bool = True, lr: float = 1e-3
    ) -> None:
        rl.manual_seed(seed)
        self.text, self.config = text, config
        self.model = GPT(len(text.alphabet), config)
        self.optimizer = rl.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=0.01)
        self.generator = rl.Generator().manual_seed(seed)
        self.step = rl.compile(self.train_step, fullgraph=True) if compiled else self.train_step

    def train_step(self, inputs: rl.Tensor, targets: rl.Tensor) -> rl.Tensor:
        self.optimizer.zero_grad()
        scores = self.model(inputs)
        loss = F.cross_entropy(scores.flatten(0, 1), targets.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()

    def run(self, steps: int) -> Iterator[float]:
        """The loss of each of so many steps."""
        for _ in range(steps):
            yield float(self.step(*draw_batch(self.text.train, self.config, self.generator)))

    def held_out_loss(self, batches: int = 8) -> float:
        generator = rl.Generator().manual_seed(1)
        losses = []
        with rl.no_grad():
            for _ in range(batches):
                inputs, targets = draw_batch(self.text.held_out, self.config, generator)
                losses.append(float(F.cross_entropy(self.model(inputs).flatten(0, 1), targets.flatten())))
        return sum(losses) / len(losses)

    def generate(self, prompt: str, length: int = 200, *, temperature: float = 0.8, seed: int = 0) -> str:
        """Text that goes on from `prompt`."""
        generator = rl.Generator().manual_seed(seed)
        numbers = self.text.encode(prompt).tolist()
        with rl.no_grad():
            for _ in range(length):
                window = rl.tensor([numbers[-self.config.context :]])
                chances = (self.model(window)[0, -1] / temperature).softmax(0)
                numbers.append(int(rl.multinomial(chances, 1, generator=generator)))
        return self.text.decode(numbers)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--eager", action="store_true", help="do not compile")
    options = parser.parse_args()
    trainer = Trainer(load_text(), SIZES[options.size], seed=options.seed, compiled=not options.eager)
    started = time.perf_counter()
    for number, loss in enumerate(trainer.run(options.steps), 1):
        if number % 20 == 0 or number == 1:
            rate = number * trainer.config.batch * trainer.config.context / (time.perf_counter() - started)
            print(f"step {number:5}  loss {loss:.3f}  {rate:,.0f} characters/s", flush=True)
    print(f"held-out loss {trainer.held_out_loss():.3f}")
    print(trainer.generate("def "))


if __name__ == "__main__":
    main()
