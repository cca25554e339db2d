"""Short-time Fourier transforms: framing, windowing, transform, and their inverse by overlap and add."""

from __future__ import annotations

import warnings
from typing import Any

from ..core.dispatch import run_name
from ..core.errors import check
from ..core.registry import FUNCTION, INTERNAL, METHOD, composite
from ..core.tensor import META, TRACED, Tensor
from .fft import resized

_SMALLEST_ENVELOPE = 1e-11


def fitted_window(window: Tensor | None, like: Tensor, win_length: int, n_fft: int, name: str) -> Tensor:
    """The window in the middle of `n_fft` samples; a rectangular one if none is given."""
    if window is None:
        dtype = like.dtype.to_real() if like.is_complex() else like.dtype
        window = run_name("ones", (win_length,), dtype, None, like.device, None)
    check(
        window.ndim == 1 and window.shape[0] == win_length,
        f"{name}: expected a 1D window tensor of size equal to win_length={win_length}, but got window with "
        f"size {list(window.shape)}",
    )
    left = (n_fft - win_length) // 2
    return (
        window
        if win_length == n_fft
        else run_name("constant_pad_nd", window, (left, n_fft - win_length - left), 0)
    )


def check_lengths(n_fft: int, hop_length: int, win_length: int, name: str) -> None:
    check(n_fft > 0, f"{name}: expected n_fft > 0, but got n_fft={n_fft}")
    check(hop_length > 0, f"{name}: expected hop_length > 0, but got hop_length={hop_length}")
    check(
        0 < win_length <= n_fft,
        f"{name}: expected 0 < win_length <= n_fft, but got win_length={win_length}, n_fft={n_fft}",
    )


@composite(
    "stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
    'bool center=True, str pad_mode="reflect", bool normalized=False, bool? onesided=None, '
    "bool? return_complex=None, bool? align_to_window=None) -> Tensor",
    api=FUNCTION | METHOD,
)
def stft_center(
    self: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Tensor | None,
    center: bool,
    pad_mode: str,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool | None,
    align_to_window: bool | None,
) -> Tensor:
    check(
        self.is_floating_point() or self.is_complex(),
        f"stft: expected a tensor of floating point or complex values, got {self.dtype.name}",
    )
    check(1 <= self.ndim <= 2, f"stft: expected a 1D or 2D tensor, but got a {self.ndim}D tensor")
    check(not center or align_to_window is None, "stft only supports align_to_window when center = False.")
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    check_lengths(n_fft, hop, width, "stft")
    is_complex = self.is_complex() or (window is not None and window.is_complex())
    check(
        return_complex is not None or is_complex,
        "stft requires the return_complex parameter be given for real inputs, and will further require that "
        "return_complex=True in a future release: pass return_complex=True",
    )
    one = onesided if onesided is not None else not is_complex
    check(not (one and is_complex), "Cannot have onesided output if window or input is complex")
    signal = self.unsqueeze(0) if self.ndim == 1 else self
    if center:
        half = n_fft // 2
        signal = run_name("pad", signal.unsqueeze(1), (half, half), pad_mode, None).squeeze(1)
    elif align_to_window:
        margin = (n_fft - width) // 2
        signal = run_name("constant_pad_nd", signal, (margin, n_fft - width - margin), 0)
    check(n_fft <= signal.shape[1], f"stft: expected 0 < n_fft <= {signal.shape[1]}, but got n_fft={n_fft}")
    frames = signal.unfold(1, n_fft, hop) * fitted_window(window, self, width, n_fft, "stft")
    result = _spectrum(frames, 1 if normalized else 0, one).transpose(1, 2)
    result = result.squeeze(0) if self.ndim == 1 else result
    return result if return_complex or return_complex is None else run_name("view_as_real", result)


def _spectrum(frames: Tensor, normalization: int, onesided: bool) -> Tensor:
    if frames.is_complex():
        return run_name("_fft_c2c", frames, (2,), normalization, True)
    return run_name("_fft_r2c", frames, (2,), normalization, onesided)


