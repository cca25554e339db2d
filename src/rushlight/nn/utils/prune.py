"""Pruning: a mask, kept as a buffer, sets elements of a parameter to zero before each forward."""

from __future__ import annotations

import numbers
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from ..._api.link import API
from ...core.errors import check
from ...core.tensor import Tensor
from ..modules.module import Module
from .convert_parameters import parameters_to_vector

__all__ = [
    "BasePruningMethod",
    "CustomFromMask",
    "Identity",
    "L1Unstructured",
    "LnStructured",
    "PruningContainer",
    "RandomStructured",
    "RandomUnstructured",
    "custom_from_mask",
    "global_unstructured",
    "identity",
    "is_pruned",
    "l1_unstructured",
    "ln_structured",
    "random_structured",
    "random_unstructured",
    "remove",
]

functions: Any = API.functions[""]


class BasePruningMethod(ABC):
    """A way to choose what is pruned; as a forward pre-hook it applies the mask.

    >>> issubclass(nn.utils.prune.L1Unstructured, nn.utils.prune.BasePruningMethod)
    True
    """

    _tensor_name: str = ""
    PRUNING_TYPE: str

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for `t`, zero where `default_mask` is."""

    def apply_mask(self, module: Module) -> Tensor:
        check(self._tensor_name, f"{type(module).__name__} has to be pruned", AssertionError)
        original = getattr(module, self._tensor_name + "_orig")
        return getattr(module, self._tensor_name + "_mask").to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prune the parameter `name`; what was pruned before stays so."""
        return cls._apply(module, name, cls(*args, **kwargs), importance_scores)

    @classmethod
    def _apply(
        cls, module: Module, name: str, method: BasePruningMethod, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        method._tensor_name = name
        former = [
            (number, hook)
            for number, hook in module._forward_pre_hooks.items()
            if isinstance(hook, BasePruningMethod) and hook._tensor_name == name
        ]
        original = getattr(module, name)
        scores = original if importance_scores is None else importance_scores
        check(
            scores.shape == original.shape,
            f"importance_scores should have the same shape as parameter {name} of "
            f"{type(module).__name__}, got {scores.shape} vs {original.shape}",
            AssertionError,
        )
        if former:
            number, known = former[0]
            del module._forward_pre_hooks[number]
            container = known if isinstance(known, PruningContainer) else PruningContainer(known)
            container.add_pruning_method(method)
            method = container
            mask = getattr(module, name + "_mask").detach().clone()
        else:
            module.register_parameter(name + "_orig", original)
            del module._parameters[name]
            mask = functions["ones_like"](original).detach()
        try:
            module.register_buffer(name + "_mask", method.compute_mask(scores, default_mask=mask).detach())
        except Exception:
            if not former:
                module.register_parameter(name, module._parameters.pop(name + "_orig"))
            raise
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(
        self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None
    ) -> Tensor:
        """A pruned copy of `t`."""
        scores = t if importance_scores is None else importance_scores
        check(
            scores.shape == t.shape,
            f"importance_scores should have the same shape as tensor t, got {scores.shape} vs {t.shape}",
            AssertionError,
        )
        mask = functions["ones_like"](t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=mask)

    def remove(self, module: Module) -> None:
        """Make the pruned value the parameter itself."""
        check(
            self._tensor_name,
            f"{type(module).__name__} has to be pruned before pruning can be removed",
            AssertionError,
        )
        weight = self.apply_mask(module)
        delattr(module, self._tensor_name)
        original: Any = module._parameters.pop(self._tensor_name + "_orig")
        original.data = weight.detach()
        del module._buffers[self._tensor_name + "_mask"]
        setattr(module, self._tensor_name, original)


class PruningContainer(BasePruningMethod):
    """Several methods for one parameter; the last one chooses among what the others left.

    >>> len(nn.utils.prune.PruningContainer())
    0
    """

    def __init__(self, *args: BasePruningMethod) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        if len(args) == 1:
            self._tensor_name = args[0]._tensor_name
        for method in args:
            self.add_pruning_method(method)

    def add_pruning_method(self, method: Any) -> None:
        check(
            method is None or isinstance(method, BasePruningMethod),
            f"{type(method)} is not a BasePruningMethod subclass",
            TypeError,
        )
        check(
            method is None or method._tensor_name == self._tensor_name,
            "Can only add pruning methods acting on the "
            f"parameter named '{self._tensor_name}' to PruningContainer {self}. Found "
            f"'{getattr(method, '_tensor_name', None)}'",
            ValueError,
        )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Iterator[BasePruningMethod]:
        return iter(self._pruning_methods)

    def __getitem__(self, idx: int) -> BasePruningMethod:
        return self._pruning_methods[idx]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        method = self._pruning_methods[-1]
        chosen = self._remaining(method, t, default_mask)
        mask = default_mask.to(t.dtype).clone()
        mask[chosen] = method.compute_mask(t[chosen], default_mask=default_mask[chosen]).to(mask.dtype)
        return mask

    @staticmethod
    def _remaining(method: Any, t: Tensor, mask: Tensor) -> Any:
        """The index of what the method may choose from."""
        kind = method.PRUNING_TYPE
        check(
            kind in ("unstructured", "structured", "global"), f"Unrecognized PRUNING_TYPE {kind}", ValueError
        )
        if kind == "unstructured":
            return mask == 1
        if kind == "global":
            return (slice(None),) * t.ndim
        check(
            hasattr(method, "dim"),
            'Pruning methods of PRUNING_TYPE "structured" need to have the attribute `dim` defined.',
            AttributeError,
        )
        dim = method.dim + t.ndim if method.dim < 0 else method.dim
        check(dim >= 0, f"Index is out of bounds for tensor with dimensions {t.ndim}", IndexError)
        kept = mask.sum(dim=[d for d in range(t.ndim) if d != dim]) != 0
        return tuple(kept if d == dim else slice(None) for d in range(t.ndim))


# Methods.


def _validate_pruning_amount_init(amount: Any) -> None:
    check(
        isinstance(amount, numbers.Real),
        f"Invalid type for amount: {amount}. Must be int or float.",
        TypeError,
    )
    valid = int(amount) >= 0 if isinstance(amount, numbers.Integral) else 0.0 <= float(amount) <= 1.0
    check(
        valid,
        f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer",
        ValueError,
    )


def _validate_pruning_amount(amount: Any, tensor_size: int) -> None:
    check(
        not isinstance(amount, numbers.Integral) or int(amount) <= tensor_size,
        f"amount={amount} should be smaller than the number of parameters to prune={tensor_size}",
        ValueError,
    )


def _compute_nparams_toprune(amount: Any, tensor_size: int) -> int:
    """How many of `tensor_size` elements are pruned."""
    return int(amount) if isinstance(amount, numbers.Integral) else round(amount * tensor_size)


def _count(amount: Any, size: int) -> int:
    _validate_pruning_amount(amount, size)
    return _compute_nparams_toprune(amount, size)


class Identity(BasePruningMethod):
    """Prunes nothing.

    >>> nn.utils.prune.Identity().prune(rl.tensor([3.0, 4.0]))
    tensor([3., 4.])
    """

    PRUNING_TYPE = "unstructured"

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str
    ) -> BasePruningMethod:
        return cls._apply(module, name, cls())

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class _Unstructured(BasePruningMethod):
    PRUNING_TYPE = "unstructured"

    def __init__(self, amount: Any) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount

    def _order(self, t: Tensor) -> Tensor:
        """What is smallest is pruned first."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        count = _count(self.amount, t.numel())
        mask = default_mask.clone()
        if count:
            chosen = functions["topk"](self._order(t).reshape(-1), count, largest=False).indices
            mask.view(-1)[chosen] = 0
        return mask


class RandomUnstructured(_Unstructured):
    """Prunes elements at random.

    >>> nn.utils.prune.RandomUnstructured(1).prune(rl.ones(2)).sum()
    tensor(1.)
    """

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: Any
    ) -> BasePruningMethod:
        return cls._apply(module, name, cls(amount))

    def _order(self, t: Tensor) -> Tensor:
        return functions["rand_like"](t)


class L1Unstructured(_Unstructured):
    """Prunes the smallest elements.

    >>> nn.utils.prune.L1Unstructured(1).prune(rl.tensor([3.0, 4.0]))
    tensor([0., 4.])
    """

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: Any, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        return cls._apply(module, name, cls(amount), importance_scores)

    def _order(self, t: Tensor) -> Tensor:
        return t.detach().abs()


class _Structured(BasePruningMethod):
    PRUNING_TYPE = "structured"
    dim: int
    amount: Any

    def _order(self, t: Tensor, size: int) -> Tensor:
        """What is smallest is pruned first."""
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        check(
            t.ndim > 1,
            "Structured pruning can only be applied to multidimensional tensors. Found tensor of shape "
            f"{t.shape} with {t.ndim} dims",
            ValueError,
        )
        check(self.dim < t.ndim, f"Invalid index {self.dim} for tensor of size {t.shape}", IndexError)
        size = t.shape[self.dim]
        count = _count(self.amount, size)
        if count == 0:
            return default_mask
        kept = functions["topk"](self._order(t, size), size - count, largest=True).indices
        mask = functions["zeros_like"](t.detach()).index_fill(self.dim, kept, 1)
        return mask * default_mask.to(mask.dtype)


class RandomStructured(_Structured):
    """Prunes channels at random.

    >>> nn.utils.prune.RandomStructured(1, dim=0).prune(rl.ones(2, 1)).sum()
    tensor(1.)
    """

    def __init__(self, amount: Any, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.dim = dim

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: Any, dim: int = -1
    ) -> BasePruningMethod:
        return cls._apply(module, name, cls(amount, dim))

    def _order(self, t: Tensor, size: int) -> Tensor:
        return functions["rand"](size)


class LnStructured(_Structured):
    """Prunes the channels of the smallest norms.

    >>> nn.utils.prune.LnStructured(1, n=2, dim=0).prune(rl.tensor([[3.0], [4.0]]))
    tensor([[0.],
            [4.]])
    """

    def __init__(self, amount: Any, n: Any, dim: int = -1) -> None:
        _validate_pruning_amount_init(amount)
        self.amount = amount
        self.n = n
        self.dim = dim

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Tensor | None = None
    ) -> BasePruningMethod:
        return cls._apply(module, name, cls(amount, n, dim), importance_scores)

    def _order(self, t: Tensor, size: int) -> Tensor:
        others = [d for d in range(t.ndim) if d != self.dim % t.ndim]
        return t.detach().norm(p=self.n, dim=others)


class CustomFromMask(BasePruningMethod):
    """Prunes where a given mask is zero.

    >>> nn.utils.prune.CustomFromMask(rl.tensor([1, 0])).prune(rl.tensor([3.0, 4.0]))
    tensor([3., 0.])
    """

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    @classmethod
    def apply(  # type: ignore[override]
        cls, module: Module, name: str, mask: Tensor
    ) -> BasePruningMethod:
        return cls._apply(module, name, cls(mask))

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        check(
            default_mask.shape == self.mask.shape,
            f"default_mask shape {default_mask.shape} must match self.mask shape {self.mask.shape}",
            AssertionError,
        )
        return default_mask * self.mask.to(default_mask.dtype)


# Functions.


def identity(module: Module, name: str) -> Module:
    """Makes a tensor of a module ready for pruning, without pruning it.

    >>> nn.utils.prune.is_pruned(nn.utils.prune.identity(nn.Linear(2, 1), "weight"))
    True
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: Any) -> Module:
    """Prunes elements at random.

    >>> nn.utils.prune.random_unstructured(nn.Linear(2, 2), "weight", 1).weight.count_nonzero()
    tensor(3)
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(
    module: Module, name: str, amount: Any, importance_scores: Tensor | None = None
) -> Module:
    """Prunes the elements of least magnitude.

    >>> nn.utils.prune.l1_unstructured(nn.Linear(2, 2), "weight", 2).weight.count_nonzero()
    tensor(2)
    """
    L1Unstructured.apply(module, name, amount=amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: Any, dim: int) -> Module:
    """Prunes slices along a dimension at random.

    >>> nn.utils.prune.random_structured(nn.Linear(2, 2), "weight", 1, dim=0).weight.count_nonzero()
    tensor(2)
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: Any, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prunes the slices along a dimension that have the least norm.

    >>> nn.utils.prune.ln_structured(nn.Linear(2, 2), "weight", 1, n=2, dim=0).weight.count_nonzero()
    tensor(2)
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prunes a tensor of a module by a mask.

    >>> layer = nn.utils.prune.custom_from_mask(nn.Linear(2, 1), "weight", rl.tensor([[1, 0]]))
    >>> layer.weight[0, 1] == 0
    tensor(True)
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Any, pruning_method: Any, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prune parameters of several modules together, as if they were one.

    >>> layer = nn.Linear(2, 2)
    >>> nn.utils.prune.global_unstructured([(layer, "weight")], nn.utils.prune.L1Unstructured, amount=2)
    >>> layer.weight.count_nonzero()
    tensor(2)
    """
    check(isinstance(parameters, Iterable), "global_unstructured(): parameters is not an Iterable", TypeError)
    scores = {} if importance_scores is None else importance_scores
    check(
        isinstance(scores, dict), "global_unstructured(): importance_scores must be of type dict", TypeError
    )
    named = list(parameters)
    tensors = [getattr(module, name) for module, name in named]
    ranked = parameters_to_vector(
        [scores.get(key, tensor) for key, tensor in zip(named, tensors, strict=True)]
    )
    masks = [
        getattr(module, name + "_mask", functions["ones_like"](tensor))
        for (module, name), tensor in zip(named, tensors, strict=True)
    ]
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    check(
        method.PRUNING_TYPE == "unstructured",
        'Only "unstructured" PRUNING_TYPE supported for the `pruning_method`. '
        f"Found method {pruning_method} of type {method.PRUNING_TYPE}",
        TypeError,
    )
    final = PruningContainer(method).compute_mask(ranked.detach(), parameters_to_vector(masks).detach())
    start = 0
    for (module, name), tensor in zip(named, tensors, strict=True):
        custom_from_mask(module, name, final[start : start + tensor.numel()].view_as(tensor))
        start += tensor.numel()


def remove(module: Module, name: str) -> Module:
    """Make the pruned value of the parameter permanent.

    >>> layer = nn.utils.prune.l1_unstructured(nn.Linear(2, 2), "weight", 2)
    >>> nn.utils.prune.is_pruned(nn.utils.prune.remove(layer, "weight"))
    False
    """
    for number, hook in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            hook.remove(module)
            del module._forward_pre_hooks[number]
            return module
    raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")


def is_pruned(module: Module) -> bool:
    """Whether anything in a module is pruned.

    >>> nn.utils.prune.is_pruned(nn.Linear(2, 1))
    False
    """
    return any(
        isinstance(hook, BasePruningMethod)
        for inner in module.modules()
        for hook in inner._forward_pre_hooks.values()
    )
