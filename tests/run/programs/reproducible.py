"""What the programs use so that PyTorch and Rushlight begin alike: their generators give other numbers."""

import random

import torch


def same_weights(module, scale=0.3):
    """Give every parameter the same values in every library."""
    draw = random.Random(0)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.tensor([draw.uniform(-scale, scale) for _ in range(p.numel())]).view(p.shape))
    return module


def same_data(seed, *shape):
    draw = random.Random(seed)
    count = 1
    for size in shape:
        count *= size
    return torch.tensor([draw.gauss(0, 1) for _ in range(count)]).view(*shape)
