"""e3nn: tensor products and a gate that are equivariant under rotations, trained."""

import torch
from driver import numbers, same_weights, serve, training
from e3nn import nn as enn
from e3nn import o3
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        hidden, gates = o3.Irreps("16x0e + 8x1o"), o3.Irreps("8x0e")
        self.gate = enn.Gate("16x0e", [torch.tanh], gates, [torch.sigmoid], "8x1o")
        self.first = o3.FullyConnectedTensorProduct("4x0e + 4x1o", "0e + 1o + 2e", self.gate.irreps_in)
        self.second = o3.FullyConnectedTensorProduct(hidden, "0e + 1o + 2e", "1x0e")

    def forward(self, x, directions):
        around = o3.spherical_harmonics([0, 1, 2], directions, normalize=True, normalization="component")
        return self.second(self.gate(self.first(x, around)), around)


model = Net()
same_weights(model)
features, directions, targets = (
    numbers("features", 128, 16),
    numbers("directions", 128, 3),
    numbers("targets", 128, 1),
)
serve(training(model, lambda: (model(features, directions) - targets).square().mean()))
