"""Entries of logs that need no plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tensorboard.compat.proto.summary_pb2 import HistogramProto, Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto

from ._arrays import array, counted, gif, number, picture, png, to_bytes, wav

_KINDS = {"float32": "DT_FLOAT", "float64": "DT_DOUBLE", "float16": "DT_HALF", "bfloat16": "DT_BFLOAT16"}


def metadata(plugin: str, content: bytes = b"") -> SummaryMetadata:
    return SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=plugin, content=content))


def scalar(tag: str, value: Any, *, new_style: bool = False, double_precision: bool = False) -> Summary:
    found = number(value)
    if not new_style:
        return Summary(value=[Summary.Value(tag=tag, simple_value=float(found))])
    if double_precision:
        tensor = TensorProto(double_val=[float(found)], dtype="DT_DOUBLE")
    else:
        tensor = TensorProto(float_val=[float(found)], dtype="DT_FLOAT")
    return Summary(value=[Summary.Value(tag=tag, tensor=tensor, metadata=metadata("scalars"))])


def tensor(tag: str, value: Any) -> Summary:
    found = array(value)
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=size) for size in found.shape])
    if found.dtype == np.float32:
        content = TensorProto(dtype="DT_FLOAT", float_val=found.reshape(-1).tolist(), tensor_shape=shape)
    elif found.dtype.name in _KINDS:
        content = TensorProto(
            dtype=_KINDS[found.dtype.name], tensor_content=found.tobytes(), tensor_shape=shape
        )
    else:
        raise ValueError(f"add_tensor: a tensor of floats is expected, not of {found.dtype.name}")
    plugin = SummaryMetadata.PluginData(plugin_name="tensor")
    return Summary(
        value=[Summary.Value(tag=tag, tensor=content, metadata=SummaryMetadata(plugin_data=plugin))]
    )


def histogram(tag: str, values: Any, bins: Any, most: int | None) -> Summary:
    return counted_histogram(tag, counted(values, bins, most))


def counted_histogram(tag: str, parts: Mapping[str, Any]) -> Summary:
    return Summary(value=[Summary.Value(tag=tag, histo=HistogramProto(**parts))])


def image(
    tag: str,
    value: Any,
    dataformats: str,
    rescale: float = 1,
    boxes: Any = None,
    labels: Sequence[str] | None = None,
) -> Summary:
    return _picture(tag, png(picture(value, dataformats), rescale, boxes, labels))


def video(tag: str, value: Any, fps: float) -> Summary:
    return _picture(tag, gif(value, fps))


def _picture(tag: str, parts: Sequence[Any]) -> Summary:
    height, width, channels, content = parts
    made = Summary.Image(height=height, width=width, colorspace=channels, encoded_image_string=content)
    return Summary(value=[Summary.Value(tag=tag, image=made)])


def audio(tag: str, value: Any, rate: int) -> Summary:
    frames, content = wav(value, rate)
    made = Summary.Audio(
        sample_rate=rate,
        num_channels=1,
        length_frames=frames,
        encoded_audio_string=content,
        content_type="audio/wav",
    )
    return Summary(value=[Summary.Value(tag=tag, audio=made)])


def text(tag: str, value: str) -> Summary:
    content = TensorProto(
        dtype="DT_STRING",
        string_val=[value.encode("utf-8")],
        tensor_shape=TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)]),
    )
    return Summary(
        value=[Summary.Value(tag=f"{tag}/text_summary", tensor=content, metadata=metadata("text"))]
    )


def figure_pixels(figures: Any, close: bool) -> np.ndarray:
    """Figures of matplotlib as pictures: (height, width, channels), or several of them."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    def drawn(figure: Any) -> np.ndarray:
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        pixels = np.asarray(canvas.buffer_rgba())[..., :3].copy()
        if close:
            from matplotlib import pyplot

            pyplot.close(figure)
        return to_bytes(pixels)

    return np.stack(list(map(drawn, figures))) if isinstance(figures, list) else drawn(figures)
