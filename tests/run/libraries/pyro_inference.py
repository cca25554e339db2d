"""pyro-ppl: a Bayesian regression with a hierarchy, by variational inference with point estimates (no number is
drawn), and the density of its trace."""

import pyro
import pyro.distributions as dist
import torch
from driver import integers, numbers, serve
from pyro import poutine
from pyro.infer import SVI, Trace_ELBO
from pyro.infer.autoguide import AutoDelta, init_to_value
from pyro.optim import Adam

GROUPS = 8
inputs, groups = numbers("inputs", 400, 3), integers("groups", GROUPS, 400)
targets = inputs @ torch.tensor([1.0, -2.0, 0.5]) + numbers("noise", 400) * 0.3


def model(inputs, groups, targets):
    spread = pyro.sample("spread", dist.LogNormal(0.0, 1.0))
    with pyro.plate("groups", GROUPS):
        offset = pyro.sample("offset", dist.Normal(0.0, spread))
    weight = pyro.sample("weight", dist.Normal(torch.zeros(3), 1.0).to_event(1))
    scale = pyro.sample("scale", dist.HalfCauchy(1.0))
    with pyro.plate("data", len(inputs)):
        pyro.sample("target", dist.Normal(inputs @ weight + offset[groups], scale), obs=targets)


pyro.clear_param_store()
begin = {
    "spread": torch.tensor(1.0),
    "offset": torch.zeros(GROUPS),
    "weight": torch.zeros(3),
    "scale": torch.tensor(1.0),
}
guide = AutoDelta(model, init_loc_fn=init_to_value(values=begin))
svi = SVI(model, guide, Adam({"lr": 0.02}), Trace_ELBO())


def step():
    loss = svi.step(inputs, groups, targets)
    with torch.no_grad():
        trace = poutine.trace(poutine.condition(model, guide(inputs, groups, targets))).get_trace(
            inputs, groups, targets
        )
        return [loss, trace.log_prob_sum(), pyro.param("AutoDelta.weight")]


serve(step)
