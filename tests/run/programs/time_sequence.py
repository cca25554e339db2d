"""LSTM cells learn to continue sine waves in double precision with L-BFGS, in the manner of pytorch/examples."""

import math

import torch
import torch.nn as nn
import torch.optim as optim
from reproducible import same_weights


class Sequence(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.lstm1 = nn.LSTMCell(1, width)
        self.lstm2 = nn.LSTMCell(width, width)
        self.linear = nn.Linear(width, 1)
        self.width = width

    def forward(self, input, future=0):
        outputs = []
        h_t = torch.zeros(input.size(0), self.width, dtype=torch.double)
        c_t = torch.zeros(input.size(0), self.width, dtype=torch.double)
        h_t2 = torch.zeros(input.size(0), self.width, dtype=torch.double)
        c_t2 = torch.zeros(input.size(0), self.width, dtype=torch.double)
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        for _ in range(future):
            h_t, c_t = self.lstm1(output, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            output = self.linear(h_t2)
            outputs += [output]
        return torch.cat(outputs, dim=1)


def main():
    data = torch.tensor(
        [[math.sin((i + 3 * j) / 4) for i in range(16)] for j in range(6)], dtype=torch.float64
    )
    input, target = data[3:, :-1], data[3:, 1:]
    test_input, test_target = data[:3, :-1], data[:3, 1:]
    seq = Sequence().double()
    same_weights(seq)
    criterion = nn.MSELoss()
    optimizer = optim.LBFGS(seq.parameters(), lr=0.5, max_iter=6)
    for i in range(3):

        def closure():
            optimizer.zero_grad()
            out = seq(input)
            loss = criterion(out, target)
            loss.backward()
            return loss

        loss = optimizer.step(closure)
        with torch.no_grad():
            pred = seq(test_input, future=5)
            test_loss = criterion(pred[:, :-5], test_target)
        print(f"STEP {i}: loss {loss.item():.5f}, test loss {test_loss.item():.5f}, {pred.shape[1]} points")


if __name__ == "__main__":
    main()
