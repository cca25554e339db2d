"""Training steps (forward, backward, AdamW) of whole models: an MLP, a GPT and a convolutional network.

A model is written once over a library's `nn` (Rushlight's or PyTorch's) and once by hand for JAX, with the
same mathematics: `losses` gives the first losses of a contestant, which agree. All weights are NumPy arrays
that every contestant starts from.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import importlib
import itertools
import math
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from timing import OURS

JAX = "jax.jit"
EAGER = "torch"
OURS_EAGER = f"{OURS}, eager"

Case = Callable[[str], Callable[[], Any]]  # by the contestant's name: a function that runs one step
Arrays = dict[str, np.ndarray]

RATE, DECAY, BETAS, EPSILON = 1e-3, 1e-2, (0.9, 0.999), 1e-8


def training_case(
    build: Callable[[Any], Any],
    jax_loss: Callable[..., Any],
    weights: Arrays,
    x: np.ndarray,
    target: np.ndarray,
) -> Case:
    """`build(lib)` gives a module whose parameters have the names of `weights`; `jax_loss(parameters, x,
    target)` is the loss of the same model."""

    def make(contestant: str) -> Callable[[], Any]:
        step = training_step(contestant, build, jax_loss, weights)
        inputs, labels = tensor(contestant, x), tensor(contestant, target)
        return lambda: step(inputs, labels)

    return make


def library(contestant: str) -> Any:
    """The module whose tensors a contestant computes with."""
    name = {OURS: "rushlight", OURS_EAGER: "rushlight", JAX: "jax.numpy"}.get(contestant, "torch")
    return importlib.import_module(name)


def tensor(contestant: str, array: np.ndarray) -> Any:
    """An array as a tensor of a contestant's library."""
    lib = library(contestant)
    return lib.asarray(array) if contestant == JAX else lib.tensor(array)


def training_step(
    contestant: str,
    build: Callable[[Any], Any],
    jax_loss: Callable[..., Any],
    weights: Arrays,
    **options: Any,
) -> Callable[[Any, Any], Any]:
    """The step of a new model, a function of inputs and labels; `options` are those of `compile`."""
    if contestant == JAX:
        return _jax_training(jax_loss, weights)
    lib = library(contestant)
    nn, optim = (importlib.import_module(f"{lib.__name__}.{part}") for part in ("nn", "optim"))
    model = build(lib)
    with lib.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(lib.tensor(weights[name]))
    optimizer = optim.AdamW(model.parameters(), lr=RATE, weight_decay=DECAY, betas=BETAS, eps=EPSILON)
    loss_function = nn.CrossEntropyLoss()

    def step(x: Any, target: Any) -> Any:
        optimizer.zero_grad()
        loss = loss_function(model(x), target)
        loss.backward()
        optimizer.step()
        return loss

    compiled: Callable[[Any, Any], Any] = (
        step if contestant in (EAGER, OURS_EAGER) else lib.compile(step, **options)
    )
    return compiled


def _jax_training(loss_of: Callable[..., Any], weights: Arrays) -> Callable[[Any, Any], Any]:
    import jax
    from jax import numpy as jnp

    def step(state: Any, x: Any, target: Any) -> Any:
        parameters, first, second, count = state
        loss, gradients = jax.value_and_grad(loss_of)(parameters, x, target)
        count = count + 1
        tree = jax.tree_util.tree_map
        first = tree(lambda m, g: BETAS[0] * m + (1 - BETAS[0]) * g, first, gradients)
        second = tree(lambda v, g: BETAS[1] * v + (1 - BETAS[1]) * g * g, second, gradients)
        parameters = tree(
            lambda p, m, v: (
                p * (1 - RATE * DECAY)
                - RATE * (m / (1 - BETAS[0] ** count)) / (jnp.sqrt(v / (1 - BETAS[1] ** count)) + EPSILON)
            ),
            parameters,
            first,
            second,
        )
        return (parameters, first, second, count), loss

    jitted = jax.jit(step, donate_argnums=0)
    parameters = {name: jnp.asarray(array) for name, array in weights.items()}
    zeros, more = ({name: jnp.zeros_like(p) for name, p in parameters.items()} for _ in range(2))
    state: Any = (parameters, zeros, more, jnp.float32(0))

    def run(x: Any, target: Any) -> Any:
        nonlocal state
        state, loss = jitted(state, x, target)
        return jax.block_until_ready(loss)

    return run


