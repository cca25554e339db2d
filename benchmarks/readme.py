"""Put the numbers of docs/benchmarks.md that a newcomer asks for into README.md, between its markers.

With `tinygrad` installed, `python benchmarks/readme.py --tinygrad` also measures what of the table it can run;
without, its column is left out.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- peers: python benchmarks/readme.py -->", "<!-- end of peers -->"
ROWS = {
    "import": "import",
    "compiled call overhead, a + b of 4 elements": "a compiled call",
    "compiled softmax 4096x1024": "softmax, 4096 x 1024",
    "compiled layer_norm+gelu 4096x768": "layer norm and GELU, 4096 x 768",
    "compiled MLP training step": "MLP training step",
    "compiled GPT training step": "GPT training step",
    "compiled conv net training step": "convolutional net, training step",
    "cold compile, GPT training step": "first call of the GPT step",
    "peak memory, GPT training step": "memory of the GPT step",
}
PEERS = ("rushlight", "torch", "torch.compile", "jax.jit")
MEASURED = ROOT / "benchmarks" / "tinygrad.json"


def table() -> str:
    """The chosen rows, as Markdown."""
    lines = [line for line in (ROOT / "docs/benchmarks.md").read_text().splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    found = {row[0]: dict(zip(cells[0], row, strict=False)) for row in cells[2:]}
    tinygrad = json.loads(MEASURED.read_text()) if MEASURED.exists() else {}
    peers = [*PEERS, *(["tinygrad"] if tinygrad else [])]
    out = ["| | " + " | ".join(peers) + " |", "| --- |" + " ---: |" * len(peers)]
    for row, name in ROWS.items():
        values = [found[row][peer] for peer in PEERS] + ([tinygrad.get(row, "-")] if tinygrad else [])
        out.append(f"| {name} | " + " | ".join(values) + " |")
    return "\n".join(out)


def measure_tinygrad(rounds: int = 30) -> dict[str, str]:
    """Best times of the rows that are one expression, under TinyJit on the CPU."""
    from tinygrad import Device, Tensor, TinyJit

    Device.DEFAULT = "CPU"
    programs = {
        "compiled softmax 4096x1024": (lambda x: x.softmax(-1).realize(), (4096, 1024)),
        "compiled layer_norm+gelu 4096x768": (lambda x: x.layernorm().gelu().realize(), (4096, 768)),
    }
    said = {}
    for row, (function, shape) in programs.items():
        jitted = TinyJit(function)
        x = Tensor.randn(*shape).realize()
        times = []
        for _ in range(rounds):
            start = time.perf_counter()
            jitted(x)
            Device["CPU"].synchronize()
            times.append(time.perf_counter() - start)
        print(f"{row}: best {min(times) * 1e3:.3g} ms, median {statistics.median(times) * 1e3:.3g} ms")
        said[row] = f"{min(times) * 1e3:.3g} ms"
    return said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tinygrad", action="store_true", help="measure tinygrad, and keep the numbers")
    if parser.parse_args().tinygrad:
        MEASURED.write_text(json.dumps(measure_tinygrad(), indent=1) + "\n")
    readme = ROOT / "README.md"
    text = readme.read_text()
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    readme.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}")


if __name__ == "__main__":
    main()
