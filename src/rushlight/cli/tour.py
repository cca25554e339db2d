"""`rushlight tour`: a tour of the eager library, stop by stop: torch-style code and what it prints.

A stop is a function of a `print` that indents. Its source is shown before it runs: what is read is what ran.
"""

from __future__ import annotations

import argparse
import inspect
import textwrap
import time
from collections.abc import Callable

from rich.console import Console
from rich.panel import Panel
from rich.syntax import Syntax

import rushlight as torch
from rushlight.cli.main import UsageError

Print = Callable[..., None]
Stop = Callable[[Print], None]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "stops", nargs="*", metavar="STOP", help=f"only these stops of the tour: {', '.join(STOPS)}"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the random numbers (default: 0)")


def run(options: argparse.Namespace) -> int:
    unknown = [name for name in options.stops if name not in STOPS]
    if unknown:
        raise UsageError(f"no stop {', '.join(unknown)}; the tour has {', '.join(STOPS)}")
    console = Console()
    console.print(
        Panel(
            "[bold]Rushlight[/]: a small, quick torch. The code below is what ran; read torch as rushlight."
        )
    )
    started = time.perf_counter()
    for name in options.stops or STOPS:
        torch.manual_seed(options.seed)
        title, stop = STOPS[name]
        _show(console, title, stop)
    console.print(
        f"\n[dim]{time.perf_counter() - started:.1f} s. Next: rushlight ops, rushlight conformance --help[/]"
    )
    return 0


def _show(console: Console, title: str, stop: Stop) -> None:
    console.rule(f"[bold]{title}[/]", align="left")
    source = "".join(inspect.getsourcelines(stop)[0][1:])
    console.print(
        Syntax(
            textwrap.dedent(source).strip(),
            "python",
            theme="ansi_dark",
            background_color="default",
            word_wrap=True,
        )
    )
    console.print()
    stop(_printer(console))
    console.print()


def _printer(console: Console) -> Print:
    """A print that indents, puts values of several lines below one another, and marks nothing up."""

    def show(*values: object) -> None:
        texts = [str(value) for value in values]
        joined = ("\n" if any("\n" in text for text in texts) else "  ").join(texts)
        text = textwrap.indent(joined, "    ")
        console.print(text, style="cyan", markup=False, highlight=False, soft_wrap=True)

    return show


def creation(print: Print) -> None:
    a = torch.arange(6).reshape(2, 3)
    print(a)
    print(torch.linspace(0, 1, 5), torch.eye(2, dtype=torch.float64))
    print(torch.tensor([[1, 2.5], [3, 4]]), torch.full((2,), True).dtype)
    print(torch.arange(3) + 0.5, torch.ones(2, dtype=torch.bfloat16) * 3)


def broadcasting(print: Print) -> None:
    rows, columns = torch.arange(1, 4).unsqueeze(1), torch.arange(1, 6)
    print(rows * columns)
    print((rows == columns).int())
    small = torch.ones(2, dtype=torch.int8)
    print((small + 2).dtype, (small + 2.0).dtype, (small + columns[0]).dtype)


def views(print: Print) -> None:
    base = torch.zeros(3, 4)
    base[1] = 1  # writes through a view
    base.t()[2:, ::2].add_(5)  # a view of a view of a view, still the same memory
    base.diagonal().fill_(-1)
    print(base)
    window = torch.arange(8).unfold(0, 4, 2)
    print(window, window.stride(), window.is_contiguous())


def indexing(print: Print) -> None:
    a = torch.arange(20).reshape(4, 5)
    print(a[1:, [0, 2]], a[..., -1])
    print(a[a % 3 == 0])
    a[[0, 3], 1:3] = torch.tensor([[100], [200]])
    print(a)
    bins = torch.tensor([0, 1, 1, 4])
    print(torch.zeros(5).scatter_add(0, bins, torch.ones(4)))


def printing(print: Print) -> None:
    print(torch.randn(3, 3) * 1e6)
    print(torch.arange(2000.0).reshape(40, 50))
    print(torch.tensor([1 + 2j, 3 - 0.5j]), torch.empty(2, 3, device="meta"))


def reductions(print: Print) -> None:
    a = torch.randn(4, 5)
    print(a.sum(), a.mean(dim=1), a.amax(dim=(0, 1)))
    values, indices = a.max(dim=0)
    print(values, indices)
    print(torch.var_mean(a, dim=1, keepdim=True))
    print(torch.logsumexp(a, 1), a.cumsum(0)[-1])


def sorting(print: Print) -> None:
    a = torch.tensor([3, 1, 2, 3, 1])
    print(a.sort(stable=True))
    print(torch.unique(a, return_counts=True), a.topk(2).values)
    print(torch.searchsorted(torch.tensor([1, 3, 5]), a))


def einsum(print: Print) -> None:
    a, b = torch.randn(2, 3, 4), torch.randn(2, 4, 5)
    batched = torch.einsum("bij,bjk->bik", a, b)
    print(batched.shape, torch.allclose(batched, a @ b, atol=1e-6))
    print(torch.einsum("bij->j", a), torch.einsum("ii", torch.eye(3)))


def randomness(print: Print) -> None:
    generator = torch.Generator().manual_seed(7)
    first = torch.randn(3, generator=generator)
    again = torch.randn(3, generator=torch.Generator().manual_seed(7))
    print(first, torch.equal(first, again))
    state = torch.get_rng_state()
    before = torch.rand(2)
    torch.set_rng_state(state)
    print(torch.equal(before, torch.rand(2)), torch.randperm(6))


def clusters(print: Print) -> None:
    truth = torch.tensor([[0.0, 0.0], [5.0, 5.0], [0.0, 6.0]])
    points = truth.repeat_interleave(200, dim=0) + torch.randn(600, 2)
    centres = points[[0, 250, 500]].clone()
    for _ in range(8):
        nearest = torch.cdist(points, centres).argmin(dim=1)
        sums = torch.zeros_like(centres).index_add_(0, nearest, points)
        centres = sums / torch.bincount(nearest, minlength=3).unsqueeze(1)
    print(centres)
    print("largest error:", (centres - truth).abs().amax().item())


def components(print: Print) -> None:
    data = torch.randn(500, 2) @ torch.tensor([[3.0, 1.0], [0.0, 0.5]])
    data -= data.mean(dim=0)
    covariance = data.mT @ data / (len(data) - 1)
    direction = torch.ones(2)
    for _ in range(50):  # power iteration finds the first principal component
        direction = covariance @ direction
        direction /= direction.square().sum().sqrt()
    explained = direction @ covariance @ direction / covariance.diagonal().sum()
    print(direction, f"explains {explained.item():.1%} of the variance")


STOPS: dict[str, tuple[str, Stop]] = {
    "creation": ("Making tensors; dtypes and promotion", creation),
    "broadcasting": ("Broadcasting", broadcasting),
    "views": ("Views share memory", views),
    "indexing": ("Indexing, for reading and for writing", indexing),
    "printing": ("Printing", printing),
    "reductions": ("Reductions", reductions),
    "sorting": ("Sorting and searching", sorting),
    "einsum": ("Einsum", einsum),
    "randomness": ("Random numbers that can be repeated", randomness),
    "clusters": ("A small job: k-means", clusters),
    "components": ("Another: the first principal component", components),
}
