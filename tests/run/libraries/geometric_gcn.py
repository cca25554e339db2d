"""torch_geometric: graph convolution and attention on one graph."""

import torch
from driver import integers, numbers, same_weights, serve, training
from torch import nn
from torch.nn import functional as F
from torch_geometric.data import Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv, global_mean_pool

NODES = 600
graph = Data(x=numbers("features", NODES, 64), edge_index=integers("edges", NODES, 2, 4000))
labels = integers("labels", 7, NODES)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = GCNConv(64, 64)
        self.second = GATConv(64, 16, heads=4)
        self.third = SAGEConv(64, 7)

    def forward(self, x, edges):
        x = F.relu(self.first(x, edges))
        x = F.elu(self.second(x, edges))
        return self.third(x, edges)


model = Net()
same_weights(model)
train = training(model, lambda: F.cross_entropy(model(graph.x, graph.edge_index), labels))
batch = torch.arange(NODES) // 100


def step():
    loss = train()
    with torch.no_grad():
        return [loss, global_mean_pool(model(graph.x, graph.edge_index), batch)]


serve(step)
