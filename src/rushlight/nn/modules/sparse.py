"""Embedding and EmbeddingBag: rows of a table, looked up by index."""

from __future__ import annotations

from typing import Any

from ...autograd.grad_mode import no_grad
from ...core.errors import check
from ...core.tensor import Tensor
from .. import init
from ..parameter import Parameter
from ._simple import F, new_parameter
from .module import Module

__all__ = ["Embedding", "EmbeddingBag"]


class _Table(Module):
    """A weight of `num_embeddings` rows; the row `padding_idx` starts as zeros."""

    weight: Any
    padding_idx: int | None

    def _set_padding(self, padding_idx: int | None, name: str) -> None:
        rows = self.num_embeddings
        check(
            padding_idx is None or -rows <= padding_idx < max(rows, 1),
            f"{name} must be within num_embeddings",
            AssertionError,
        )
        self.padding_idx = padding_idx + rows if padding_idx is not None and padding_idx < 0 else padding_idx

    def _set_weight(self, weight: Tensor | None, device: Any, dtype: Any, freeze: bool = False) -> None:
        shape = (self.num_embeddings, self.embedding_dim)
        if weight is None:
            self.weight = new_parameter(shape, device, dtype)._set_requires_grad(not freeze)
            self.reset_parameters()
            return
        check(
            tuple(weight.shape) == shape,
            "Shape of weight does not match num_embeddings and embedding_dim",
            AssertionError,
        )
        self.weight = Parameter(weight, requires_grad=not freeze)

    def reset_parameters(self) -> None:
        init.normal_(self.weight)
        self._fill_padding_idx_with_zero()

    def _fill_padding_idx_with_zero(self) -> None:
        if self.padding_idx is not None:
            with no_grad():
                self.weight[self.padding_idx].fill_(0)

    @classmethod
    def _from_rows(cls, embeddings: Tensor, **options: Any) -> Any:
        check(embeddings.ndim == 2, "Embeddings parameter is expected to be 2-dimensional", AssertionError)
        rows, columns = embeddings.shape
        return cls(num_embeddings=rows, embedding_dim=columns, _weight=embeddings, **options)


class Embedding(_Table):
    """Rows of `weight`, one for each index of the input.

    >>> nn.Embedding(10, 3)(rl.tensor([1, 4])).shape
    rushlight.Size([2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
        _weight: Tensor | None = None,
        _freeze: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self._set_padding(padding_idx, "Padding_idx")
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self._set_weight(_weight, device, dtype, _freeze)
        self.sparse = sparse

    def forward(self, input: Tensor) -> Tensor:
        return F.embedding(
            input,
            self.weight,
            self.padding_idx,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.sparse,
        )

    def extra_repr(self) -> str:
        return ", ".join(
            [
                f"{self.num_embeddings}, {self.embedding_dim}",
                *([f"padding_idx={self.padding_idx}"] if self.padding_idx is not None else []),
                *([f"max_norm={self.max_norm}"] if self.max_norm is not None else []),
                *([f"norm_type={self.norm_type}"] if self.norm_type != 2 else []),
                *([f"scale_grad_by_freq={self.scale_grad_by_freq}"] if self.scale_grad_by_freq else []),
                *(["sparse=True"] if self.sparse else []),
            ]
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        padding_idx: int | None = None,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        sparse: bool = False,
    ) -> Any:
        """An Embedding of the rows given."""
        return cls._from_rows(
            embeddings,
            _freeze=freeze,
            padding_idx=padding_idx,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            sparse=sparse,
        )


class EmbeddingBag(_Table):
    """Sums, means or maxima of rows of `weight`, over bags of indices.

    >>> nn.EmbeddingBag(10, 3)(rl.tensor([[1, 4], [2, 2]])).shape
    rushlight.Size([2, 3])
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        _weight: Tensor | None = None,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.max_norm = max_norm
        self.norm_type = norm_type
        self.scale_grad_by_freq = scale_grad_by_freq
        self._set_padding(padding_idx, "padding_idx")
        self._set_weight(_weight, device, dtype)
        self.mode = mode
        self.sparse = sparse
        self.include_last_offset = include_last_offset

    def forward(
        self, input: Tensor, offsets: Tensor | None = None, per_sample_weights: Tensor | None = None
    ) -> Tensor:
        return F.embedding_bag(
            input,
            self.weight,
            offsets,
            self.max_norm,
            self.norm_type,
            self.scale_grad_by_freq,
            self.mode,
            self.sparse,
            per_sample_weights,
            self.include_last_offset,
            self.padding_idx,
        )

    def extra_repr(self) -> str:
        return ", ".join(
            [
                f"{self.num_embeddings}, {self.embedding_dim}",
                *([f"max_norm={self.max_norm}"] if self.max_norm is not None else []),
                *([f"norm_type={self.norm_type}"] if self.norm_type != 2 else []),
                *([f"scale_grad_by_freq={self.scale_grad_by_freq}"] if self.scale_grad_by_freq else []),
                f"mode={self.mode!r}",
                *([f"padding_idx={self.padding_idx}"] if self.padding_idx is not None else []),
            ]
        )

    @classmethod
    def from_pretrained(
        cls,
        embeddings: Tensor,
        freeze: bool = True,
        max_norm: float | None = None,
        norm_type: float = 2.0,
        scale_grad_by_freq: bool = False,
        mode: str = "mean",
        sparse: bool = False,
        include_last_offset: bool = False,
        padding_idx: int | None = None,
    ) -> Any:
        """An EmbeddingBag of the rows given."""
        result = cls._from_rows(
            embeddings,
            max_norm=max_norm,
            norm_type=norm_type,
            scale_grad_by_freq=scale_grad_by_freq,
            mode=mode,
            sparse=sparse,
            include_last_offset=include_last_offset,
            padding_idx=padding_idx,
        )
        result.weight._set_requires_grad(not freeze)
        return result
