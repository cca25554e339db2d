"""Places of quantization in models, which are written with them whether they are quantized or not.

Observers, `prepare` and `convert` are not available.
"""

from __future__ import annotations

from typing import Any

from ...core.tensor import Tensor
from ...nn.modules.module import Module

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]


class _Identity(Module):
    def __init__(self, qconfig: Any = None) -> None:
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x: Tensor) -> Tensor:
        return x


class QuantStub(_Identity):
    """Where a quantized model would quantize. It gives back what comes in.

    >>> rl.ao.quantization.QuantStub()(rl.ones(2))
    tensor([1., 1.])
    """


class DeQuantStub(_Identity):
    """Where a quantized model would dequantize. It gives back what comes in.

    >>> rl.ao.quantization.DeQuantStub()(rl.ones(2))
    tensor([1., 1.])
    """


class QuantWrapper(Module):
    """A module between the two.

    >>> rl.ao.quantization.QuantWrapper(nn.ReLU())(rl.tensor([-1.0, 2.0]))
    tensor([0., 2.])
    """

    def __init__(self, module: Module) -> None:
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.quant, self.dequant, self.module = QuantStub(qconfig), DeQuantStub(qconfig), module
        self.train(module.training)

    def forward(self, X: Tensor) -> Any:
        return self.dequant(self.module(self.quant(X)))