def _jax_cross_entropy(scores: Any, target: Any) -> Any:
    import jax

    chances = jax.nn.log_softmax(scores)
    return -jax.numpy.take_along_axis(chances, target[:, None], 1).mean()


def _random(shapes: Mapping[str, tuple[int, ...]]) -> Arrays:
    """Weights by name: small numbers, and for one dimension zeros, or ones where the name says a scale."""
    generator = np.random.default_rng(0)
    found = {}
    for name, shape in shapes.items():
        if len(shape) == 1:
            found[name] = np.full(shape, float("norm" in name and name.endswith("weight")), np.float32)
        else:
            scale = 1 / math.sqrt(math.prod(shape[1:]))
            found[name] = (scale * generator.standard_normal(shape)).astype(np.float32)
    return found


def losses(case: Case, contestant: str, steps: int = 3) -> list[float]:
    """The losses of the first steps."""
    run = case(contestant)
    return [float(run()) for _ in range(steps)]


# --- an MLP ----------------------------------------------------------------------------------------

SIZES = (784, 256, 128, 10)
BATCH = 64


def mlp_arrays() -> tuple[Arrays, np.ndarray, np.ndarray]:
    """Weights, inputs and labels."""
    shapes: dict[str, tuple[int, ...]] = {}
    for k, (n, m) in enumerate(zip(SIZES[1:], SIZES[:-1], strict=True)):
        shapes |= {f"{2 * k}.weight": (n, m), f"{2 * k}.bias": (n,)}
    x = np.random.default_rng(1).standard_normal((BATCH, SIZES[0])).astype(np.float32)
    return _random(shapes), x, np.arange(BATCH) % SIZES[-1]


def mlp_case() -> Case:
    """784-256-128-10 at batch 64."""

    def build(lib: Any) -> Any:
        nn = importlib.import_module(f"{lib.__name__}.nn")
        layers: list[Any] = []
        for n, m in itertools.pairwise(SIZES):
            layers += [nn.Linear(n, m), nn.ReLU()]
        return nn.Sequential(*layers[:-1])

    def loss_of(parameters: Any, x: Any, target: Any) -> Any:
        import jax

        for k in range(len(SIZES) - 1):
            x = x @ parameters[f"{2 * k}.weight"].T + parameters[f"{2 * k}.bias"]
            x = jax.nn.relu(x) if k < len(SIZES) - 2 else x
        return _jax_cross_entropy(x, target)

    return training_case(build, loss_of, *mlp_arrays())


# --- a GPT -----------------------------------------------------------------------------------------

LAYERS, HEADS, WIDTH, CONTEXT, TEXTS, CHARACTERS = 4, 4, 128, 128, 8, 128


def gpt_case() -> Case:
    """4 layers of width 128 with 4 heads, 8 texts of 128 tokens."""
    build, jax_loss, weights = gpt(LAYERS, CONTEXT)
    return training_case(build, jax_loss, weights, *texts(CONTEXT))


def texts(length: int, count: int = TEXTS) -> tuple[np.ndarray, np.ndarray]:
    """Texts of so many tokens, and the next one of each place."""
    generator = np.random.default_rng(1)
    text, target = (generator.integers(0, CHARACTERS, (count, length)) for _ in range(2))
    return text, target.reshape(-1)


def gpt(
    layers: int, longest: int, width: int = WIDTH
) -> tuple[Callable[[Any], Any], Callable[..., Any], Arrays]:
    """A GPT for texts of at most `longest` tokens, for `training_step`: how it is built, its loss in JAX, its
    weights."""
    shapes: dict[str, tuple[int, ...]] = {"tokens.weight": (CHARACTERS, width), "places": (longest, width)}
    for layer in range(layers):
        linear = {
            "qkv": (3 * width, width),
            "project": (width, width),
            "expand": (4 * width, width),
            "contract": (width, 4 * width),
        }
        for name, shape in linear.items():
            shapes |= {f"blocks.{layer}.{name}.weight": shape, f"blocks.{layer}.{name}.bias": shape[:1]}
        for name in ("norm1", "norm2"):
            shapes |= {f"blocks.{layer}.{name}.{part}": (width,) for part in ("weight", "bias")}
    shapes |= {"norm.weight": (width,), "norm.bias": (width,), "scores.weight": (CHARACTERS, width)}
    build = functools.partial(_gpt, layers, longest, width)
    return build, functools.partial(_jax_gpt_loss, layers), _random(shapes)


