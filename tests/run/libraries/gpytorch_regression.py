"""gpytorch: hyperparameters of an exact Gaussian process, and what it predicts."""

import gpytorch
import torch
from driver import numbers, serve, training

inputs = torch.linspace(0, 1, 100)
targets = torch.sin(inputs * 6.0) + numbers("noise", 100) * 0.1


class Model(gpytorch.models.ExactGP):
    def __init__(self, likelihood):
        super().__init__(inputs, targets, likelihood)
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


likelihood = gpytorch.likelihoods.GaussianLikelihood()
model = Model(likelihood)
mll = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)
train = training(
    model, lambda: -mll(model(inputs), targets), optimizer=torch.optim.Adam(model.parameters(), lr=0.1)
)
points = torch.linspace(0, 1, 51)


def step():
    model.train()
    likelihood.train()
    loss = train()
    model.eval()
    likelihood.eval()
    with torch.no_grad():
        found = likelihood(model(points))
        return [loss, found.mean, found.variance]


serve(step)
