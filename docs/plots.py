"""Plots of the benchmarks, from the table of docs/benchmarks.md."""

from __future__ import annotations

import re
from pathlib import Path

UNITS = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "MiB": 1.0}
GROUPS = {"compiled": "Run time", "cold compile": "Time to compile", "peak memory": "Peak memory"}
PEERS = ("rushlight", "torch", "jax.jit", "torch.compile")
COLORS = {"rushlight": "#d9480f", "torch": "#868e96", "jax.jit": "#1c7ed6", "torch.compile": "#495057"}


def rows(page: Path) -> tuple[list[str], list[dict[str, str]]]:
    """The columns and rows of the table."""
    lines = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("|")]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return table[0], [dict(zip(table[0], cells, strict=False)) for cells in table[2:]]


def number(cell: str) -> float | None:
    """Seconds, or MiB, of a cell; None if nothing was measured."""
    found = re.fullmatch(r"([\d.]+) (ns|us|ms|s|MiB)", cell)
    return float(found[1]) * UNITS[found[2]] if found else None


def write(page: Path, folder: Path) -> list[Path]:
    """A plot for each group of rows: each peer relative to Rushlight, which is 1."""
    import matplotlib as mpl

    mpl.use("svg")
    from matplotlib import pyplot

    mpl.rcParams["svg.hashsalt"] = "rushlight"
    mpl.rcParams["svg.fonttype"] = "none"
    folder.mkdir(exist_ok=True)
    made = []
    _, table = rows(page)
    for prefix, title in GROUPS.items():
        chosen = [row for row in table if row["row"].startswith(prefix) and number(row["rushlight"])]
        figure, axes = pyplot.subplots(figsize=(8, 0.5 * len(chosen) + 1.2))
        for place, row in enumerate(chosen):
            own = number(row["rushlight"]) or 1.0
            for shift, peer in enumerate(PEERS):
                value = number(row.get(peer, "-"))
                if value is not None:
                    axes.barh(place + 0.2 * (shift - 1.5), value / own, 0.19, color=COLORS[peer])
        axes.set_yticks(range(len(chosen)), [row["row"].removeprefix(prefix).strip(" ,") for row in chosen])
        axes.invert_yaxis()
        axes.set_xscale("log")
        axes.axvline(1, color="#d9480f", linewidth=0.8)
        axes.set_xlabel("relative to Rushlight; more is slower or larger (log scale)")
        axes.set_title(title, loc="left")
        for side in ("top", "right"):
            axes.spines[side].set_visible(False)
        axes.legend(
            [pyplot.Rectangle((0, 0), 1, 1, color=COLORS[peer]) for peer in PEERS],
            PEERS,
            frameon=False,
            fontsize="small",
            loc="best",
        )
        path = folder / f"{prefix.replace(' ', '_')}.svg"
        figure.savefig(path, bbox_inches="tight", metadata={"Date": None})
        pyplot.close(figure)
        made.append(path)
    return made
