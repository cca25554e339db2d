"""Per-sample gradients, an ensemble, a Jacobian and a Hessian with torch.func, and the same by autograd."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from reproducible import same_data, same_weights
from torch.func import functional_call, grad, hessian, jacrev, stack_module_state, vmap


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3)
        self.fc = nn.Linear(4 * 4, 3)

    def forward(self, x):
        x = F.max_pool2d(torch.tanh(self.conv(x)), 2)
        return self.fc(x.flatten(1))


def main():
    model = same_weights(Net())
    data, targets = same_data(1, 8, 1, 6, 6), torch.tensor([0, 1, 2, 0, 1, 2, 0, 1])
    params = {k: v.detach() for k, v in model.named_parameters()}
    buffers = {k: v.detach() for k, v in model.named_buffers()}

    def compute_loss(params, buffers, sample, target):
        out = functional_call(model, (params, buffers), (sample.unsqueeze(0),))
        return F.cross_entropy(out, target.unsqueeze(0))

    per_sample = vmap(grad(compute_loss), in_dims=(None, None, 0, 0))(params, buffers, data, targets)
    for _ in range(8):  # one by one
        for i in range(len(data)):
            loss = F.cross_entropy(model(data[i : i + 1]), targets[i : i + 1])
            found = torch.autograd.grad(loss, model.parameters())
            for one, (name, all_of_them) in zip(found, per_sample.items()):
                assert torch.allclose(one, all_of_them[i], atol=1e-5), name
    norms = torch.stack([g.flatten(1).norm(dim=1) for g in per_sample.values()]).norm(dim=0)
    print("norms", " ".join(f"{n:.4f}" for n in norms.tolist()))

    models = [copy.deepcopy(model) for _ in range(3)]
    for i, m in enumerate(models):
        with torch.no_grad():
            for p in m.parameters():
                p.mul_(1 + 0.1 * i)
    base = copy.deepcopy(models[0]).to("meta")
    stacked, stacked_buffers = stack_module_state(models)
    ensemble = vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), in_dims=(0, 0, None))
    together = ensemble(stacked, stacked_buffers, data)
    apart = torch.stack([m(data) for m in models])
    print("ensemble", tuple(together.shape), torch.allclose(together, apart, atol=1e-5))

    weight = same_data(2, 3, 4)
    x = same_data(3, 4)
    jacobian = jacrev(lambda v: torch.tanh(weight @ v))(x)
    curvature = hessian(lambda v: torch.tanh(weight @ v).sum())(x)
    print(f"jacobian {jacobian.sum().item():.4f} hessian {curvature.sum().item():.4f}")


if __name__ == "__main__":
    main()
