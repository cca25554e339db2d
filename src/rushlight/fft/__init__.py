"""Fourier transforms, under PyTorch's names."""

from .._api.link import API

globals().update(API.functions.get("fft", {}))
__all__ = list(API.functions.get("fft", {}))
