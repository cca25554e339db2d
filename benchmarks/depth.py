"""How the time of a compilation grows with the depth of a model: training steps of GPTs of equal layers."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

import rushlight as rl
from compiled import first_call
from timing import OURS, Row

nn: Any = importlib.import_module("rushlight.nn")
functional: Any = importlib.import_module("rushlight.nn.functional")

DEEP, DEPTHS = 32, (8, 2)  # layers
BAR = 2.5  # the time of the deep one over that of two layers
WIDTH, HEADS, CONTEXT, TEXTS, CHARACTERS = 64, 4, 64, 2, 128


class Block(nn.Module):  # type: ignore[misc]
    """Attention and a feed-forward network, each after a normalization and with a residual connection."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.project = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.expand, self.contract = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        parts = self.qkv(self.norm1(x)).view(TEXTS, CONTEXT, 3, HEADS, WIDTH // HEADS)
        q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(mixed.transpose(1, 2).reshape(TEXTS, CONTEXT, WIDTH))
        return x + self.contract(functional.gelu(self.expand(self.norm2(x))))


class GPT(nn.Module):  # type: ignore[misc]
    """Token and place embeddings, blocks, and scores of the next characters."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(CHARACTERS, WIDTH)
        self.places = nn.Parameter(rl.zeros(CONTEXT, WIDTH))
        self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
        self.norm = nn.LayerNorm(WIDTH)
        self.scores = nn.Linear(WIDTH, CHARACTERS, bias=False)

    def forward(self, text: Any) -> Any:
        x = self.blocks(self.tokens(text) + self.places)
        return self.scores(self.norm(x)).flatten(0, 1)


def training_step(layers: int) -> Callable[[], Any]:
    """A compiled training step of a new model, which has not run yet."""
    model = GPT(layers)
    optimizer = rl.optim.AdamW(model.parameters(), lr=1e-3)

    def step(text: Any, target: Any) -> Any:
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(text), target)
        loss.backward()
        optimizer.step()
        return loss

    compiled = rl.compile(step)
    text, target = rl.randint(CHARACTERS, (TEXTS, CONTEXT)), rl.randint(CHARACTERS, (TEXTS * CONTEXT,))
    return lambda: compiled(text, target)


def depth_row(name: str, quick: bool) -> Row:
    """The first call of a deep model beyond the next ones, against that of shallow ones; nothing is cached."""
    contestants: dict[str, Any] = {OURS: first_call(functools.partial(training_step, DEEP))}
    for layers in DEPTHS:
        contestants[f"{layers} layers"] = first_call(functools.partial(training_step, layers))
    return Row(name, contestants, {"2 layers": BAR}, 1 if quick else 3)
