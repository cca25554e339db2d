"""What the profiler costs, and whether kernels account for the time: a step of the GPT of examples/gpt.py.

    python benchmarks/profiler.py

Steps without and with an open profiler alternate in blocks; times are the best of each block's steps, by the
clock on the wall and in processor time, which says something on a busy machine, too.
"""

from __future__ import annotations

import importlib.util
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import rushlight as rl
from rushlight.profiler import profile, record_function

BLOCKS, STEPS = 15, 5


def trainer(compiled: bool = True) -> Any:
    path = Path(__file__).parents[1] / "examples" / "gpt.py"
    spec = importlib.util.spec_from_file_location("gpt", path)
    assert spec is not None
    assert spec.loader is not None
    gpt = importlib.util.module_from_spec(spec)
    sys.modules["gpt"] = gpt
    spec.loader.exec_module(gpt)
    made = gpt.Trainer(gpt.load_text(200_000), gpt.SIZES["small"], compiled=compiled)
    return made, gpt.draw_batch(made.text.train, made.config, made.generator)


def main() -> None:
    made, batch = trainer()

    def block() -> tuple[float, float]:
        times = []
        for _ in range(STEPS):
            start = time.perf_counter(), time.process_time()
            made.step(*batch)
            times.append((time.perf_counter() - start[0], time.process_time() - start[1]))
        return min(wall for wall, _ in times), min(cpu for _, cpu in times)

    made.step(*batch)
    off, on, shares = [], [], []
    for _ in range(BLOCKS):
        off.append(block())
        with profile() as prof:
            made.step(*batch)
            made.step(*batch)
            with record_function("block"):
                on.append(block())
        events = prof.events()
        whole = next(event for event in events if event.name == "block").time_range
        inside = [e for e in events if e.category == "launch" and e.time_range.start >= whole.start]
        shares.append(sum(e.cpu_time_total for e in inside) / whole.elapsed_us())
    print(f"{BLOCKS} blocks of {STEPS} steps, {rl.get_num_threads()} threads")
    for name, which in (("on the wall", 0), ("of processor time", 1)):
        without, within = ([row[which] for row in rows] for rows in (off, on))
        ratio = statistics.median(a / b for a, b in zip(within, without, strict=True))
        print(
            f"a step: {1e3 * min(without):.2f} ms {name} without, {1e3 * min(within):.2f} ms with a profiler: "
            f"{min(within) / min(without):.3f} of the best, {ratio:.3f} in the median of neighbouring blocks"
        )
    print(f"launches of kernels are {100 * statistics.median(shares):.1f} % of the time of the steps")


if __name__ == "__main__":
    main()
