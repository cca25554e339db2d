"""A variational autoencoder on drawn images, in the manner of pytorch/examples."""

import torch
from reproducible import same_data, same_weights
from torch import nn, optim
from torch.nn import functional as F

WIDTH = 64


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(WIDTH, 32)
        self.fc21 = nn.Linear(32, 6)
        self.fc22 = nn.Linear(32, 6)
        self.fc3 = nn.Linear(6, 32)
        self.fc4 = nn.Linear(32, WIDTH)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar, eps):
        std = torch.exp(0.5 * logvar)
        return mu + eps * std

    def decode(self, z):
        return torch.sigmoid(self.fc4(F.relu(self.fc3(z))))

    def forward(self, x, eps):
        mu, logvar = self.encode(x.view(-1, WIDTH))
        return self.decode(self.reparameterize(mu, logvar, eps)), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    bce = F.binary_cross_entropy(recon_x, x.view(-1, WIDTH), reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce + kld


def main():
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = same_weights(VAE()).to(device)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    images = torch.sigmoid(same_data(5, 96, 8, 8))
    noise = [same_data(10 + i, 16, 6) for i in range(6)]
    for epoch in range(1, 4):
        model.train()
        train_loss = 0
        for i, batch in enumerate(images.split(16)):
            optimizer.zero_grad()
            recon, mu, logvar = model(batch.to(device), noise[i])
            loss = loss_function(recon, batch, mu, logvar)
            loss.backward()
            train_loss += loss.item()
            optimizer.step()
        print(f"====> Epoch: {epoch} Average loss: {train_loss / len(images):.4f}")
    model.eval()
    with torch.no_grad():
        sample = model.decode(noise[0]).cpu()
        print(f"sample {tuple(sample.view(16, 1, 8, 8).shape)} mean {sample.mean().item():.4f}")


if __name__ == "__main__":
    main()
