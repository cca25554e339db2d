"""docs/architecture.md shows one program at every stage: what it shows is what the compiler makes.

`python tests/test_architecture.py` writes the stages into the page again.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import rushlight as rl
from rushlight.compiler import pipeline
from rushlight.core.passes import PassLog
from rushlight.runtime.target import host

PAGE = Path(__file__).parents[1] / "docs" / "architecture.md"
BLOCK = re.compile(r"(<!-- stage: (.+?) -->\n```text\n)(.*?)(```)", re.S)
LLVM_LINES = 24


def program(x: rl.Tensor, weight: rl.Tensor, bias: rl.Tensor) -> rl.Tensor:
    return (x @ weight + bias).softmax(1)


def stages() -> dict[str, str]:
    """What each pass makes of the program, on a machine with AVX2."""
    arguments = (rl.ones(64, 128), rl.ones(128, 256), rl.ones(256))
    log = PassLog(keep=True)
    captured = log.run(pipeline.CAPTURE, pipeline.CallToCapture(program, arguments, {}))
    programs: Any = log.run_all(pipeline.CALL_PASSES, captured.call)
    target = replace(host(), vector_bytes=32, vector_registers=16, has_fma=True, has_masked_memory=True)
    passes = [step for step in pipeline.PROGRAM_PASSES if step not in (pipeline.ASSEMBLE, pipeline.LINK)]
    log.run_all(passes, pipeline.Compilation(programs.forward, target=target))
    code = log.texts["emit"]
    begin = code.index("define", code.index("kernel") - 200)
    log.texts["emit"] = "\n".join([*code[begin:].splitlines()[:LLVM_LINES], "..."])
    return log.texts


def test_the_page_shows_what_the_compiler_makes() -> None:
    made = stages()
    shown = {name: text for _, name, text, _ in BLOCK.findall(PAGE.read_text())}
    assert len(shown) >= 6
    for name, text in shown.items():
        assert text.strip() == made[name].strip(), f"{name}: run python tests/test_architecture.py"


def test_the_page_names_every_pass() -> None:
    text = PAGE.read_text()
    for step in pipeline.PIPELINE:
        assert f"`{step.name}`" in text, step.name


if __name__ == "__main__":
    texts = stages()
    page = PAGE.read_text()
    PAGE.write_text(BLOCK.sub(lambda m: f"{m[1]}{texts[m[2]].strip()}\n{m[4]}", page))
