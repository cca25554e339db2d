"""`rushlight demo`: a small GPT learns to write Python, its whole training step one native function.

It trains on the source of the standard library, which every machine has, shows the loss, the speed and the
time left while it does, compares with the same steps run eagerly, and leaves a page with the loss curve.
"""

from __future__ import annotations

import argparse
import html
import importlib.util
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.console import Console
from rich.panel import Panel
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

import rushlight
from rushlight.cli.main import UsageError

PROMPT = "def "
NEXT = (
    "rushlight demo --size medium --steps 2000    a larger model, for longer",
    "python examples/gpt.py --eager               the same program without the compiler",
    "rushlight tour                               the library, stop by stop",
    "rushlight conformance --ops softmax          how operators compare with PyTorch's",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--steps", type=int, default=1500, help="training steps (default: 1500)")
    parser.add_argument("--size", choices=("tiny", "small", "medium"), default="small", help="of the model")
    parser.add_argument("--seed", type=int, default=0, help="of weights and batches (default: 0)")
    parser.add_argument(
        "--eager-steps", type=int, default=20, help="steps run eagerly to compare (default: 20)"
    )
    parser.add_argument("--out", type=Path, default=Path("rushlight-demo"), help="where the page goes")


@dataclass
class Record:
    """What the demo saw."""

    size: str
    parameters: int = 0
    losses: list[float] = field(default_factory=list)
    first_step: float = 0.0  # seconds, compilation included
    seconds: float = 0.0
    eager_seconds: float = 0.0  # per step
    eager_gap: float = 0.0  # largest difference between the losses of eager and compiled steps
    held_out: tuple[float, float] = (0.0, 0.0)  # before and after
    samples: tuple[str, str] = ("", "")
    characters: int = 0  # a step

    @property
    def step_seconds(self) -> float:
        later = len(self.losses) - 1
        return (self.seconds - self.first_step) / later if later > 0 else self.seconds


def run(options: argparse.Namespace) -> int:
    if options.steps < 1 or options.eager_steps < 0:
        raise UsageError("--steps must be at least 1 and --eager-steps at least 0")
    gpt = load_example("gpt")
    console = Console()
    console.print(
        Panel(
            "[bold]Rushlight[/] trains a character-level GPT on Python's own standard library.\n"
            "Forward, backward, clipping and AdamW are one native function, compiled now."
        )
    )
    text = gpt.load_text()
    config = gpt.SIZES[options.size]
    trainer = gpt.Trainer(text, config, seed=options.seed)
    record = Record(
        options.size,
        sum(p.numel() for p in trainer.model.parameters()),
        characters=config.batch * config.context,
    )
    console.print(f"{len(text.train):,} characters to learn from, {record.parameters:,} parameters")
    before = trainer.held_out_loss(), trainer.generate(PROMPT, seed=options.seed)
    _show_sample(console, "before", before[1])
    train(console, trainer, options.steps, record)
    record.held_out = before[0], trainer.held_out_loss()
    record.samples = before[1], trainer.generate(PROMPT, seed=options.seed)
    _show_sample(console, "after", record.samples[1])
    if options.eager_steps:
        compare_eager(gpt, text, config, options, record)
    for line in summary(record):
        console.print(line)
    page = write_page(record, options.out)
    console.print(f"\nThe loss curve and this summary: [bold]{page}[/]\nWhat to try next:")
    for line in NEXT:
        console.print(f"  {line}", highlight=False)
    return 0


def load_example(name: str) -> ModuleType:
    """A program of examples/, beside the sources or inside of the installed package."""
    package = Path(rushlight.__file__).parent
    for folder in (package / "examples", package.parents[1] / "examples"):
        path = folder / f"{name}.py"
        if path.is_file():
            spec = importlib.util.spec_from_file_location(f"rushlight_example_{name}", path)
            assert spec is not None
            assert spec.loader is not None
            if str(folder) not in sys.path:  # for what examples share
                sys.path.append(str(folder))
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
            return module
    raise UsageError(f"examples/{name}.py is not here; run this in a checkout of the project")


def train(console: Console, trainer: Any, steps: int, record: Record) -> None:
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("loss {task.fields[loss]}"),
        TextColumn("{task.fields[rate]} characters/s"),
        TimeRemainingColumn(),
    )
    started = time.perf_counter()
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task("train", total=steps, loss="-", rate="-")
        for loss in trainer.run(steps):
            record.losses.append(loss)
            record.seconds = time.perf_counter() - started
            if len(record.losses) == 1:
                record.first_step = record.seconds
            rate = f"{record.characters / record.step_seconds:,.0f}"
            progress.update(bar, advance=1, loss=f"{loss:.3f}", rate=rate)


