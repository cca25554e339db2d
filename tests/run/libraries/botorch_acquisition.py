"""botorch: a Gaussian process of the data so far, and the best next point by expected improvement."""

import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.generation import gen_candidates_scipy
from botorch.models import SingleTaskGP
from driver import numbers, serve
from gpytorch.mlls import ExactMarginalLogLikelihood

inputs = numbers("inputs", 20, 2).sigmoid().double()
targets = 1 - (inputs - 0.5).norm(dim=-1, keepdim=True)
starts = numbers("starts", 8, 1, 2).sigmoid().double()


def step():
    model = SingleTaskGP(inputs, targets)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    found, values = gen_candidates_scipy(
        starts, LogExpectedImprovement(model, best_f=targets.max()), lower_bounds=0.0, upper_bounds=1.0
    )
    with torch.no_grad():
        posterior = model.posterior(starts)
        return [posterior.mean, posterior.variance, found[values.argmax()]]


serve(step)
