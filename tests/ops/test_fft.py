"""Fourier transforms: sizes, norms, dimensions and errors, against the oracle."""

import numpy as np
import pytest
import torch

import rushlight as rl

RNG = np.random.default_rng(0)
REAL = RNG.standard_normal((4, 5, 6))
COMPLEX = REAL + 1j * RNG.standard_normal((4, 5, 6))
ONE_DIM = ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")


def same(name, array, *args, **kwargs):
    actual = getattr(rl.fft, name)(rl.tensor(array), *args, **kwargs)
    expected = getattr(torch.fft, name)(torch.tensor(array), *args, **kwargs)
    assert str(actual.dtype).rpartition(".")[2] == str(expected.dtype).rpartition(".")[2]
    np.testing.assert_allclose(
        actual.resolve_conj().numpy(), expected.resolve_conj().numpy(), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("norm", [None, "backward", "forward", "ortho"])
@pytest.mark.parametrize("name", ONE_DIM)
def test_norms_and_sizes(name, norm):
    array = REAL if name in ("rfft", "ihfft") else COMPLEX
    for n in (None, 1, 3, 9):
        same(name, array, n, 1, norm)
    for s, dim in ((None, (0, 2)), ((3, 8), (2, 0)), ((-1, 4), None), (None, None), ((7,), (-1,))):
        same(f"{name}n", array, s, dim, norm)
    same(f"{name}2", array, None, (0, 1), norm)


@pytest.mark.parametrize("n", [1, 2, 7, 8])
def test_frequencies_and_shifts(n):
    for name in ("fftfreq", "rfftfreq"):
        np.testing.assert_allclose(
            getattr(rl.fft, name)(n, 0.5).numpy(), getattr(torch.fft, name)(n, 0.5).numpy()
        )
    array = RNG.standard_normal((n, 3))
    for name in ("fftshift", "ifftshift"):
        same(name, array)
        same(name, array, (0,))


def test_integers_become_floats():
    same("fft", np.arange(5))
    same("rfft", np.arange(5) > 2)


@pytest.mark.parametrize(
    ("name", "array", "args", "error"),
    [
        ("fft", np.ones(0), (), RuntimeError),
        ("fft", np.ones(3), (0,), RuntimeError),
        ("fft", np.ones(3), (None, 2), IndexError),
        ("fft", np.ones(3), (None, -1, "x"), RuntimeError),
        ("rfft", np.ones(3) * 1j, (), RuntimeError),
        ("ihfft", np.ones(3) * 1j, (), RuntimeError),
        ("fftn", np.ones((3, 3)), ((2,), (0, 1)), RuntimeError),
        ("fftn", np.ones((3, 3)), (None, (0, 0)), RuntimeError),
        ("fftn", np.ones(3), ((3, 3),), RuntimeError),
        ("rfftn", np.ones(3), (None, ()), RuntimeError),
        ("irfft", np.ones(1), (), RuntimeError),
        ("fft", np.ones(3, np.float16), (), RuntimeError),
    ],
)
def test_errors(name, array, args, error):
    with pytest.raises(error):
        getattr(torch.fft, name)(torch.tensor(array), *args)
    with pytest.raises(error):
        getattr(rl.fft, name)(rl.tensor(array), *args)


@pytest.mark.parametrize(
    "kwargs",
    [
        {},
        {"center": False},
        {"normalized": True},
        {"onesided": False},
        {"hop_length": 3},
        {"win_length": 6},
        {"center": False, "win_length": 6, "align_to_window": True},
        {"pad_mode": "constant"},
    ],
)
def test_stft(kwargs):
    signal = RNG.standard_normal((2, 50))
    if "win_length" in kwargs:
        window = RNG.uniform(0.5, 1, kwargs["win_length"])
    else:
        window = RNG.uniform(0.5, 1, 8)
    actual = rl.stft(rl.tensor(signal), 8, window=rl.tensor(window), return_complex=True, **kwargs)
    expected = torch.stft(torch.tensor(signal), 8, window=torch.tensor(window), return_complex=True, **kwargs)
    np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kwargs", [{}, {"length": 45}, {"normalized": True}])
def test_istft_inverts_stft(kwargs):
    signal = RNG.standard_normal((2, 48))
    window = RNG.uniform(0.5, 1, 8)
    normalized = kwargs.get("normalized", False)
    spectrum = rl.stft(
        rl.tensor(signal), 8, window=rl.tensor(window), normalized=normalized, return_complex=True
    )
    back = rl.istft(spectrum, 8, window=rl.tensor(window), **kwargs).numpy()
    expected = torch.istft(torch.tensor(spectrum.numpy()), 8, window=torch.tensor(window), **kwargs).numpy()
    np.testing.assert_allclose(back, expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(back[:, :45], signal[:, :45], rtol=1e-10, atol=1e-12)


def test_istft_pads_a_short_signal():
    spectrum = rl.stft(rl.tensor(RNG.standard_normal(48)), 8, return_complex=True)
    with pytest.warns(UserWarning, match="shorter"):
        back = rl.istft(spectrum, 8, length=60)
    assert back.shape == (60,)
    assert (back[54:] == 0).all()


def test_istft_refuses_windows_with_gaps():
    spectrum = torch.stft(torch.ones(64), 8, hop_length=8, window=torch.zeros(8), return_complex=True)
    with pytest.raises(RuntimeError, match="overlap add"):
        rl.istft(rl.tensor(spectrum.numpy()), 8, hop_length=8, window=rl.zeros(8))


@pytest.mark.parametrize("name", rl.signal.windows.__all__)
def test_windows(name):
    kwargs = {"a": [0.5, 0.3, 0.2]} if name == "general_cosine" else {}
    for size in (0, 1, 2, 5, 8):
        for sym in (True, False):
            actual = getattr(rl.signal.windows, name)(size, sym=sym, dtype=rl.float64, **kwargs)
            expected = getattr(torch.signal.windows, name)(size, sym=sym, dtype=torch.float64, **kwargs)
            np.testing.assert_allclose(actual.numpy(), expected.numpy(), rtol=1e-12, atol=1e-15)


def test_windows_refuse_bad_arguments():
    windows = rl.signal.windows
    for call in (
        lambda: windows.hann(-1),
        lambda: windows.gaussian(3, std=0),
        lambda: windows.kaiser(3, beta=-1),
        lambda: windows.general_cosine(3, a=[]),
        lambda: windows.hann(3, dtype=rl.int64),
    ):
        with pytest.raises(ValueError, match=r"."):
            call()
