"""Logs for TensorBoard: the events that PyTorch's SummaryWriter writes for the same calls."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

pytest.importorskip("tensorboard", reason="of the extra `tensorboard`")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from tensorboard.backend.event_processing.event_file_loader import LegacyEventFileLoader
    from torch.utils.tensorboard import SummaryWriter as Theirs

import rushlight as rl
from rushlight.utils.tensorboard import SummaryWriter as Ours


def events(directory: Path) -> dict[str, list[Any]]:
    """By directory, what was written, without times."""
    found: dict[str, list[Any]] = {}
    for path in sorted(directory.rglob("events.*")):
        where = str(path.parent.relative_to(directory))
        for event in LegacyEventFileLoader(str(path)).Load():
            event.wall_time = 0
            event.ClearField("source_metadata")
            if not event.file_version:
                found.setdefault(where, []).append(event)
    return found


RAMP = np.linspace(-1, 2, 50)

CALLS: dict[str, Callable[[Any, Any], None]] = {
    "scalars": lambda w, t: [w.add_scalar("loss", t.tensor(0.5) / (i + 1), i) for i in range(3)],
    "new scalars": lambda w, t: w.add_scalar("loss", 0.1, 4, new_style=True, double_precision=True),
    "several": lambda w, t: w.add_scalars("both", {"a b": 1, "c": t.tensor([2.0])}, 3),
    "tensor": lambda w, t: w.add_tensor("x", t.arange(6.0).reshape(2, 3), 1),
    "histogram": lambda w, t: w.add_histogram("h", t.from_numpy(RAMP), 1),
    "histogram of bins": lambda w, t: w.add_histogram("h", t.from_numpy(RAMP), 1, bins="auto"),
    "few bins": lambda w, t: w.add_histogram("h", RAMP, 1, max_bins=10),
    "raw histogram": lambda w, t: w.add_histogram_raw("h", 0, 2, 3, 3, 5, [0, 1, 2], [1, 1, 1], 2),
    "image": lambda w, t: w.add_image("i", t.linspace(0, 1, 3 * 4 * 5).reshape(3, 4, 5), 1),
    "gray image": lambda w, t: w.add_image("i", t.linspace(0, 1, 20).reshape(4, 5), 1, dataformats="HW"),
    "bytes": lambda w, t: w.add_image("i", np.arange(60, dtype=np.uint8).reshape(4, 5, 3), dataformats="HWC"),
    "images": lambda w, t: w.add_images("i", t.from_numpy(np.arange(120) / 119).reshape(10, 3, 2, 2), 1),
    "audio": lambda w, t: w.add_audio("a", t.linspace(-1, 1, 100), 2, sample_rate=8000),
    "text": lambda w, t: w.add_text("notes", "# begin", 0),
    "precision": lambda w, t: w.add_pr_curve(
        "pr", t.tensor([0, 1, 1, 0, 1]), t.tensor([0.1, 0.9, 0.4, 0.6, 0.7]), 1
    ),
    "layout": lambda w, t: w.add_custom_scalars(
        {"c": {"one": ["Multiline", ["a", "b"]], "two": ["Margin", ["x", "y", "z"]]}}
    ),
    "margin": lambda w, t: w.add_custom_scalars_marginchart(["x", "y", "z"], "c", "one"),
    "lines": lambda w, t: w.add_custom_scalars_multilinechart(["x", "y"], "c", "one"),
    "mesh": lambda w, t: w.add_mesh(
        "m", t.ones(1, 4, 3), t.full((1, 4, 3), 7), t.tensor([[[0, 1, 2]]]), {"lights": []}, 3
    ),
    "hyperparameters": lambda w, t: w.add_hparams(
        {"lr": 0.1, "kind": "sgd", "fast": True, "n": t.tensor([3.0])},
        {"accuracy": 0.5},
        {"lr": [0.1, 0.2], "kind": ["sgd", "adam"]},
        run_name="run",
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_events_are_those_of_pytorch(name: str, tmp_path: Path) -> None:
    for label, kind, library in (("ours", Ours, rl), ("theirs", Theirs, torch)):
        with kind(tmp_path / label) as writer:
            CALLS[name](writer, library)
    ours, theirs = events(tmp_path / "ours"), events(tmp_path / "theirs")
    assert theirs
    assert ours.keys() == theirs.keys()
    for where in ours:
        assert len(ours[where]) == len(theirs[where])
        for mine, other in zip(ours[where], theirs[where], strict=True):
            assert mine == other


def test_embeddings(tmp_path: Path) -> None:
    for label, kind, library in (("ours", Ours, rl), ("theirs", Theirs, torch)):
        with kind(tmp_path / label) as writer:
            points = library.arange(12.0).reshape(4, 3)
            writer.add_embedding(points, ["a", "b", "c", "d"], library.ones(4, 3, 2, 2) / 2, 7, "first try/%")
            writer.add_embedding(points, [["a", 1]] * 4, metadata_header=["name", "number"])
    for name in (
        "00007/first try%2f%25/tensors.tsv",
        "00007/first try%2f%25/metadata.tsv",
        "00000/default/metadata.tsv",
    ):
        assert (tmp_path / "ours" / name).read_text() == (tmp_path / "theirs" / name).read_text()
    configs = [
        (tmp_path / label / "projector_config.pbtxt").read_text().split() for label in ("ours", "theirs")
    ]
    assert configs[0] == configs[1]


def test_graphs_videos_and_boxes(tmp_path: Path) -> None:
    model = rl.nn.Sequential(rl.nn.Linear(3, 4), rl.nn.ReLU())
    with Ours(tmp_path) as writer:
        writer.add_graph(model, rl.ones(2, 3))
        writer.add_video("v", rl.rand(1, 4, 3, 8, 8), 1)
        writer.add_image_with_boxes("b", rl.zeros(3, 9, 9), rl.tensor([[1, 1, 5, 5]]), 2, labels=["one"])
    graph, video, boxes = events(tmp_path)["."]
    from tensorboard.compat.proto.graph_pb2 import GraphDef

    nodes = {node.name: node for node in GraphDef.FromString(graph.graph_def).node}
    assert {"aten::addmm", "aten::relu"} <= {node.op for node in nodes.values()}
    assert all(given in nodes for node in nodes.values() for given in node.input)
    assert video.summary.value[0].image.encoded_image_string.startswith(b"GIF")
    picture = boxes.summary.value[0].image
    assert (picture.height, picture.width, boxes.step) == (9, 9, 2)


def test_figures(tmp_path: Path) -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot", reason="draws the figure")
    pyplot.switch_backend("agg")
    with Ours(tmp_path) as writer:
        writer.add_figure("f", pyplot.figure(figsize=(2, 1), dpi=50), 1)
    (event,) = events(tmp_path)["."]
    assert (event.summary.value[0].image.width, event.summary.value[0].image.height) == (100, 50)
    assert not pyplot.get_fignums()


def test_runs_have_directories_and_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    writer = Ours(comment="_try", purge_step=4, filename_suffix=".mine")
    writer.add_scalar("a", 1, 4)
    writer.close()
    writer.add_scalar("a", 2, 5)  # begins another file
    writer.close()
    assert writer.get_logdir().startswith("runs/")
    assert writer.log_dir.endswith("_try")
    files = list((tmp_path / writer.log_dir).iterdir())
    assert all(path.name.endswith(".mine") for path in files)
    steps = [event.step for event in events(tmp_path)[writer.log_dir]]
    assert steps.count(4) >= 2 and steps.count(5) == 1


def test_bad_arguments(tmp_path: Path) -> None:
    with Ours(tmp_path) as writer:
        with pytest.raises(AssertionError, match="0D"):
            writer.add_scalar("a", rl.ones(2))
        with pytest.raises(NotImplementedError, match="numpy array or torch tensor"):
            writer.add_scalar("a", "b")
        with pytest.raises(AssertionError, match="input format"):
            writer.add_image("a", rl.ones(2, 3))
        with pytest.raises(ValueError, match="no element"):
            writer.add_histogram("a", rl.ones(0))
        with pytest.raises(AssertionError, match="three tags"):
            writer.add_custom_scalars_marginchart(["a"])
        with pytest.raises(TypeError, match="dictionary"):
            writer.add_hparams([], {})


def test_without_the_package_the_import_says_what_to_install() -> None:
    code = (
        "import sys; sys.modules['tensorboard'] = None\n"
        "try:\n    import rushlight.utils.tensorboard\nexcept ImportError as e:\n    print(e)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'rushlight[tensorboard]'" in done.stdout
