"""The pages of the atlas: one by itself, or all of them beside an index that can be searched."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rushlight.pages import render, write_assets

from .collect import facts, operators, summary
from .sources import PACKAGE

ASSETS = ("plot", "highlight")


def one_page(name: str) -> str:
    """The page of one operator, which needs no other file."""
    return render("atlas", {**facts(name), "site": False}, ASSETS, title=f"{name} · Rushlight atlas")


def write(
    folder: Path, names: Iterable[str] | None = None, *, done: Callable[[str], Any] = lambda name: None
) -> int:
    """Write an index, a page for every operator and the shared libraries; returns the number of operators."""
    chosen = sorted(operators() if names is None else names)
    write_assets(folder / "_assets", ASSETS)
    pages = folder / "operators"
    pages.mkdir(parents=True, exist_ok=True)
    checkout = PACKAGE.parents[1]  # the source can be linked to where this is one
    source = os.path.relpath(checkout, pages) if (checkout / "pyproject.toml").exists() else None
    listed = []
    for name in chosen:
        data = facts(name)
        page = render(
            "atlas",
            {**data, "site": True, "source": source},
            ASSETS,
            title=f"{name} · Rushlight atlas",
            linked="../_assets",
        )
        (pages / f"{name}.html").write_text(page, encoding="utf-8")
        listed.append(
            summary(name) | {"plot": data["curve"] is not None, "accuracy": _worst(data["accuracy"])}
        )
        done(name)
    index = render("atlas_index", {"operators": listed}, (), title="Rushlight atlas", linked="_assets")
    (folder / "index.html").write_text(index, encoding="utf-8")
    return len(chosen)


def _worst(accuracy: dict[str, Any] | None) -> float | None:
    return None if accuracy is None else accuracy["compiled"]["max"]
