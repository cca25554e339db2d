"""A small GPT, and what it learns from, the same in every process."""

from __future__ import annotations

from typing import Any

import rushlight as rl
from rushlight import nn
from rushlight.nn import functional as F

VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS = 50, 12, 32, 4, 2


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.head_width = width // heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Any) -> Any:
        batch, length, _ = x.shape
        given = self.norm1(x)
        q, k, v = (
            part(given).view(batch, length, -1, self.head_width).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(found.transpose(1, 2).reshape(batch, length, -1))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class GPT(nn.Module):
    def __init__(self, layers: int = LAYERS, width: int = WIDTH, vocabulary: int = VOCABULARY) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(LENGTH, width)
        self.blocks = nn.ModuleList([Block(width, HEADS) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, tokens: Any) -> Any:
        x = self.tokens(tokens) + self.positions(rl.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def loss_of(model: Any, tokens: Any) -> Any:
    logits = model(tokens[:, :-1])
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), tokens[:, 1:].reshape(-1))


def batch(step: int, rows: int = 8) -> Any:
    return rl.randint(0, VOCABULARY, (rows, LENGTH + 1), generator=rl.Generator().manual_seed(100 + step))


def optimizer_of(model: Any) -> Any:
    # a large eps: gradients that are zero but for rounding must not become steps of full size
    return rl.optim.AdamW(model.parameters(), lr=1e-2, eps=1e-3)


def step_of(model: Any, optimizer: Any, clip: float | None = None) -> Any:
    """A function of a batch: one step of training; the loss."""

    def step(tokens: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_of(model, tokens)
        loss.backward()
        if clip is not None:
            nn.utils.clip_grad_norm_(model.parameters(), clip)
        optimizer.step()
        return loss.detach()

    return step
