"""Programs that `symbolic_trace` records, written once for either library: `PROGRAMS[name](library)` gives what
is traced, its inputs and its concrete arguments."""

from __future__ import annotations

import math
import operator
from typing import Any, NamedTuple


class Program(NamedTuple):
    root: Any
    inputs: tuple[Any, ...]
    concrete: dict[str, Any] | None = None


PROGRAMS: dict[str, Any] = {}


def program(make: Any) -> Any:
    PROGRAMS[make.__name__] = make
    return make


def fill(lib: Any, module: Any) -> Any:
    """`module` with parameters that are equal in both libraries."""
    with lib.no_grad():
        for i, p in enumerate(module.parameters()):
            p.copy_(lib.linspace(-1, 1 + 0.1 * i, p.numel()).reshape(p.shape))
    return module


@program
def arithmetic(lib: Any) -> Program:
    def function(x, y):
        z = (x + 1) * y - 2 / x
        z = z**2 // 3 % 5
        return -z @ y.t(), 3 - z, abs(z), z > y, z[0], z[:, None, ..., 1:2]

    return Program(function, (lib.arange(1.0, 7.0).reshape(2, 3), lib.ones(2, 3)))


@program
def bits_and_shifts(lib: Any) -> Program:
    def function(x, y):
        return (x & y) | (x ^ y), x << 1, x >> 1, ~x, 7 & x, x == y, x != y, x <= y, x >= y, x < y

    return Program(function, (lib.arange(4), lib.arange(4).flip(0)))


@program
def operands_in_any_form(lib: Any) -> Program:
    def function(x, y):
        i = lib.functional.unravel_index(x.long(), (2, 3))
        return (
            lib.einsum("i,j->ij", (x, y)),
            lib.einsum("i,j->ij", [x, y]),
            lib.functional.einsum("i,i->", ((x, y),)),
            lib.einsum("i->", [x]),
            lib.einsum(x, [0], y, [1], [1, 0]),
            lib.atleast_2d(x, y),
            lib.broadcast_tensors(x, y),
            lib.cartesian_prod(x, y),
            lib.block_diag(x, y),
            lib.meshgrid(x, y, indexing="ij"),
            i,
        )

    return Program(function, (lib.arange(3.0), lib.ones(3)))


@program
def methods_and_attributes(lib: Any) -> Program:
    def function(x):
        n = x.shape[0]
        y = x.view(n, -1).transpose(0, 1).contiguous()
        return y.size(0), y.to(x.dtype).sum(dim=-1, keepdim=True), x.dim(), y.shape, x.T

    return Program(function, (lib.arange(24.0).reshape(2, 3, 4),))


@program
def functions(lib: Any) -> Program:
    F = lib.nn.functional

    def function(x, w, b):
        y = F.relu(F.linear(x, w, b))
        y = F.dropout(F.gelu(y), 0.5, training=False)
        y = F.softmax(y, dim=-1) + F.log_softmax(y, -1).exp()
        z = lib.cat([x, y], dim=1)
        z = lib.flatten(z.unsqueeze(0), 1)
        return (
            F.layer_norm(z, (z.shape[-1],)),
            lib.sigmoid(y),
            F.sigmoid(y),
            F.silu(y, inplace=True),
            F.tanh(z),
        )

    weights = lib.linspace(-1, 1, 9).reshape(3, 3)
    return Program(function, (lib.arange(6.0).reshape(2, 3), weights, lib.ones(3)))


@program
def more_functions(lib: Any) -> Program:
    F = lib.nn.functional

    def function(x, w):
        y = F.conv2d(x, w, None, padding=1)
        y = F.max_pool2d(y, 2)
        y = F.interpolate(F.adaptive_avg_pool2d(y, (2, 2)), scale_factor=2)
        y = F.pad(y, (1, 1)) + F.avg_pool2d(y, 1).mean()
        q = lib.einsum("bchw,bkhw->bck", y, y)
        return (
            F.normalize(q),
            lib.split(q, 1, dim=1),
            F.scaled_dot_product_attention(q, q, q),
            F.group_norm(y, 2),
        )

    return Program(function, (lib.arange(32.0).reshape(1, 2, 4, 4) / 32, lib.ones(2, 2, 3, 3) / 9))


