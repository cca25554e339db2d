"""A convolutional network learns digits, which are drawn here, in the manner of pytorch/examples: options,
loaders with worker processes, a learning rate that falls, a test after each epoch, weights that are kept."""

import argparse
import os
import random
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from reproducible import same_weights
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, Dataset

SIDE, CLASSES = 12, 4


class Drawn(Dataset):
    """Images of bars and crosses with noise: like digits, but made here."""

    def __init__(self, count, seed, transform=None):
        self.count, self.seed, self.transform = count, seed, transform

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        draw = random.Random(1000 * self.seed + index)
        label, at = draw.randrange(CLASSES), draw.randrange(3, SIDE - 3)
        image = torch.zeros(1, SIDE, SIDE)
        if label in (0, 2):
            image[0, at, :] = 1
        if label in (1, 2):
            image[0, :, at] = 1
        if label == 3:
            image[0].fill_diagonal_(1)
        image += 0.1 * torch.tensor([draw.gauss(0, 1) for _ in range(SIDE * SIDE)]).view(1, SIDE, SIDE)
        return (image if self.transform is None else self.transform(image)), label


def normalize(image):
    return (image - 0.13) / 0.31


class Net(nn.Module):
    def __init__(self, dropout):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, 1)
        self.conv2 = nn.Conv2d(8, 16, 3, 1)
        self.dropout1 = nn.Dropout(dropout)
        self.fc1 = nn.Linear(16 * 16, 32)
        self.fc2 = nn.Linear(32, CLASSES)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = F.max_pool2d(x, 2)
        x = self.dropout1(x)
        x = torch.flatten(x, 1)
        x = F.relu(self.fc1(x))
        return F.log_softmax(self.fc2(x), dim=1)


def train(args, model, device, loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = F.nll_loss(output, target)
        loss.backward()
        optimizer.step()
        if batch_idx % args.log_interval == 0:
            done, count = batch_idx * len(data), len(loader.dataset)
            print(f"Train Epoch: {epoch} [{done}/{count}]\tLoss: {loss.item():.4f}")


def test(model, device, loader):
    model.eval()
    test_loss, correct = 0.0, 0
    with torch.no_grad():
        for data, target in loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    count = len(loader.dataset)
    print(f"Test set: Average loss: {test_loss / count:.4f}, Accuracy: {correct}/{count}")


def main():
    parser = argparse.ArgumentParser(description="digits")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--lr", type=float, default=1.0)
    parser.add_argument("--gamma", type=float, default=0.7)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--log-interval", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(1)
    device = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
    options = {"num_workers": args.workers, "batch_size": args.batch_size}
    if torch.cuda.is_available():
        options["pin_memory"] = True
    train_loader = DataLoader(Drawn(128, 1, normalize), **options)
    test_loader = DataLoader(Drawn(40, 2, normalize), **options)
    model = same_weights(Net(args.dropout), 0.2).to(device)
    optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
    scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
    for epoch in range(1, args.epochs + 1):
        train(args, model, device, train_loader, optimizer, epoch)
        test(model, device, test_loader)
        scheduler.step()
    with tempfile.TemporaryDirectory() as directory:
        torch.save(model.state_dict(), os.path.join(directory, "mnist.pt"))


if __name__ == "__main__":
    main()
