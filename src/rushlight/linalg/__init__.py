"""Linear algebra, under PyTorch's names."""

from .._api.link import API
from ..core.errors import LinAlgError

globals().update(API.functions.get("linalg", {}))
__all__ = list(API.functions.get("linalg", {}))
__all__ += ["LinAlgError"]