def compare_eager(
    gpt: ModuleType, text: Any, config: Any, options: argparse.Namespace, record: Record
) -> None:
    """The first steps again without the compiler, from the same seed."""
    eager = gpt.Trainer(text, config, seed=options.seed, compiled=False)
    count = min(options.eager_steps, len(record.losses))
    started = time.perf_counter()
    losses = list(eager.run(count))
    record.eager_seconds = (time.perf_counter() - started) / count
    record.eager_gap = max(abs(a - b) for a, b in zip(losses, record.losses, strict=False))


def summary(record: Record) -> list[str]:
    lines = [
        f"loss {record.losses[0]:.3f} at first, {sum(record.losses[-20:]) / len(record.losses[-20:]):.3f} "
        "at last",
        f"held-out loss {record.held_out[0]:.3f} before, {record.held_out[1]:.3f} after",
        f"first step, compilation included: {record.first_step:.2f} s",
        f"a step: {1e3 * record.step_seconds:.1f} ms, {record.characters / record.step_seconds:,.0f} "
        "characters/s",
    ]
    if record.eager_seconds:
        lines.append(
            f"a step run eagerly: {1e3 * record.eager_seconds:.1f} ms, "
            f"{record.eager_seconds / record.step_seconds:.1f} times as long; the losses differ by at most "
            f"{record.eager_gap:.1e}"
        )
    return lines


def _show_sample(console: Console, when: str, sample: str) -> None:
    console.print(Panel(sample, title=f"what it writes {when} training"), markup=False, highlight=False)


# The page.


def write_page(record: Record, folder: Path) -> Path:
    """demo.html and loss.svg in `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    picture = loss_curve(record.losses)
    (folder / "loss.svg").write_text(picture, encoding="utf-8")
    items = "".join(f"<li>{html.escape(line)}</li>" for line in summary(record))
    samples = "".join(
        f"<h2>{when} training</h2><pre>{html.escape(text)}</pre>"
        for when, text in zip(("Before", "After"), record.samples, strict=True)
    )
    page = folder / "demo.html"
    page.write_text(
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>Rushlight demo</title>"
        "<style>body{font:16px/1.5 system-ui;max-width:48rem;margin:2rem auto;padding:0 1rem}"
        "pre{background:#f4f4f2;padding:1rem;overflow:auto}svg{width:100%;height:auto}</style>"
        f"<h1>A GPT of {record.parameters:,} parameters</h1>{picture}<ul>{items}</ul>{samples}</html>",
        encoding="utf-8",
    )
    return page


def loss_curve(losses: list[float], width: int = 720, height: int = 300) -> str:
    """The losses as a picture: every step as a thin line, a running mean over it."""
    left, bottom, top = 50, height - 30, 15
    high, low = max(losses), min(losses)
    span = (high - low) or 1.0

    def path(values: list[float]) -> str:
        step = (width - left - 15) / max(len(values) - 1, 1)
        return " ".join(
            f"{left + i * step:.1f},{bottom - (v - low) / span * (bottom - top):.1f}"
            for i, v in enumerate(values)
        )

    smooth, mean = [], losses[0]
    for loss in losses:
        mean += 0.05 * (loss - mean)
        smooth.append(mean)
    labels = "".join(
        f"<text x='{left - 8}' y='{bottom - k / 4 * (bottom - top) + 4:.0f}' "
        f"text-anchor='end'>{low + k / 4 * span:.2f}"
        "</text>"
        for k in range(5)
    )
    return (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {width} {height}' font-family='system-ui' "
        f"font-size='12' role='img' aria-label='training loss'>"
        f"<polyline points='{path(losses)}' fill='none' stroke='#c9c4b8' stroke-width='1'/>"
        f"<polyline points='{path(smooth)}' fill='none' stroke='#b5471b' stroke-width='2'/>{labels}"
        f"<text x='{width - 15}' y='{height - 8}' text-anchor='end'>{len(losses)} steps</text></svg>"
    )
