"""Special functions, under PyTorch's names."""

from .._api.link import API

globals().update(API.functions.get("special", {}))
__all__ = list(API.functions.get("special", {}))
