"""safetensors.torch: the weights of a model in a file and back."""

import os
import tempfile

import torch
from driver import numbers, same_weights, serve
from safetensors import safe_open
from safetensors.torch import load, load_file, load_model, save, save_file, save_model
from torch import nn

model = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
other = nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 256))
same_weights(model)
half = {"half": numbers("half", 64, 64).bfloat16(), "integers": torch.arange(10), "flag": torch.tensor(True)}


def step():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "model.safetensors")
        save_model(model, path)
        load_model(other, path)
        save_file(half, path, metadata={"format": "pt"})
        found = load_file(path)
        with safe_open(path, framework="pt") as file:
            part = file.get_slice("half")[2:4]
    back = load(save(half))
    return [other[0].weight, found["half"], found["integers"], part, back["flag"].long()]


serve(step)
