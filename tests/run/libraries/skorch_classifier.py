"""skorch: a classifier of scikit-learn's kind, fitted epoch by epoch."""

import numpy as np
import torch
from driver import integers, numbers, same_weights, serve
from skorch import NeuralNetClassifier
from torch import nn

images, labels = numbers("images", 256, 20).numpy(), integers("labels", 2, 256).numpy().astype(np.int64)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(20, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 2)
        )
        same_weights(self)

    def forward(self, x):
        return torch.softmax(self.layers(x), dim=-1)


net = NeuralNetClassifier(Net, max_epochs=1, lr=0.05, batch_size=64, train_split=None, verbose=0)
net.initialize()


def step():
    net.partial_fit(images, labels)
    return [net.history[-1, "train_loss"], net.predict_proba(images[:16])]


serve(step)
