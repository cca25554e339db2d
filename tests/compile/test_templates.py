"""What was recorded once is recorded again: it is the same as if it had run."""

import numpy as np
import pytest

import rushlight as rl
import rushlight.nn.functional as F
from rushlight import nn, optim
from rushlight.capture.template_tensors import Template
from rushlight.core.passes import verifying

LAYERS = 5


class Block(nn.Module):
    def __init__(self, number):
        super().__init__()
        self.norm, self.mix = nn.LayerNorm(8), nn.Linear(8, 24, bias=False)
        self.out, self.number = nn.Linear(8, 8), number

    def forward(self, x):
        q, k, v = self.mix(self.norm(x)).view(2, 4, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(2, 4, 8))
        return x * 2 if self.number == 3 else x


def model():
    rl.manual_seed(0)
    return nn.Sequential(*(Block(i) for i in range(LAYERS)))


@pytest.fixture(autouse=True)
def recorded_again():
    """Verified, everything runs every time, and is compared with what was recorded."""
    with verifying(False):
        yield


@pytest.fixture
def repeats(monkeypatch):
    """How often something was recorded again."""
    count = []
    repeat = Template.repeat
    monkeypatch.setattr(
        Template, "repeat", lambda self, *args: count.append(len(self.calls)) or repeat(self, *args)
    )
    return count


def close(a, b):
    np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=2e-5, atol=1e-6)


def trained(step, net, times=3):
    rl.manual_seed(1)
    losses = [step(rl.randn(2, 4, 8)) for _ in range(times)]
    return [*losses, *net.parameters()]


def training(net, **options):
    optimizer = optim.AdamW(net.parameters(), lr=0.01, **options)

    def step(x):
        optimizer.zero_grad()
        loss = net(x).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    return step


@pytest.mark.parametrize("verified", [False, True])
def test_training_with_equal_layers(verified, repeats):
    eager, compiled = model(), model()
    step = rl.compile(training(compiled), fullgraph=True)
    with verifying(verified):
        found = trained(step, compiled)
    for a, b in zip(found, trained(training(eager), eager), strict=True):
        close(a, b)
    assert len(step.reasons) == 1
    assert bool(repeats) is not verified


def test_gradients_of_what_is_returned(repeats):
    net = model()
    x = rl.randn(2, 4, 8, requires_grad=True)
    y = rl.compile(net, fullgraph=True)(x)
    found = rl.autograd.grad(y.sin().sum(), [x, *net.parameters()])
    expected = rl.autograd.grad(net(x).sin().sum(), [x, *net.parameters()])
    assert repeats
    for a, b in zip(found, expected, strict=True):
        close(a, b)


def test_second_derivatives_inside(repeats):
    net = model()

    def penalty(x):
        (slope,) = rl.autograd.grad(net(x).square().sum(), x, create_graph=True)
        loss = slope.square().sum()
        return rl.autograd.grad(loss, [p for p in net.parameters() if p.ndim == 2])

    x = rl.randn(2, 4, 8, requires_grad=True)
    found = rl.compile(penalty)(x)
    assert repeats
    for a, b in zip(found, penalty(x), strict=True):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-3, atol=1e-3)


def test_writes_through_repeated_views(repeats):
    def f(x):
        total = x * 1
        for _ in range(5):
            part = total.t()
            part.add_(1)
            rows = total[1:]
            rows.mul_(0.5)
            total = total + part.mean()
        return total

    x = rl.randn(3, 4)
    close(rl.compile(f, fullgraph=True)(x), f(x))
    assert repeats

    w = rl.randn(3, 4, requires_grad=True)
    (a,) = rl.autograd.grad(rl.compile(f, fullgraph=True)(w).sin().sum(), w)
    (b,) = rl.autograd.grad(f(w).sin().sum(), w)
    close(a, b)


def test_what_was_saved_and_overwritten_is_refused():
    def f(x):
        for _ in range(5):
            y = x.exp()
            y.add_(1)
            x = x + y
        return x.sum()

    def g(x):
        f(x).backward()
        return x.grad

    x = rl.randn(3, requires_grad=True)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        g(x)
    x.grad = None
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        rl.compile(g)(x)


def test_random_numbers_are_drawn_each_time():
    def f(x):
        return [F.dropout(x, 0.5) for _ in range(5)] + [rl.randn(4) for _ in range(5)]

    x = rl.ones(16)
    rl.manual_seed(3)
    found = rl.compile(f, fullgraph=True)(x)
    rl.manual_seed(3)
    for a, b in zip(found, f(x), strict=True):
        close(a, b)


def test_buffers_are_updated_each_time():
    def run(compiled):
        rl.manual_seed(0)
        norm = nn.BatchNorm1d(4)

        def f(x):
            for _ in range(5):
                x = norm(x) * 1.5 + x
            return x

        y = (rl.compile(f, fullgraph=True) if compiled else f)(rl.randn(8, 4))
        return [y, norm.running_mean, norm.running_var, norm.num_batches_tracked]

    for a, b in zip(run(True), run(False), strict=True):
        close(a, b)


def test_hooks_see_every_call():
    def f(x):
        for _ in range(5):
            x = x.tanh()
            x.register_hook(lambda grad: grad * 2)
        return x.sum()

    def g(x):
        f(x).backward()
        return x.grad

    a, b = (rl.full((3,), 0.3, requires_grad=True) for _ in range(2))
    close(rl.compile(g)(a), g(b))


def test_tensors_that_are_one_and_those_that_are_not(repeats):
    def f(x, y):
        a = [rl.cat([x * 1, y * 1]) for _ in range(4)]
        z = x * 1
        return a + [rl.cat([z, z]) + rl.linalg.vector_norm(z) for _ in range(4)]

    x, y = rl.randn(3), rl.randn(3)
    for a, b in zip(rl.compile(f, fullgraph=True)(x, y), f(x, y), strict=True):
        close(a, b)
    assert repeats


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {}),
        ("SGD", {"momentum": 0.9}),
        ("SGD", {"momentum": 0.9, "dampening": 0.1}),
        ("Adam", {"amsgrad": True, "maximize": True}),
        ("NAdam", {}),
        ("RAdam", {}),
        ("Adamax", {}),
        ("Adagrad", {}),
        ("Adadelta", {}),
        ("RMSprop", {"momentum": 0.5, "centered": True}),
        ("Rprop", {}),
        ("ASGD", {}),
        ("Adafactor", {}),
    ],
)
def test_updates_of_equal_parameters(name, options):
    def run(compiled):
        rl.manual_seed(0)
        weights = [nn.Parameter(rl.randn(3, 2)) for _ in range(4)] + [nn.Parameter(rl.randn(2))]
        shared = rl.randn(12)
        weights += [nn.Parameter(shared[:6].view(3, 2)), nn.Parameter(shared[6:].view(3, 2))]
        optimizer = getattr(optim, name)(weights, lr=0.05, **options)

        def step(x):
            optimizer.zero_grad()
            loss = sum((w * (x[0] if w.ndim == 1 else x)).square().sum() for w in weights)
            loss.backward()
            optimizer.step()
            return loss

        step = rl.compile(step) if compiled else step
        losses = [step(rl.full((3, 2), 0.5 + i)) for i in range(3)]
        states = [v for w in weights for v in optimizer.state[w].values() if isinstance(v, rl.Tensor)]
        return [*losses, *weights, *states], [w._version for w in weights]

    (found, versions), (expected, counted) = run(True), run(False)
    assert versions == counted
    for a, b in zip(found, expected, strict=True):
        close(a, b)
