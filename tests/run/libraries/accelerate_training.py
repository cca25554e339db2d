"""accelerate: a loop of training that it has prepared, with accumulated gradients."""

import torch
from accelerate import Accelerator
from driver import integers, same_weights, serve
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
layer = nn.TransformerEncoderLayer(64, 4, 128, dropout=0.0, batch_first=True)
model = nn.Sequential(nn.Embedding(100, 64), nn.TransformerEncoder(layer, 2), nn.Linear(64, 100))
same_weights(model)
data = TensorDataset(integers("text", 100, 64, 32), integers("next", 100, 64, 32))
model, optimizer, loader = accelerator.prepare(
    model, torch.optim.AdamW(model.parameters(), lr=1e-3), DataLoader(data, batch_size=16)
)


def step():
    found = []
    for text, following in loader:
        with accelerator.accumulate(model):
            loss = F.cross_entropy(model(text).transpose(1, 2), following)
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        found.append(loss.item())
    return found


serve(step)
