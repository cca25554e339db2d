"""The page of a GPT training step, in a browser: from a line of the source to assembly and back."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import rushlight as rl

ROOT = Path(__file__).parents[2]


def example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def told() -> Any:
    """Of a step of training: two layers, all kinds of kernels."""
    gpt = example("gpt")
    trainer = gpt.Trainer(gpt.load_text(20_000), gpt.SIZES["tiny"], compiled=False)
    inputs, targets = gpt.draw_batch(trainer.text.train, trainer.config, trainer.generator)
    return rl.explain(trainer.train_step, inputs, targets).measured(calls=3)


@pytest.fixture(scope="module")
def page_file(told: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return told.save(tmp_path_factory.mktemp("pages") / "step.html")


def test_every_kernel_leads_to_operators_and_code_and_back(told: Any) -> None:
    (program,) = told.programs
    for number, kernel in enumerate(program.kernels):
        assert kernel["nodes"], kernel["name"]
        assert all(number in program.nodes[node]["kernels"] for node in kernel["nodes"])
        assert kernel["functions"], kernel["name"]
        assert all(number in program.functions[name]["kernels"] for name in kernel["functions"])
        assert kernel["loops"]
        assert any(program.functions[name]["assembly"] for name in kernel["functions"]), kernel["name"]
    assert all(node["kernels"] and node["line"] for node in program.nodes)
    backward = {node["line"] for node in program.nodes if node["backward"]}
    forward = {node["line"] for node in program.nodes if not node["backward"]}
    assert len(backward) > 5 and backward <= forward  # gradients are of the lines of their operators
    softmax = next(node for node in program.nodes if node["op"] == "_softmax")
    source = (ROOT / "examples/gpt.py").read_text().splitlines()[softmax["line"] - 1]
    assert "scaled_dot_product_attention" in source


def test_what_is_measured_fits_the_call(told: Any) -> None:
    measured = told.measurement
    assert 0 < measured.launched <= measured.seconds
    assert sum(map(sum, measured.busy)) > 0
    assert all(0 <= start <= end <= 1e6 * measured.seconds for _, _, _, start, end, _ in measured.spans)
    assert all(work <= end - start + 1e-6 for _, _, _, start, end, work in measured.spans)
    assert measured.peaks.flops > 1e8 and measured.peaks.memory > 1e8


def test_memory_is_of_the_temporaries(told: Any) -> None:
    """Also of a program with scratch memory for products, whose buffers were once not told."""
    (program,) = told.programs
    buffers = program.workspace["buffers"]
    assert buffers and any(kernel["kind"] == "product" for kernel in program.kernels)
    for buffer in buffers:
        first, last = buffer["life"]
        assert 0 <= first <= last < program.workspace["stages"]
        assert buffer["offset"] + buffer["bytes"] <= program.workspace["bytes"]


def test_from_the_source_to_assembly_and_back(visit: Any, page_file: Path) -> None:
    page = visit(page_file)
    page.click('.line.live:has-text("F.gelu") .no')
    page.click('.chips .chip[data-op="gelu"]')
    assert page.locator(".node.on .op").all_inner_texts() == ["gelu", "gelu"]  # one a layer
    kernels = page.locator(".kernel.on").count()
    assert kernels
    # what was chosen is in sight in every pane
    inside = """pane => new Promise(done => setTimeout(() => {
        const body = document.querySelector(pane), box = body.getBoundingClientRect();
        const at = body.querySelector(".on").getBoundingClientRect();
        done(at.top >= box.top - 1 && at.top < box.bottom);
    }, 600))"""
    assert [page.evaluate(inside, f"#pane-{pane}") for pane in ("source", "nodes", "kernels")] == [True] * 3
    names = page.locator("#pane-assembly .function summary b").all_inner_texts()
    assert names == page.locator("#pane-llvm .function summary b").all_inner_texts()
    assert "xmm" in page.inner_text("#pane-assembly") or "\tv" in page.inner_text("#pane-assembly")
    assert "define" in page.inner_text("#pane-llvm")
    # back: from a function of the assembly to its kernels, nodes and line
    page.keyboard.press("Escape")
    assert page.locator(".kernel.on").count() == 0
    page.click(f'#pane-assembly .function[data-function="{names[0]}"] summary .step')
    assert page.locator(".kernel.on").count() >= 1
    assert "gelu" in page.locator(".node.on .op").all_inner_texts()
    assert any("F.gelu" in line for line in page.locator(".line.on").all_inner_texts())


def test_the_graph_is_drawn_and_searched(visit: Any, page_file: Path, told: Any) -> None:
    page = visit(page_file)
    page.keyboard.press("2")
    page.wait_for_selector("#graph-wait", state="hidden")
    drawn = sum(not node["view"] for node in told.programs[0].nodes)
    assert page.evaluate("graphDrawing.nodes().length") == drawn
    page.fill("#graph-search", "_softmax")
    assert page.evaluate("graphDrawing.nodes('.found').map(n => n.data('label'))").count("_softmax") == 2
    page.click("[data-mode=after]")
    page.wait_for_function(f"graphDrawing.nodes().length === {len(told.programs[0].kernels)}")
    page.keyboard.press("Escape")
    page.evaluate("void graphDrawing.nodes()[0].emit('tap')")
    assert page.is_visible("#graph-info")


def test_the_roofline_is_read(visit: Any, page_file: Path) -> None:
    page = visit(page_file)
    page.keyboard.press("5")
    page.wait_for_selector("#roofline circle")
    page.locator("#roofline circle").first.hover(force=True)
    assert "Gflop/s at" in page.inner_text("#roofline-reading")
    assert page.locator("#timeline rect").count() > 10
    page.click(".kernels-table tbody tr")
    assert page.locator(".kernel.on").count() == 1


def test_the_other_views_and_the_theme(visit: Any, page_file: Path) -> None:
    page = visit(page_file, dark=True)
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.keyboard.press("t")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    page.keyboard.press("3")
    page.fill("#fusion-filter", "stays apart from it")  # cards out of sight have no inner text
    assert "stays apart from it" in page.inner_text("#fusion")
    page.locator("#fusion-filter").blur()
    page.keyboard.press("4")
    assert "the whole function is one graph" in page.inner_text("#guards")
    page.keyboard.press("6")
    page.click('.pass:has-text("build kernels")')
    assert "kernel kernel" in page.inner_text(".pass-text")


def test_a_phone_shows_one_pane(visit: Any, page_file: Path) -> None:
    page = visit(page_file, width=390, height=800)
    assert page.locator(".pane:visible").count() == 1
    page.click('.panes-choice [data-pane="assembly"]')
    assert page.is_visible("#pane-assembly") and not page.is_visible("#pane-source")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_it_is_small_and_opens_quickly(visit: Any, page_file: Path) -> None:
    assert page_file.stat().st_size < 5_000_000
    start = time.perf_counter()
    page = visit(page_file)
    assert time.perf_counter() - start < 20  # on a busy machine; benchmarks/page.py measures it
    # what takes long is left until it is asked for
    ran = "[...document.querySelectorAll('script[data-loaded]')].map(script => script.dataset.asset)"
    assert page.evaluate(ran) == ["highlight"]
    page.keyboard.press("5")
    page.wait_for_selector("#roofline circle")
    assert page.evaluate(ran) == ["d3", "plot", "highlight"]


def test_all_rows_are_there_in_the_end(visit: Any, page_file: Path, told: Any) -> None:
    page = visit(page_file)
    (program,) = told.programs
    assert page.locator(".node").count() == len(program.nodes)
    assert page.locator(".kernel").count() == len(program.kernels)


def test_a_graph_break_has_a_line_and_a_remedy(visit: Any, tmp_path: Path) -> None:
    def reads(x: rl.Tensor) -> rl.Tensor:
        return x * 2 if x.sum() > 0 else x

    told = rl.explain(reads, rl.ones(3))
    assert "graph break" in str(told) and not told.programs
    page = visit(told.save(tmp_path / "break.html"))
    text = page.inner_text("#guards")
    assert "test_program.py" in text and "What to do" in text
    with pytest.raises(RuntimeError, match="no compiled program"):
        told.measured()


def test_forward_and_backward_programs(visit: Any, tmp_path: Path) -> None:
    told = rl.explain(lambda x: x.sin().exp(), rl.ones(64, requires_grad=True)).measured(calls=2)
    assert [program.name for program in told.programs] == ["forward", "backward"]
    assert all(sum(busy) > 0 for busy in told.measurement.busy)
    page = visit(told.save(tmp_path / "two.html"))
    page.select_option("#program", label="backward")
    assert "cos" in page.inner_text("#pane-nodes")


def test_a_notebook_shows_it() -> None:
    shown = rl.explain(lambda x: x + 1, rl.ones(2))._repr_html_()
    assert shown.startswith("<iframe srcdoc=")


def test_the_command_writes_the_page(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "def scale(x, by):\n    return (x * by).softmax(1)\n"
        "@torch.compile\ndef step(x):\n    return scale(x, 2).sum()\n"
        "for _ in range(3):\n    step(torch.ones(8, 16))\n"
    )
    for name, extra in (("step", []), ("scale", ["--function", "scale", "--no-measure"])):
        out = tmp_path / f"{name}.html"
        command = [sys.executable, "-m", "rushlight", "explain", *extra, "--out", str(out), str(script)]
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stderr
        assert f"{name}, " in ended.stdout
        assert out.stat().st_size > 1_000_000
    wrong = subprocess.run(
        [sys.executable, "-m", "rushlight", "explain", "--function", "nothing", str(script)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert wrong.returncode == 2 and "no function nothing" in wrong.stderr
