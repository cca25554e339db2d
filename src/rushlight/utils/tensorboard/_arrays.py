"""What users log, as arrays: numbers, tensors, pictures, sounds."""

from __future__ import annotations

import io
import wave
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...core.tensor import Tensor


def array(value: Any) -> np.ndarray:
    """A tensor, an array, a number or a list of these."""
    if isinstance(value, Tensor):
        return np.asarray(value.detach().numpy_array())
    if isinstance(value, list | tuple) and any(isinstance(part, Tensor) for part in value):
        return np.stack([array(part) for part in value])
    if isinstance(value, str):
        raise NotImplementedError(f"Got {type(value)}, but numpy array or torch tensor are expected.")
    return np.asarray(value)


def number(value: Any) -> np.ndarray:
    """A value that has one element."""
    found = array(value).squeeze()
    if found.ndim:
        raise AssertionError(f"a scalar should be 0D, but it has shape {found.shape}")
    return found


# Pictures.


def picture(value: Any, dataformats: str) -> np.ndarray:
    """A picture, or several side by side, as (height, width, channels) of uint8. `dataformats` has a letter for
    each dimension: N, C, H and W."""
    found, letters = array(value), dataformats.upper()
    if found.ndim != len(letters) or len(set(letters)) != len(letters) or not set(letters) <= set("NCHW"):
        raise AssertionError(
            f"size of input tensor and input format are different: {found.shape} and {dataformats}"
        )
    for letter in "NC":
        if letter not in letters:
            found, letters = found[None], letter + letters
    found = found.transpose([letters.index(letter) for letter in "NHWC"])
    if found.shape[3] == 1:
        found = np.broadcast_to(found, (*found.shape[:3], 3))
    return to_bytes(_grid(found))


def to_bytes(pictures: np.ndarray) -> np.ndarray:
    """Brightness of 0 to 1, unless it is that of uint8 already."""
    if pictures.dtype == np.uint8:
        return pictures
    return np.clip(pictures.astype(np.float32) * 255, 0, 255).astype(np.uint8)


def _grid(pictures: np.ndarray) -> np.ndarray:
    """Pictures in rows of up to eight."""
    count, height, width, channels = pictures.shape
    if count == 1:
        return pictures[0]
    across = min(count, 8)
    down = -(-count // across)
    whole = np.zeros((down * height, across * width, channels), pictures.dtype)
    for i, part in enumerate(pictures):
        y, x = divmod(i, across)
        whole[y * height : (y + 1) * height, x * width : (x + 1) * width] = part
    return whole


def png(
    pixels: np.ndarray, rescale: float = 1, boxes: Any = None, labels: Sequence[str] | None = None
) -> tuple[Any, ...]:
    """(height, width, channels, bytes of a PNG file), with boxes drawn into it."""
    from PIL import Image, ImageDraw

    height, width, channels = pixels.shape
    image = Image.fromarray(np.ascontiguousarray(pixels))
    if boxes is not None:
        draw = ImageDraw.Draw(image)
        for i, (left, top, right, bottom) in enumerate(array(boxes).tolist()):
            draw.rectangle((left, top, right, bottom), outline="red", width=2)
            if labels:
                draw.text((left, top), str(labels[i]), fill="red")
    height, width = int(height * rescale), int(width * rescale)
    if rescale != 1:
        image = image.resize((width, height), Image.Resampling.LANCZOS)
    memory = io.BytesIO()
    image.save(memory, format="PNG")
    return height, width, channels, memory.getvalue()


def gif(value: Any, fps: float) -> tuple[Any, ...]:
    """(height, width, channels, bytes of a GIF file) of (batch, time, channels, height, width); the batch side by
    side."""
    from PIL import Image

    found = array(value)
    if found.ndim != 5:
        raise AssertionError(f"a video has 5 dimensions (N, T, C, H, W), not shape {found.shape}")
    frames = to_bytes(np.stack([_grid(part.transpose(0, 2, 3, 1)) for part in found.swapaxes(0, 1)]))
    if frames.shape[3] == 1:
        frames = np.broadcast_to(frames, (*frames.shape[:3], 3))
    images = [Image.fromarray(np.ascontiguousarray(frame)) for frame in frames]
    memory = io.BytesIO()
    images[0].save(memory, format="GIF", save_all=True, append_images=images[1:], duration=1000 / fps, loop=0)
    return (*frames.shape[1:], memory.getvalue())


def wav(value: Any, rate: int) -> tuple[int, bytes]:
    """(frames, bytes of a WAV file) of samples from -1 to 1."""
    found = array(value).squeeze()
    if np.abs(found).max(initial=0) > 1:
        found = np.clip(found, -1, 1)
    if found.ndim != 1:
        raise AssertionError(f"a sound has 1 dimension, not shape {found.shape}")
    samples = (found * np.iinfo(np.int16).max).astype("<i2")
    memory = io.BytesIO()
    with wave.open(memory, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(samples.tobytes())
    return len(samples), memory.getvalue()


# Histograms.


def default_bins() -> np.ndarray:
    """Limits that grow by a tenth, of both signs."""
    limits, limit = [], 1e-12
    while limit < 1e20:
        limits.append(limit)
        limit *= 1.1
    return np.array([-x for x in reversed(limits)] + [0.0] + limits)


def counted(values: Any, bins: Any, most: int | None) -> dict[str, Any]:
    """How many values lie in which range, for a histogram."""
    found = array(values).reshape(-1).astype(np.float64)
    if not found.size:
        raise ValueError("The input has no element.")
    counts, limits = np.histogram(found, bins=default_bins() if bins == "tensorflow" else bins)
    if most is not None and len(counts) > most:
        step = len(counts) // most
        padded = np.pad(counts, (0, -len(counts) % step))
        counts = padded.reshape(-1, step).sum(1)
        limits = np.append(limits[:-1][::step], limits[-1])
    used = np.flatnonzero(counts)
    if not used.size:
        raise ValueError("The histogram is empty, please file a bug report.")
    first, last = used[0], used[-1] + 1
    kept = counts[max(first - 1, 0) : last]
    edges = limits[first : last + 1]
    if first == 0:  # an empty range before the first value tells where that begins
        kept = np.concatenate([[0], kept])
    return {
        "min": found.min(),
        "max": found.max(),
        "num": found.size,
        "sum": found.sum(),
        "sum_squares": found.dot(found),
        "bucket_limit": edges.tolist(),
        "bucket": kept.tolist(),
    }
