"""lightning: Fabric around a loop of training, with a loader and clipped gradients."""

import torch
from driver import declare_vision, integers, numbers, same_weights, serve
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

declare_vision()  # torchmetrics, which it needs, imports torchvision where there is one

from lightning.fabric import Fabric  # noqa: E402

fabric = Fabric(accelerator="cpu", devices=1)
fabric.launch()
model = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(16, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(),
    nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(128, 10),
)  # fmt: skip
same_weights(model)
data = TensorDataset(numbers("images", 128, 1, 28, 28), integers("labels", 10, 128))
model, optimizer = fabric.setup(model, torch.optim.AdamW(model.parameters(), lr=1e-3))
loader = fabric.setup_dataloaders(DataLoader(data, batch_size=32))


def step():
    found = []
    for images, labels in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        fabric.backward(loss)
        fabric.clip_gradients(model, optimizer, max_norm=1.0)
        optimizer.step()
        found.append(loss.item())
    return found


serve(step)
