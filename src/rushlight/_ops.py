"""The classes of operators, under the name their module has in PyTorch."""

from ._library.higher_order import HigherOrderOperator
from .core.aten import OpNamespace, OpOverload, OpOverloadPacket

__all__ = ["HigherOrderOperator", "OpNamespace", "OpOverload", "OpOverloadPacket"]
