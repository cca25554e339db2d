"""pytorch-optimizer: training with four of its optimizers in turn."""

from driver import integers, numbers, same_weights, serve, training
from pytorch_optimizer import AdaBelief, Lion, Lookahead, RAdam
from torch import nn
from torch.nn import functional as F

images, labels = numbers("images", 64, 784), integers("labels", 10, 64)


def make(kind):
    model = nn.Sequential(nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    same_weights(model)
    return training(model, lambda: F.cross_entropy(model(images), labels), optimizer=kind(model.parameters()))


steps = [
    make(lambda p: AdaBelief(p, lr=1e-3)),
    make(lambda p: Lion(p, lr=1e-4)),
    make(lambda p: RAdam(p, lr=1e-3)),
    make(lambda p: Lookahead(AdaBelief(p, lr=1e-3))),
]
serve(lambda: [step() for step in steps])