@composite(
    "stft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
    "bool normalized=False, bool? onesided=None, bool? return_complex=None, "
    "bool? align_to_window=None) -> Tensor",
    api=INTERNAL,
)
def stft(
    self: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Tensor | None,
    normalized: bool,
    onesided: bool | None,
    return_complex: bool | None,
    align_to_window: bool | None,
) -> Tensor:
    return stft_center(
        self,
        n_fft,
        hop_length,
        win_length,
        window,
        False,
        "constant",
        normalized,
        onesided,
        return_complex,
        align_to_window,
    )


@composite(
    "istft(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None, "
    "bool center=True, bool normalized=False, bool? onesided=None, int? length=None, "
    "bool return_complex=False) -> Tensor",
    api=FUNCTION | METHOD,
)
def istft(
    self: Tensor,
    n_fft: int,
    hop_length: int | None,
    win_length: int | None,
    window: Tensor | None,
    center: bool,
    normalized: bool,
    onesided: bool | None,
    length: int | None,
    return_complex: bool,
) -> Tensor:
    check(
        self.is_complex(),
        "istft requires a complex-valued input tensor matching the output from stft with "
        "return_complex=True.",
    )
    check(2 <= self.ndim <= 3, f"istft: expected a tensor with 2 or 3 dimensions, but got {self.ndim}")
    check(self.numel() > 0, "istft: the input tensor cannot be empty")
    hop = n_fft // 4 if hop_length is None else hop_length
    width = n_fft if win_length is None else win_length
    check_lengths(n_fft, hop, width, "istft")
    bins, frames = self.shape[-2:]
    one = onesided if onesided is not None else bins != n_fft
    check(
        bins == (n_fft // 2 + 1 if one else n_fft),
        f"istft: expected the frequency dimension (2nd to the last) of the input tensor to be "
        f"{n_fft // 2 + 1 if one else n_fft} with onesided={one}, but got {bins}",
    )
    check(not (one and return_complex), "istft: cannot have onesided input and return_complex=True")
    spectrum = (self.unsqueeze(0) if self.ndim == 2 else self).transpose(1, 2)
    shape = fitted_window(window, self, width, n_fft, "istft")
    check(
        return_complex or not shape.is_complex(),
        "istft: complex windows are incompatible with return_complex=False",
    )
    pieces = _signal(spectrum, 1 if normalized else 2, n_fft, one, return_complex) * shape
    total = n_fft + hop * (frames - 1)
    added = overlap_added(pieces, (pieces.shape[0], total), n_fft, hop)
    envelope = overlap_added((shape * shape).expand(1, frames, n_fft), (1, total), n_fft, hop)
    start = n_fft // 2 if center else 0
    end = start + length if length is not None else total - start if center else total
    end = min(end, total)
    added, envelope = added.narrow(1, start, end - start), envelope.narrow(1, start, end - start)
    _check_envelope(envelope)
    result = added / envelope
    if length is not None and result.shape[1] < length:
        warnings.warn(
            "istft: the signal is shorter than length, so zeros are added at its end; look at center and "
            "hop_length",
            stacklevel=2,
        )
        result = resized(result, (1,), (length,))
    return result.squeeze(0) if self.ndim == 2 else result


def _signal(spectrum: Tensor, normalization: int, n_fft: int, onesided: bool, return_complex: bool) -> Tensor:
    if return_complex:
        return run_name("_fft_c2c", spectrum, (2,), normalization, False)
    half = spectrum if onesided else spectrum.narrow(2, 0, n_fft // 2 + 1)
    return run_name("_fft_c2r", half, (2,), normalization, n_fft)


def overlap_added(pieces: Tensor, sizes: tuple[int, int], n_fft: int, hop: int) -> Tensor:
    """The sum of the pieces, each `hop` after the one before: what `unfold` takes apart put together."""
    return run_name("unfold_backward", pieces, sizes, 1, n_fft, hop)


def _check_envelope(envelope: Tensor) -> None:
    """Samples that no window covers cannot be found again. Looked at where there are values to look at."""
    if envelope._keys & (TRACED | META) or not envelope.numel():
        return
    smallest: Any = envelope.detach().abs().min().item()
    check(
        smallest > _SMALLEST_ENVELOPE,
        f"istft: window overlap add min: {smallest}; the window and hop_length leave samples that no frame "
        "covers",
    )
