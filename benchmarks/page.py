"""How large the page of a training step is, and how long a browser takes to open it: the GPT of examples/gpt.py.

    python benchmarks/page.py [--keep page.html]

"usable" is when the panes are drawn and answer; "complete" when the long texts are unpacked and coloured as well.
Needs the system's chromium and playwright (the extra `test`).
"""

from __future__ import annotations

import argparse
import os
import shutil
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

import rushlight as rl
from profiler import trainer

ROUNDS = 7


def opened(path: Path) -> list[tuple[float, float]]:
    """Of each round, seconds until the page can be used and until all of it is there."""
    times = []
    executable = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        for _ in range(ROUNDS):
            context = browser.new_context(viewport={"width": 1360, "height": 900})
            page = context.new_page()
            start = time.perf_counter()
            page.goto(path.resolve().as_uri())
            page.wait_for_selector("body.ready", state="attached")
            usable = time.perf_counter() - start
            page.wait_for_selector("body.complete", state="attached")
            times.append((usable, time.perf_counter() - start))
            context.close()
        browser.close()
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description="Opens the page of the GPT step.")
    parser.add_argument("--keep", type=Path, help="where to leave the page")
    options = parser.parse_args()
    made, batch = trainer(compiled=False)
    told = rl.explain(made.train_step, *batch).measured(calls=5)
    (program,) = told.programs
    linked = sum(bool(kernel["nodes"]) for kernel in program.kernels)
    with tempfile.TemporaryDirectory() as directory:
        path = told.save(options.keep or Path(directory) / "page.html")
        times = opened(path)
        print(
            f"{path.stat().st_size / 1e6:.2f} MB, {linked} of {len(program.kernels)} kernels have operators"
        )
    for name, at in (("usable", 0), ("complete", 1)):
        seconds = sorted(row[at] for row in times)
        middle = seconds[len(seconds) // 2]
        print(f"{name}: best {seconds[0]:.2f} s, median {middle:.2f} s, worst {seconds[-1]:.2f} s")


if __name__ == "__main__":
    main()
