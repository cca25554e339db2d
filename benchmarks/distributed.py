"""`make bench ARGS=--distributed`: training in two processes of one thread each, against PyTorch's on gloo.

    python benchmarks/distributed.py [--rounds N]

Both train the same GPT with DistributedDataParallel: here the whole step is compiled, there it is eager. The
jobs run in turn, and of each figure the best of all rounds counts. Bars: the step at least 1.3 times as fast, an
all_reduce of 16 MB as fast, and a step at most 1.1 times the larger of computation and communication alone.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

RANKS = 2
VOCABULARY, LENGTH, WIDTH, HEADS, LAYERS, ROWS = 512, 64, 128, 4, 4, 8
THREADS = dict.fromkeys(("RUSHLIGHT_NUM_THREADS", "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")


def gpt(lib: Any) -> Any:
    nn, functional = lib.nn, lib.nn.functional

    class Block(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x: Any) -> Any:
            rows, length, width = x.shape
            parts = self.qkv(self.norm1(x)).view(rows, length, 3, HEADS, width // HEADS)
            q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
            found = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(found.transpose(1, 2).reshape(rows, length, width))
            return x + self.down(functional.gelu(self.up(self.norm2(x))))

    class GPT(nn.Module):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LENGTH, WIDTH)
            self.blocks = nn.Sequential(*[Block() for _ in range(LAYERS)])
            self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY)

        def forward(self, tokens: Any) -> Any:
            x = self.tokens(tokens) + self.positions(lib.arange(tokens.shape[1]))
            return self.head(self.norm(self.blocks(x)))

    return GPT()


def step_of(lib: Any, model: Any) -> Callable[[Any], Any]:
    optimizer = lib.optim.AdamW(model.parameters(), lr=1e-3)

    def step(tokens: Any) -> Any:
        optimizer.zero_grad()
        logits = model(tokens)
        loss = lib.nn.functional.cross_entropy(logits.reshape(-1, VOCABULARY), tokens.reshape(-1))
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def best(lib: Any, function: Callable[[], Any], seconds: float = 2.0) -> float:
    """The best time of calls that all processes begin together."""
    for _ in range(3):
        function()
    found = []
    # as many calls in all processes: counted, not timed
    begin = time.perf_counter()
    lib.distributed.barrier()
    function()
    took = lib.tensor([time.perf_counter() - begin])
    lib.distributed.all_reduce(took, lib.distributed.ReduceOp.MAX)
    for _ in range(max(5, min(200, int(seconds / float(took))))):
        lib.distributed.barrier()
        begin = time.perf_counter()
        function()
        found.append(time.perf_counter() - begin)
    return min(found)


def worker(name: str) -> None:
    lib = importlib.import_module(name)
    importlib.import_module(f"{name}.distributed")
    parallel = importlib.import_module(f"{name}.nn.parallel")
    if name == "torch":
        lib.set_num_threads(1)
    lib.distributed.init_process_group("gloo" if name == "torch" else "mpi")
    lib.manual_seed(lib.distributed.get_rank())
    tokens = lib.randint(0, VOCABULARY, (ROWS, LENGTH))
    compiled: Any = (lambda step: step) if name == "torch" else lib.compile
    alone = compiled(step_of(lib, gpt(lib)))
    model = gpt(lib)
    together = compiled(step_of(lib, parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)))
    count = sum(p.numel() for p in model.parameters())
    grads, large = lib.ones(count), lib.ones(4 << 20)
    figures = {
        "step": best(lib, lambda: together(tokens)),
        "computation": best(lib, lambda: alone(tokens)),
        "communication": best(lib, lambda: lib.distributed.all_reduce(grads)),
        "all_reduce of 16 MB": best(lib, lambda: lib.distributed.all_reduce(large)),
    }
    for key, value in figures.items():
        slowest = lib.tensor([value])
        lib.distributed.all_reduce(slowest, lib.distributed.ReduceOp.MAX)
        figures[key] = float(slowest)
    if lib.distributed.get_rank() == 0:
        print(json.dumps(figures), flush=True)
    lib.distributed.barrier()
    lib.distributed.destroy_process_group()
    if name == "torch":  # whose threads now and then end the process with an error when it ends
        sys.stdout.flush()
        os._exit(0)


def job(name: str) -> dict[str, float]:
    """The figures of one job, the slowest process of each."""
    command = [sys.executable, __file__, "--worker", name]
    environment = {**os.environ, **THREADS}
    if name == "rushlight":
        mpiexec = Path(sys.executable).with_name("mpiexec")
        start = [str(mpiexec) if mpiexec.exists() else "mpiexec", "-n", str(RANKS), *command]
        done = subprocess.run(start, env=environment, capture_output=True, text=True, check=True)
        return json.loads(done.stdout)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(RANKS)}
    started = [
        subprocess.Popen(command, env={**environment, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in range(RANKS)
    ]
    said = [process.communicate()[0] for process in started]
    if any(process.returncode for process in started):
        raise RuntimeError(f"the job of {name} failed")
    return json.loads(said[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--worker")
    options = parser.parse_args()
    if options.worker:
        worker(options.worker)
        return 0
    figures: dict[str, dict[str, float]] = {}
    for _ in range(options.rounds):
        for name in ("rushlight", "torch"):
            for key, value in job(name).items():
                own = figures.setdefault(name, {})
                own[key] = min(value, own.get(key, value))
    ours, theirs = figures["rushlight"], figures["torch"]
    for key, mine in ours.items():
        other = theirs[key]
        print(f"{key:<22} {mine * 1e3:9.2f} ms   torch {other * 1e3:9.2f} ms   {other / mine:6.2f}")
    overlap = ours["step"] / max(ours["computation"], ours["communication"])
    print(f"step / max(computation, communication): {overlap:.2f}")
    held = (
        theirs["step"] / ours["step"] >= 1.3,
        theirs["all_reduce of 16 MB"] / ours["all_reduce of 16 MB"] >= 1.0,
        overlap <= 1.1,
    )
    return 0 if all(held) else 1


if __name__ == "__main__":
    raise SystemExit(main())
