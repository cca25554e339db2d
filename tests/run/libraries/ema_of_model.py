"""ema-pytorch: an average of a model's weights, kept up to date while it is trained."""

import torch
from driver import integers, numbers, same_weights, serve, training
from ema_pytorch import EMA
from torch import nn
from torch.nn import functional as F

model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
same_weights(model)
average = EMA(model, beta=0.99, update_after_step=2, update_every=1)
images, labels = numbers("images", 64, 784), integers("labels", 10, 64)
train = training(model, lambda: F.cross_entropy(model(images), labels))


def step():
    loss = train()
    average.update()
    with torch.no_grad():
        return [loss, average(images).square().mean().item()]


serve(step)