@program
def losses(lib: Any) -> Program:
    F = lib.nn.functional

    def function(x, y):
        return (
            F.mse_loss(x, y),
            F.cross_entropy(x, y.softmax(1)),
            F.smooth_l1_loss(x, y, beta=0.5),
            F.l1_loss(x, y),
        )

    return Program(function, (lib.arange(6.0).reshape(2, 3), lib.ones(2, 3)))


@program
def libraries_of_functions(lib: Any) -> Program:
    def function(x):
        return lib.special.erf(x), lib.linalg.norm(x), lib.fft.fft(x), lib.norm(x), lib.special.expit(x)

    return Program(function, (lib.arange(4.0),))


@program
def a_module(lib: Any) -> Program:
    class Net(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = lib.nn.Sequential(lib.nn.Linear(3, 4), lib.nn.ReLU(), lib.nn.Linear(4, 2))
            self.scale = lib.nn.Parameter(lib.ones(2))
            self.register_buffer("shift", lib.arange(2.0))
            self.norm = lib.nn.LayerNorm(2)

        def forward(self, x, bias=None, *, gain: float = 2.0):
            y = self.norm(self.layers(x)) * self.scale * self.scale + self.shift
            return {"y": y * gain, "list": [y, (x,)], "n": 3}

    return Program(fill(lib, Net()), (lib.arange(6.0).reshape(2, 3),))


@program
def modules_in_modules(lib: Any) -> Program:
    class Block(lib.nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.linear = lib.nn.Linear(width, width)
            self.drop = lib.nn.Dropout(0.1)

        def forward(self, x):
            return x + self.drop(self.linear(x).tanh())

    class Net(lib.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = lib.nn.ModuleList([Block(3) for _ in range(3)])

        def forward(self, x):
            for i, block in enumerate(self.blocks):
                x = block(x) * i
            return x

    return Program(fill(lib, Net()).eval(), (lib.arange(6.0).reshape(2, 3),))


@program
def constants(lib: Any) -> Program:
    table = lib.arange(3.0)

    def function(x):
        y = x + table
        y = y.to(lib.float64).clamp(min=0.5, max=math.inf)
        return y * lib.ones(3), table * x, x.to(device=lib.device("cpu")), lib.zeros(3, dtype=lib.int64) + x

    return Program(function, (lib.arange(3.0),))


@program
def writes(lib: Any) -> Program:
    def function(x):
        y = x.clone()
        y += 1
        y.mul_(2)
        y[0] = 5
        return operator.iadd(y, 1)

    return Program(lambda x: function(x.clone()) if False else x.clone().mul_(2).add_(1), (lib.arange(3.0),))


@program
def defaults_and_annotations(lib: Any) -> Program:
    def function(x: lib.Tensor, scale: float = 2.0, flag: bool = True) -> lib.Tensor:
        return x * scale

    return Program(function, (lib.arange(3.0),))


@program
def variadic(lib: Any) -> Program:
    def function(x, *rest, **named):
        return x + 1

    return Program(function, (lib.arange(3.0),))


@program
def specialized(lib: Any) -> Program:
    def function(x, n, flag):
        if flag:
            x = x * 2
        for _ in range(n):
            x = x + 1
        return x

    return Program(function, (lib.arange(3.0), 2, True), {"n": 2, "flag": True})


@program
def builtin_math(lib: Any) -> Program:
    def function(x):
        return x / math.sqrt(3), getattr(x, "shape"), round(3.7) * x

    return Program(function, (lib.arange(3.0),))


@program
def named_results(lib: Any) -> Program:
    def function(x):
        values, indices = lib.max(x, 1).values, lib.sort(x)[1]
        return values, indices, lib.topk(x, 2)[0], x.chunk(2, -1)[0], lib.where(x > 1, x, -x)

    return Program(function, (lib.arange(6.0).reshape(2, 3),))


@program
def names_of_python(lib: Any) -> Program:
    def function(input, max, torch, self_1):
        return input + max * torch - self_1

    return Program(function, tuple(lib.ones(2) * i for i in range(4)))


@program
def dead_code(lib: Any) -> Program:
    def function(x):
        x.sin()
        y = x.cos()
        lib._assert(True, "fine")
        return y

    return Program(function, (lib.ones(2),))
