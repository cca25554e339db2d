"""Models of Hugging Face's transformers through torch.compile with our backend, beside Inductor and eager mode.

    python benchmarks/transformers_compiled.py first NAME [--training] [--contestants inductor]
    python benchmarks/transformers_compiled.py turns NAME [--training] [--threads 1]
    python benchmarks/transformers_compiled.py table [--threads 1]

All take --size small or medium (transformers_cases.py).

`first` measures the first call of each compiler, in a process of its own, with empty caches. `turns` lets both,
and eager mode, run in turns, with what `first` left in the caches. The results go into a directory (`--results`),
which `table` reads, so that an idle machine is needed for a minute at a time only; with `--hold`, `turns` waits
for a line on its standard input once everything is compiled. A unit of work is one call of the model, or one
forward and backward pass. The models: transformers_cases.py.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PAUSE = 0.01  # seconds: until the threads of the one before are asleep
COMPILERS = ("rushlight", "inductor")
CONTESTANTS = (*COMPILERS, "eager")
RESULTS = Path(tempfile.gettempdir()) / "transformers_compiled"


def work(name: str, contestant: str, training: bool) -> Callable[[], Any]:
    """One unit of work."""
    import torch
    import transformers

    from transformers_cases import CASES

    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    case = CASES[name]
    model = case.model().train(training)
    inputs = case.inputs(case.batch, case.length)
    run: Any = model
    if contestant == "rushlight":
        from rushlight.torch_backend import rushlight

        run = torch.compile(model, backend=rushlight, options={"fallback": False}, fullgraph=True)
    elif contestant == "inductor":
        run = torch.compile(model, fullgraph=True)
    if training:

        def step() -> Any:
            model.zero_grad()
            output = run(**inputs)
            output.loss.backward()
            return output

        return step

    def infer() -> Any:
        with torch.no_grad():
            return run(**inputs)

    return infer


def first_call(name: str, contestant: str, training: bool) -> dict[str, float]:
    """Seconds of the first call, less those of the second."""
    thunk = work(name, contestant, training)
    start = time.perf_counter()
    thunk()
    middle = time.perf_counter()
    thunk()
    return {contestant: 2 * middle - start - time.perf_counter()}


def in_turns(
    name: str, contestants: Sequence[str], training: bool, seconds: float, *, hold: bool = False
) -> dict[str, float]:
    """The best seconds of each contestant. `hold`: wait for a line before any is timed."""
    thunks = {contestant: work(name, contestant, training) for contestant in contestants}
    losses = {contestant: _loss(thunk()) for contestant, thunk in thunks.items()}
    spread = max(losses.values()) - min(losses.values())
    if spread > 1e-4:
        raise AssertionError(f"{name}: losses differ, {losses}")
    if hold:
        print("compiled", file=sys.stderr, flush=True)
        input()
    best = dict.fromkeys(contestants, float("inf"))
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        for contestant, thunk in thunks.items():
            time.sleep(PAUSE)
            thunk()
            start = time.perf_counter()
            thunk()
            best[contestant] = min(best[contestant], time.perf_counter() - start)
    return best


def _loss(output: Any) -> float:
    return float(output.loss)


# Processes.


def child(options: argparse.Namespace) -> None:
    import torch

    torch.set_num_threads(options.threads)
    if len(options.contestants) == 1:
        found = first_call(options.name, options.contestants[0], options.training)
    else:
        found = in_turns(
            options.name, options.contestants, options.training, options.seconds, hold=options.hold
        )
    print(json.dumps(found))


def first(options: argparse.Namespace) -> None:
    for contestant in COMPILERS:
        if contestant in options.contestants:
            shutil.rmtree(_caches(options) / contestant, ignore_errors=True)
            keep(options, "first", spawned(options, [contestant]))


def turns(options: argparse.Namespace) -> None:
    keep(options, f"best, {options.threads}", spawned(options, options.contestants))


def keep(options: argparse.Namespace, part: str, values: dict[str, float]) -> None:
    """Add what was measured to the results."""
    path = options.results / "results.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    entry = known.setdefault(_label(options), {})
    entry[part] = {**entry.get(part, {}), **values}
    path.write_text(json.dumps(known, indent=1))
    print(_label(options), part, {name: round(value, 4) for name, value in values.items()}, flush=True)


def _label(options: argparse.Namespace) -> str:
    return f"{options.name}, {'training' if options.training else 'inference'}, {options.size}"


def _caches(options: argparse.Namespace) -> Path:
    return options.results / _label(options).replace(", ", "-")


def spawned(options: argparse.Namespace, contestants: Sequence[str]) -> dict[str, float]:
    caches = _caches(options)
    environment = {
        **os.environ,
        "RUSHLIGHT_CACHE_DIR": str(caches / "rushlight"),
        "TORCHINDUCTOR_CACHE_DIR": str(caches / "inductor"),
        "HF_HUB_OFFLINE": "1",
        "MODEL_SIZE": options.size,
        "OMP_NUM_THREADS": str(options.threads),
    }
    command = [sys.executable, __file__, "child", options.name, "--threads", str(options.threads)]
    command += ["--seconds", str(options.seconds), "--contestants", *contestants]
    command += ["--training"] * options.training + ["--hold"] * options.hold
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])


# The table.


def table(options: argparse.Namespace) -> None:
    """What was measured, in Markdown."""
    known = json.loads((options.results / "results.json").read_text())
    print("| model | ours | eager / ours | Inductor / ours | first call: ours | Inductor | ratio |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    ratios: dict[str, list[float]] = {"eager": [], "inductor": [], "first": []}
    for what, entry in known.items():
        if not what.endswith(options.size):
            continue
        best, first = entry.get(f"best, {options.threads}", {}), entry.get("first", {})
        if "rushlight" not in best:
            continue
        found = {peer: best[peer] / best["rushlight"] for peer in ("eager", "inductor") if peer in best}
        if len(first) == len(COMPILERS):
            found["first"] = first["inductor"] / first["rushlight"]
        for column, ratio in found.items():
            ratios[column].append(ratio)
        cells = [what, f"{1e3 * best['rushlight']:.1f} ms"]
        cells += [f"{found[c]:.2f}" if c in found else "-" for c in ("eager", "inductor")]
        cells += [f"{first[c]:.1f} s" if c in first else "-" for c in COMPILERS]
        cells += [f"{found['first']:.1f}" if "first" in found else "-"]
        print("|", " | ".join(cells), "|")
    means = [f"{_mean(ratios[c]):.2f}" if ratios[c] else "-" for c in ratios]
    print(f"| geometric mean | | {means[0]} | {means[1]} | | | {means[2]} |")


def _mean(values: Sequence[float]) -> float:
    return math.exp(sum(map(math.log, values)) / len(values))


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = {"first": first, "turns": turns, "table": table, "child": child}
    parser.add_argument("what", choices=commands)
    parser.add_argument("name", nargs="?", help="a model of transformers_cases.py")
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--size", choices=("small", "medium"), default="medium")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6.0, help="of taking turns")
    parser.add_argument("--hold", action="store_true", help="wait for a line before taking turns")
    parser.add_argument("--contestants", nargs="+", choices=CONTESTANTS, default=CONTESTANTS)
    parser.add_argument("--results", type=Path, default=RESULTS)
    options = parser.parse_args(arguments)
    options.results.mkdir(parents=True, exist_ok=True)
    commands[options.what](options)


if __name__ == "__main__":
    main()
