"""What `rushlight.onnx` raises."""

from __future__ import annotations

__all__ = ["OnnxExporterError", "UnsupportedOperatorError"]


class OnnxExporterError(RuntimeError):
    """A program cannot be exported.

    >>> issubclass(rl.onnx.OnnxExporterError, RuntimeError)
    True
    """


class UnsupportedOperatorError(OnnxExporterError):
    """A program has an operator that ONNX has no form for here.

    >>> rl.onnx.errors.UnsupportedOperatorError("aten.rand.default").name
    'aten.rand.default'
    """

    def __init__(self, name: str, place: str = "", why: str = "") -> None:
        self.name = name
        where = f" ({place})" if place else ""
        super().__init__(f"onnx.export: {name}{where} has no form in ONNX{': ' if why else ''}{why}")
