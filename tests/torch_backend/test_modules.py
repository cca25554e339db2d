"""Modules and training steps: results, gradients, buffers and parameters as in eager mode."""

from __future__ import annotations

import copy

import torch
import torch.nn.functional as F
from torch import nn

from .compare import check_module, compiled


def test_mlp() -> None:
    check_module(nn.Sequential(nn.Linear(6, 16), nn.GELU(), nn.Linear(16, 3)), torch.randn(4, 6))


def test_conv_and_batch_norm() -> None:
    """The statistics of batch norm are written in place."""
    model = nn.Sequential(
        nn.Conv2d(3, 4, 3, padding=1),
        nn.BatchNorm2d(4),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(36, 2),
    )
    check_module(model, torch.randn(2, 3, 6, 6))


def test_batch_norm_without_gradients() -> None:
    """In a graph of inference the program itself writes the statistics."""
    model = nn.BatchNorm1d(4)
    other = copy.deepcopy(model)
    fast = compiled(other)
    for _ in range(2):
        x = torch.randn(5, 4)
        with torch.no_grad():
            torch.testing.assert_close(fast(x), model(x))
        for mine, theirs in zip(other.buffers(), model.buffers(), strict=True):
            torch.testing.assert_close(mine, theirs)


def test_dropout_draws_what_pytorch_draws() -> None:
    """Random operators are PyTorch's own, in their order, between native parts."""
    check_module(
        nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 8), nn.Dropout(0.3)), torch.randn(4, 6)
    )


def test_lstm_cell() -> None:
    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.LSTMCell(4, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            h = c = torch.zeros(x.shape[1], 6)
            for t in range(x.shape[0]):
                h, c = self.cell(x[t], (h, c))
            return h

    check_module(Cell(), torch.randn(3, 2, 4))


class Block(nn.Module):
    """A pre-norm transformer block with causal attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm_mlp = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        q, k, v = self.qkv(self.norm(x)).chunk(3, -1)
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(self.norm_mlp(x))


class TinyGPT(nn.Module):
    def __init__(self, words: int = 17, width: int = 16, heads: int = 2, layers: int = 1) -> None:
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(32, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.norm(x) @ self.words.weight.t()


def test_attention_block() -> None:
    check_module(Block(16, 2), torch.randn(2, 5, 16))


def test_training_a_tiny_gpt() -> None:
    """Losses and parameters, step after step, with an optimizer; then inference of another length."""
    model = TinyGPT()
    other = copy.deepcopy(model)
    fast = compiled(other, dynamic=True)
    runs = [
        (m, f, torch.optim.SGD(m.parameters(), 0.1, momentum=0.9)) for m, f in ((model, model), (other, fast))
    ]
    for step in range(3):
        losses = []
        tokens = torch.randint(0, 17, (2, 7 + step))
        for _, run, optimizer in runs:
            logits = run(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        torch.testing.assert_close(losses[1], losses[0])
    for mine, theirs in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        tokens = torch.randint(0, 17, (1, 12))
        torch.testing.assert_close(fast(tokens), model(tokens), rtol=1e-4, atol=1e-5)


def test_training_step_in_one_function() -> None:
    """Embedding and cross entropy; the optimizer runs eagerly between compiled calls."""
    model = nn.Sequential(nn.Embedding(10, 8), nn.Flatten(), nn.Linear(24, 10))
    other = copy.deepcopy(model)

    def loss_of(module: nn.Module, tokens: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(module(tokens), target)

    fast = compiled(loss_of)
    tokens, target = torch.randint(0, 10, (4, 3)), torch.randint(0, 10, (4,))
    for module, function in ((model, loss_of), (other, fast)):
        optimizer = torch.optim.SGD(module.parameters(), 0.1, momentum=0.9)
        for _ in range(3):
            optimizer.zero_grad()
            function(module, tokens, target).backward()
            optimizer.step()
    for mine, theirs in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_compiled_optimizer() -> None:
    """The step of an optimizer is a graph of writes."""
    values = []
    for compile_it in (False, True):
        torch.manual_seed(1)
        parameters = [nn.Parameter(torch.randn(5, 3)), nn.Parameter(torch.randn(4))]
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        optimizer = torch.optim.Adam(parameters, 0.01)
        step = (
            torch.compile(optimizer.step, backend="rushlight", options={"fallback": False})
            if compile_it
            else optimizer.step
        )
        for _ in range(3):
            step()
        values.append([p.detach().clone() for p in parameters])
    torch.testing.assert_close(values[1], values[0])
