"""A critic with a gradient penalty and a generator, each with an optimizer of its own: gradients of gradients."""

import torch
from reproducible import same_data, same_weights
from torch import autograd, nn, optim


def critic():
    return nn.Sequential(nn.Linear(2, 16), nn.SiLU(), nn.Linear(16, 16), nn.SiLU(), nn.Linear(16, 1))


def generator():
    return nn.Sequential(nn.Linear(3, 16), nn.ReLU(True), nn.Linear(16, 2))


def penalty(net, real, fake, alpha):
    interpolates = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    out = net(interpolates)
    gradients = autograd.grad(
        outputs=out,
        inputs=interpolates,
        grad_outputs=torch.ones_like(out),
        create_graph=True,
        retain_graph=True,
        only_inputs=True,
    )[0]
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean() * 10


def main():
    net_d, net_g = same_weights(critic()), same_weights(generator())
    optimizer_d = optim.Adam(net_d.parameters(), lr=1e-3, betas=(0.5, 0.9))
    optimizer_g = optim.Adam(net_g.parameters(), lr=1e-3, betas=(0.5, 0.9))
    for step in range(8):
        for p in net_d.parameters():
            p.requires_grad_(True)
        for i in range(2):
            net_d.zero_grad()
            real, noise = same_data(100 * step + i, 16, 2) + 2, same_data(100 * step + 10 + i, 16, 3)
            with torch.no_grad():
                fake = net_g(noise)
            alpha = torch.sigmoid(same_data(100 * step + 20 + i, 16, 1))
            gp = penalty(net_d, real, fake, alpha)
            cost = net_d(fake).mean() - net_d(real).mean() + gp
            cost.backward()
            optimizer_d.step()
        for p in net_d.parameters():
            p.requires_grad_(False)
        net_g.zero_grad()
        loss_g = -net_d(net_g(noise)).mean()
        loss_g.backward()
        optimizer_g.step()
        print(
            f"step {step}: critic {cost.item():.4f}, penalty {gp.item():.4f}, generator {loss_g.item():.4f}"
        )


if __name__ == "__main__":
    main()
