"""Put the numbers of docs/benchmarks.md that a newcomer asks for into README.md, between its markers.

With `tinygrad` and clang installed, `python benchmarks/readme.py --tinygrad` measures its column first
(benchmarks/tinygrad_peer.py) and keeps the numbers in benchmarks/tinygrad.json.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

from timing import quantity

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
        values = [found[row][peer] for peer in PEERS] + (
            [quantity(tinygrad.get(row), "s")] if tinygrad else []
        )
        out.append(f"| {name} | " + " | ".join(values) + " |")
    return "\n".join(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tinygrad", action="store_true", help="measure tinygrad, and keep the numbers")
    if parser.parse_args().tinygrad:
        os.environ["CACHELEVEL"] = "0"  # the first call compiles, as those of the others do
        from tinygrad_peer import measure

        MEASURED.write_text(json.dumps(measure(), indent=1) + "\n")
    readme = ROOT / "README.md"
    text = readme.read_text()
    before, after = text.partition(BEGIN)[0], text.partition(END)[2]
    readme.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}")


if __name__ == "__main__":
    main()
