"""The programs of examples/: each learns, and its compiled step does what the eager one does."""

import pytest

from rushlight.cli.demo import load_example
from rushlight.cli.main import main

gpt = load_example("gpt")


def gpt_losses(steps, compiled=True):
    config = gpt.Config(layers=2, heads=2, width=32, context=16, batch=4, dropout=0.1)
    return list(gpt.Trainer(gpt.load_text(50_000), config, compiled=compiled, lr=3e-3).run(steps))


RUNS = {
    "gpt": gpt_losses,
    "mlp": lambda steps, compiled=True: load_example("mlp").run(steps, compiled=compiled)[0],
    "vae": lambda steps, compiled=True: load_example("vae").run(steps, compiled=compiled)[0],
    "convnet": lambda steps, compiled=True: load_example("convnet").run(steps, compiled=compiled)[0],
    "tagger": lambda steps, compiled=True: load_example("tagger").run(steps, compiled=compiled)[0],
}
# (steps, the last losses over the first)
LEARNS = {"gpt": (60, 0.8), "mlp": (100, 0.5), "vae": (100, 0.6), "convnet": (40, 0.8), "tagger": (60, 0.7)}


@pytest.mark.parametrize("name", RUNS)
def test_compiled_steps_equal_eager_ones(name):
    """Random masks and noise included: both draw from the same counters."""
    assert RUNS[name](10) == pytest.approx(RUNS[name](10, compiled=False), rel=2e-4)


@pytest.mark.parametrize("name", LEARNS)
def test_examples_learn(name):
    steps, ratio = LEARNS[name]
    losses = RUNS[name](steps)
    assert sum(losses[-10:]) / 10 < ratio * losses[0]


def test_demo(tmp_path, capsys):
    arguments = ["demo", "--size", "tiny", "--steps", "3", "--eager-steps", "2", "--out", str(tmp_path)]
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    assert "held-out loss" in printed
    assert "What to try next" in printed
    assert "<svg" in (tmp_path / "demo.html").read_text(encoding="utf-8")
    assert (tmp_path / "loss.svg").exists()
