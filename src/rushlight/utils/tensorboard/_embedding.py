"""Points in space, for the projector of TensorBoard: files in a directory of their own."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from google.protobuf import text_format
from tensorboard.plugins.projector.projector_config_pb2 import ProjectorConfig

from ._arrays import array, to_bytes

_CONFIG = "projector_config.pbtxt"
_ESCAPED = "%/\\"  # in names of directories


def write(
    log_dir: str, points: np.ndarray, labels: Any, pictures: Any, step: Any, tag: str, header: Any
) -> None:
    """The points, their labels and pictures of them."""
    if points.ndim != 2:
        raise AssertionError(
            f"mat should be 2D, where mat.size(0) is the number of data points, not {points.shape}"
        )
    for what, given in (("labels", labels), ("images", pictures)):
        if given is not None and len(given) != len(points):
            raise AssertionError(f"#{what} should equal with #data points")
    name = f"{str(step).zfill(5)}/{''.join(f'%{ord(c):02x}' if c in _ESCAPED else c for c in tag)}"
    place = Path(log_dir) / name
    place.mkdir(parents=True, exist_ok=True)
    _rows(place / "tensors.tsv", [[repr(float(x)) for x in row] for row in points])
    config = _config(Path(log_dir) / _CONFIG)
    entry = config.embeddings.add(
        tensor_name=f"{tag}:{str(step).zfill(5)}", tensor_path=f"{name}/tensors.tsv"
    )
    if labels is not None:
        rows = [[str(x) for x in (row if header else [row])] for row in labels]
        _rows(place / "metadata.tsv", [list(header), *rows] if header else rows)
        entry.metadata_path = f"{name}/metadata.tsv"
    if pictures is not None:
        width, height = _sprite(place / "sprite.png", array(pictures))
        entry.sprite.image_path = f"{name}/sprite.png"
        entry.sprite.single_image_dim.extend([width, height])
    (Path(log_dir) / _CONFIG).write_text(text_format.MessageToString(config), encoding="utf-8")


def _config(path: Path) -> Any:
    config = ProjectorConfig()
    if path.exists():
        text_format.Parse(path.read_text(encoding="utf-8"), config)
    return config


def _rows(path: Path, rows: list[list[str]]) -> None:
    path.write_text("".join("\t".join(row) + "\n" for row in rows), encoding="utf-8")


def _sprite(path: Path, pictures: np.ndarray) -> tuple[int, int]:
    """Pictures (count, channels, height, width) in a square; the size of one."""
    from PIL import Image

    count, channels, height, width = pictures.shape
    across = math.ceil(math.sqrt(count))
    whole = np.zeros((across * height, across * width, channels), pictures.dtype)
    for i, part in enumerate(pictures):
        y, x = divmod(i, across)
        whole[y * height : (y + 1) * height, x * width : (x + 1) * width] = part.transpose(1, 2, 0)
    pixels = to_bytes(whole)
    Image.fromarray(pixels if channels > 1 else pixels[..., 0]).save(path)
    return width, height