def gpt_multiplications() -> int:
    """How many multiplications the matrix products of a training step need: a weight takes part in three
    products for each token, a pair of tokens of a text, of which half count, in six."""
    weights = LAYERS * 12 * WIDTH * WIDTH + CHARACTERS * WIDTH
    return 3 * weights * TEXTS * CONTEXT + 6 * LAYERS * TEXTS * WIDTH * CONTEXT * CONTEXT // 2


def _gpt(layers: int, longest: int, width: int, lib: Any) -> Any:
    nn: Any = importlib.import_module(f"{lib.__name__}.nn")
    functional = importlib.import_module(f"{lib.__name__}.nn.functional")

    class Block(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.expand, self.contract = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            parts = self.qkv(self.norm1(x)).view(batch, length, 3, HEADS, width // HEADS)
            q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.project(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.contract(functional.gelu(self.expand(self.norm2(x))))

    class GPT(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(CHARACTERS, width)
            self.places = nn.Parameter(lib.zeros(longest, width))
            self.blocks = nn.Sequential(*[Block() for _ in range(layers)])
            self.norm = nn.LayerNorm(width)
            self.scores = nn.Linear(width, CHARACTERS, bias=False)

        def forward(self, text: Any) -> Any:
            x = self.blocks(self.tokens(text) + self.places[: text.shape[1]])
            return self.scores(self.norm(x)).flatten(0, 1)

    return GPT()


def _jax_gpt_loss(layers: int, parameters: Any, text: Any, target: Any) -> Any:
    import jax
    from jax import numpy as jnp

    def linear(x: Any, name: str) -> Any:
        return x @ parameters[f"{name}.weight"].T + parameters[f"{name}.bias"]

    def norm(x: Any, name: str) -> Any:
        centred = x - x.mean(-1, keepdims=True)
        scale = jax.lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
        return centred * scale * parameters[f"{name}.weight"] + parameters[f"{name}.bias"]

    batch, length = text.shape
    width = parameters["places"].shape[1]
    x = parameters["tokens.weight"][text] + parameters["places"][:length]
    mask = jnp.tril(jnp.ones((length, length), bool))
    for layer in range(layers):
        name = f"blocks.{layer}"
        parts = linear(norm(x, f"{name}.norm1"), f"{name}.qkv")
        parts = parts.reshape(batch, length, 3, HEADS, width // HEADS)
        q, k, v = jnp.transpose(parts, (2, 0, 3, 1, 4))
        scores = q @ jnp.swapaxes(k, -1, -2) / math.sqrt(width // HEADS)
        mixed = jax.nn.softmax(jnp.where(mask, scores, -jnp.inf)) @ v
        mixed = jnp.swapaxes(mixed, 1, 2).reshape(batch, length, width)
        x = x + linear(mixed, f"{name}.project")
        inner = jax.nn.gelu(linear(norm(x, f"{name}.norm2"), f"{name}.expand"), approximate=False)
        x = x + linear(inner, f"{name}.contract")
    scores = norm(x, "norm") @ parameters["scores.weight"].T
    return _jax_cross_entropy(scores.reshape(-1, CHARACTERS), target)


# --- a convolutional network -----------------------------------------------------------------------

CHANNELS = (3, 32, 64, 128)
IMAGES, SIDE, CLASSES = 32, 32, 10


BLOCKS = len(CHANNELS) - 1
FEATURES = CHANNELS[-1] * (SIDE >> BLOCKS) ** 2
LAST = 4 * BLOCKS + 1  # the number of the linear layer


def conv_arrays() -> tuple[Arrays, np.ndarray, np.ndarray]:
    """Weights, images and labels."""
    shapes: dict[str, tuple[int, ...]] = {}
    for k, (n, m) in enumerate(itertools.pairwise(CHANNELS)):
        shapes |= {f"{4 * k}.weight": (m, n, 3, 3), f"{4 * k}.bias": (m,)}
        shapes |= {f"{4 * k + 1}.weight": (m,), f"{4 * k + 1}.bias": (m,)}
    shapes |= {f"{LAST}.weight": (CLASSES, FEATURES), f"{LAST}.bias": (CLASSES,)}
    weights = _random(shapes)
    for k in range(BLOCKS):
        weights[f"{4 * k + 1}.weight"][:] = 1  # the scale of a normalization
    x = np.random.default_rng(1).standard_normal((IMAGES, 3, SIDE, SIDE)).astype(np.float32)
    return weights, x, np.arange(IMAGES) % CLASSES


def conv_case() -> Case:
    """Three blocks (convolution, batch norm, ReLU, pooling) and a linear layer, on 32 images of 3x32x32."""

    def build(lib: Any) -> Any:
        nn = importlib.import_module(f"{lib.__name__}.nn")
        layers: list[Any] = []
        for n, m in itertools.pairwise(CHANNELS):
            layers += [nn.Conv2d(n, m, 3, padding=1), nn.BatchNorm2d(m), nn.ReLU(), nn.MaxPool2d(2)]
        return nn.Sequential(*layers, nn.Flatten(), nn.Linear(FEATURES, CLASSES))

    def loss_of(parameters: Any, x: Any, target: Any) -> Any:
        import jax
        from jax import numpy as jnp

        for k in range(BLOCKS):
            weight, bias = parameters[f"{4 * k}.weight"], parameters[f"{4 * k}.bias"]
            x = jax.lax.conv_general_dilated(x, weight, (1, 1), "SAME") + bias[:, None, None]
            centred = x - x.mean((0, 2, 3), keepdims=True)
            scale = jax.lax.rsqrt((centred * centred).mean((0, 2, 3), keepdims=True) + 1e-5)
            weight, bias = parameters[f"{4 * k + 1}.weight"], parameters[f"{4 * k + 1}.bias"]
            x = jax.nn.relu(centred * scale * weight[:, None, None] + bias[:, None, None])
            window = (1, 1, 2, 2)
            x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")
        x = x.reshape(IMAGES, -1) @ parameters[f"{LAST}.weight"].T + parameters[f"{LAST}.bias"]
        return _jax_cross_entropy(x, target)

    return training_case(build, loss_of, *conv_arrays())


TRAINING: dict[str, Callable[[], Case]] = {
    "MLP training step": mlp_case,
    "GPT training step": gpt_case,
    "conv net training step": conv_case,
}


# --- memory ----------------------------------------------------------------------------------------


def peak_memory(name: str, contestant: str) -> float:
    """Bytes that a step of a contestant needs at most, beyond what its process has after loading it.

    A process of its own: the library and its compiler are loaded by another program first; then the model is
    made and warmed up, and the peak of further steps is taken.
    """
    done = subprocess.run(
        [sys.executable, __file__, name, contestant],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parent,
    )
    return float(done.stdout.split()[-1])


def _peak_of(name: str, contestant: str) -> int:
    tiny = training_case(
        _tiny,
        lambda p, x, target: _jax_cross_entropy(x @ p["0.weight"].T, target),
        _random({"0.weight": (5, 7)}),
        np.ones((3, 7), np.float32),
        np.arange(3),
    )(contestant)
    for _ in range(3):
        tiny()
    before = _status("VmRSS")
    run = TRAINING[name]()(contestant)
    for _ in range(5):
        run()
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)  # what compiling has freed is not part of a step
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts anew
    for _ in range(5):
        run()
    return _status("VmHWM") - before


def _tiny(lib: Any) -> Any:
    nn = importlib.import_module(f"{lib.__name__}.nn")
    return nn.Sequential(nn.Linear(7, 5, bias=False))


def _status(field: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(field + ":"):
            return 1024 * int(line.split()[1])
    raise OSError(f"/proc/self/status has no {field}")


if __name__ == "__main__":
    print(_peak_of(sys.argv[1], sys.argv[2]))
