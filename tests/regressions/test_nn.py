"""Defects of modules, their functions and optimizers that were found once; each test names its entry."""

from __future__ import annotations

import copy
import gc
import pickle
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import rushlight as rl

LIBRARIES = pytest.mark.parametrize("lib", [torch, rl], ids=["torch", "rushlight"])


@pytest.fixture
def swapping() -> Iterator[None]:
    """Conversions swap parameters, in both libraries."""
    for lib in (torch, rl):
        lib.__future__.set_swap_module_params_on_conversion(True)
    yield
    for lib in (torch, rl):
        lib.__future__.set_swap_module_params_on_conversion(False)


@LIBRARIES
def test_d12_data_of_a_leaf_stays_floating(lib: Any) -> None:
    x = lib.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="floating point or complex"):
        x.data = lib.ones(2, dtype=lib.int32)
    with pytest.raises(RuntimeError, match="incompatible tensor type"):
        x.data = lib.ones(2, device="meta")
    assert x.dtype == lib.float32
    y = lib.ones(2)
    y.data = lib.ones(3, dtype=lib.int32)
    assert y.dtype == lib.int32 and y.shape == (3,)


@LIBRARIES
def test_d12_dropout3d_drops_channels_without_a_batch(lib: Any) -> None:
    lib.manual_seed(0)
    dropped = lib.nn.Dropout3d(0.5)(lib.ones(64, 2, 3, 4)).flatten(1)
    assert set(dropped.amax(1).tolist()) == {0.0, 2.0}
    assert (dropped == dropped[:, :1]).all()


@LIBRARIES
def test_d22_materialize_takes_a_number(lib: Any) -> None:
    param = lib.nn.UninitializedParameter()
    param.materialize(10)
    assert param.shape == (10,) and type(param) is lib.nn.Parameter


@LIBRARIES
def test_d22_uninitialized_parameters_are_refused(lib: Any) -> None:
    param = lib.nn.UninitializedParameter()
    for use in (lambda: param + 1, lambda: lib.empty_like(param), lambda: param.sum()):
        with pytest.raises(ValueError, match="uninitialized parameter"):
            use()
    assert type(pickle.loads(pickle.dumps(param))) is lib.nn.UninitializedParameter


def test_d23_load_state_dict_leaves_no_cycles() -> None:
    module = rl.nn.LSTM(4, 4, bidirectional=True)
    state = copy.deepcopy(module).state_dict()
    module.load_state_dict(state)

    def left() -> int:
        gc.collect()
        module.load_state_dict(state)
        return gc.collect()

    assert 0 in [left() for _ in range(3)]  # threads of the test runner may leave cycles meanwhile


@LIBRARIES
def test_d24_a_plain_backward_hook_returns_as_many(lib: Any) -> None:
    for hook, text in (
        (lambda module, grads, outputs: grads[:-1], "got 0, but expected 1"),
        (lambda module, grads, outputs: (*grads, grads[0]), "got 2, but expected 1"),
    ):
        module = lib.nn.Sigmoid()
        module.register_backward_hook(hook)
        with pytest.raises(RuntimeError, match=text):
            module(lib.ones(2, requires_grad=True) * 2).sum().backward()


@LIBRARIES
def test_plain_backward_hooks_warn_of_what_they_miss(lib: Any) -> None:
    module = lib.nn.Sequential(lib.nn.Sigmoid(), lib.nn.Tanh())
    module.register_backward_hook(lambda *arguments: None)
    with pytest.warns(FutureWarning, match="multiple autograd Nodes"):
        module(lib.ones(2, requires_grad=True))
    single = lib.nn.Sigmoid()
    single.register_backward_hook(lambda *arguments: None)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        single(lib.ones(2, requires_grad=True) * 2)


# Conversions that swap (`__future__`).


@LIBRARIES
def test_swapped_parameters_stay_the_objects_they_are(lib: Any, swapping: None) -> None:
    module = lib.nn.Linear(2, 3)
    weight, out = module.weight, module(lib.ones(1, 2))
    module.double()
    assert module.weight is weight and weight.dtype == lib.float64
    with pytest.raises(RuntimeError, match="poisoned by swap_tensors"):
        out.sum().backward()
    module(lib.ones(1, 2, dtype=lib.float64)).sum().backward()
    grad = weight.grad
    module.float()
    assert weight.grad is grad and grad.dtype == lib.float32 and weight.grad.tolist() == [[1, 1]] * 3


@LIBRARIES
def test_loading_swaps(lib: Any, swapping: None) -> None:
    module, other = lib.nn.Linear(2, 3), lib.nn.Linear(2, 3)
    weight = module.weight
    module.load_state_dict(other.state_dict())
    assert module.weight is weight and weight.requires_grad and bool((weight == other.weight).all())
    meta = lib.nn.Linear(2, 3, device="meta")
    weight = meta.weight
    meta.load_state_dict(other.state_dict(), assign=True)
    assert meta.weight is weight and bool((weight == other.weight).all())


@LIBRARIES
def test_overwriting_makes_new_parameters(lib: Any) -> None:
    module = lib.nn.Linear(2, 3)
    weight = module.weight
    lib.__future__.set_overwrite_module_params_on_conversion(True)
    try:
        module.double()
    finally:
        lib.__future__.set_overwrite_module_params_on_conversion(False)
    assert module.weight is not weight
    assert weight.dtype == lib.float32 and module.weight.dtype == lib.float64


@LIBRARIES
def test_swap_tensors_exchanges_everything(lib: Any) -> None:
    a, b = lib.ones(2, requires_grad=True), lib.zeros(3, dtype=lib.int64)
    b.name_of_mine = "b"
    lib.utils.swap_tensors(a, b)
    assert a.dtype == lib.int64 and a.shape == (3,) and a.name_of_mine == "b" and not a.requires_grad
    assert b.requires_grad and b.tolist() == [1.0, 1.0] and not hasattr(b, "name_of_mine")


@LIBRARIES
def test_swap_tensors_refuses_views(lib: Any) -> None:
    a, b = lib.ones(2), lib.zeros(2)
    view = a[:1]
    with pytest.raises(RuntimeError):
        lib.utils.swap_tensors(a, b)
    assert a.tolist() == [1.0, 1.0] and view.tolist() == [1.0]


def test_a_saved_tensor_that_was_swapped_is_refused() -> None:
    x, w = rl.ones(2), rl.ones(2, requires_grad=True)
    y = x * w
    rl.utils.swap_tensors(x, rl.zeros(2))
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


@LIBRARIES
def test_conversion_keeps_the_gradient_object(lib: Any) -> None:
    module = lib.nn.Linear(2, 1)
    module(lib.ones(1, 2)).sum().backward()
    grad = module.weight.grad
    module.double()
    assert module.weight.grad is grad and grad.dtype == lib.float64


@LIBRARIES
def test_methods_of_a_class_between_are_kept(lib: Any) -> None:
    """A class derived from a class of tensors inherits that class's methods, not Tensor's."""

    class Base(lib.Tensor):
        def cpu(self) -> str:  # type: ignore[override]
            return "mine"

    class Derived(Base):
        pass

    assert lib.ones(2).as_subclass(Derived).cpu() == "mine"


# Functions and losses.


@LIBRARIES
def test_d12_sparse_gradient_of_an_embedding_is_its_own(lib: Any) -> None:
    table, index = lib.nn.Embedding(10, 2, sparse=True), lib.tensor([1, 2])
    table(index).sum().backward()
    index[0] = 8
    assert table.weight.grad._indices().tolist() == [[1, 2]]


def test_d12_sparse_gradient_does_not_alias_the_incoming_one() -> None:
    table, grad = rl.nn.Embedding(10, 2, sparse=True), rl.ones(2, 2)
    table(rl.tensor([1, 2])).backward(grad)
    grad.zero_()
    assert table.weight.grad.to_dense().sum().item() == 4.0


@LIBRARIES
@pytest.mark.parametrize("rank", [2, 3])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_d20_grid_sample_of_no_images(lib: Any, rank: int, mode: str) -> None:
    image = lib.ones(0, 2, *[3] * rank, requires_grad=True)
    grid = lib.ones(0, *[4] * rank, rank, requires_grad=True)
    sampled = lib.nn.functional.grid_sample(image, grid, mode=mode, align_corners=False)
    sampled.sum().backward()
    assert sampled.shape == (0, 2, *[4] * rank)
    assert image.grad.shape == image.shape and grid.grad.shape == grid.shape


@LIBRARIES
def test_d20_gradient_of_another_precision(lib: Any) -> None:
    module = lib.nn.Conv2d(2, 5, 3, padding=1).bfloat16()
    image = lib.ones(1, 2, 10, 10, dtype=lib.bfloat16, requires_grad=True)
    module(image).backward(lib.ones(1, 5, 10, 10))
    assert module.weight.grad.dtype == image.grad.dtype == lib.bfloat16
    x = lib.ones(3, dtype=lib.float16, requires_grad=True)
    (seen,) = lib.autograd.grad(x * 2, x, lib.ones(3, dtype=lib.float64))
    assert seen.dtype == lib.float16


@LIBRARIES
@pytest.mark.parametrize("dtype", ["int16", "uint8", "bool", "int64"])
def test_d20_embedding_of_integers(lib: Any, dtype: str) -> None:
    rows = lib.tensor([[1, 2], [3, 4]], dtype=getattr(lib, dtype))
    found = lib.nn.Embedding.from_pretrained(rows)(lib.tensor([1, 0]))
    assert found.dtype == rows.dtype and found.tolist() == rows.flip(0).tolist()
    with pytest.raises(RuntimeError):
        lib.nn.Embedding.from_pretrained(rows, freeze=False)


@LIBRARIES
@pytest.mark.parametrize("shape", [(), (3,)])
def test_d20_gather_of_a_number_with_a_sparse_gradient(lib: Any, shape: tuple[int, ...]) -> None:
    x = lib.ones(shape, requires_grad=True)
    lib.gather(x, 0, lib.tensor(0), sparse_grad=True).backward()
    assert x.grad.is_sparse and x.grad.to_dense().tolist() == ([1.0, 0.0, 0.0] if shape else 1.0)


@LIBRARIES
def test_d24_running_statistics_come_in_pairs(lib: Any) -> None:
    x, mean = lib.ones(2, 3), lib.zeros(3)
    for pair in ((mean, None), (None, mean)):
        with pytest.raises(ValueError, match="either both be None or neither"):
            lib.nn.functional.batch_norm(x, *pair, training=True)
        with pytest.raises(RuntimeError, match="must be defined in evaluation mode"):
            lib.nn.functional.batch_norm(x, *pair)
        with pytest.raises(ValueError):
            lib.nn.functional.instance_norm(lib.ones(2, 3, 4), *pair)


def test_d24_packing_needs_the_steps() -> None:
    """PyTorch takes lengths beyond the end, and returns a PackedSequence that is too short for them."""
    pack = rl.nn.utils.rnn.pack_padded_sequence
    for lengths in ([5, 2], [3, 0], [-1, 2], [3], [3, 2, 1], [2, 3]):
        with pytest.raises((RuntimeError, ValueError)):
            pack(rl.ones(4, 2, 1), lengths)


@LIBRARIES
def test_d24_a12_labels_of_multilabel_margin_loss_are_checked(lib: Any) -> None:
    loss = lib.nn.functional.multilabel_margin_loss
    for labels in ([[-2, 0, 1]], [[3, 0, 1]], [[0, -1, 7]]):
        with pytest.raises(RuntimeError, match="out of range"):
            loss(lib.ones(1, 3), lib.tensor(labels))
    with pytest.raises(RuntimeError, match="inconsistent target size"):
        loss(lib.ones(3), lib.zeros(1, 3, dtype=lib.int64))
    assert loss(lib.ones(1, 3), lib.tensor([[0, -1, 2]])).item() == pytest.approx(2 / 3)


def test_d24_compiled_multilabel_margin_loss_raises() -> None:
    loss = rl.compile(rl.nn.functional.multilabel_margin_loss)
    assert loss(rl.ones(1, 3), rl.tensor([[0, -1, 2]])).item() == pytest.approx(2 / 3)
    with pytest.raises(RuntimeError, match="out of range"):
        loss(rl.ones(1, 3), rl.tensor([[0, -1, 7]]))


@LIBRARIES
def test_a12_trapezoid_of_integers(lib: Any) -> None:
    y = lib.tensor([2**30] * 4, dtype=lib.int32)
    assert lib.trapz(y).item() == 3 * 2.0**30 + 2**31  # the sum of both ends wraps, as in PyTorch
    assert lib.trapezoid(lib.tensor([1, 2, 3], dtype=lib.int32), dx=2).item() == 8.0
    assert lib.trapezoid(lib.tensor([200, 200, 200], dtype=lib.uint8)).item() == 528.0


@LIBRARIES
def test_a12_norm_except_dim(lib: Any) -> None:
    v = lib.tensor([3.0, -4.0])
    assert lib.norm_except_dim(v, 2, 0).tolist() == [3.0, 4.0]
    assert lib.norm_except_dim(v, 2, -1).item() == 5.0
    assert lib.norm_except_dim(lib.ones(2, 3, 4), 2, 1).shape == (1, 3, 1)
    with pytest.raises(IndexError):
        lib.norm_except_dim(lib.tensor(1.0), 2, 0)


@LIBRARIES
def test_a12_reduction_as_a_number(lib: Any) -> None:
    x, y = lib.tensor([1.0, 2.0]), lib.tensor([1.0, -1.0])
    assert lib.hinge_embedding_loss(x, y, reduction=0).tolist() == [1.0, 0.0]
    assert lib.hinge_embedding_loss(x, y, reduction=1).item() == 0.5
    assert lib.hinge_embedding_loss(x, y, 1.0, 2).item() == 1.0
    whole = lib.nn.functional.hinge_embedding_loss(lib.tensor([1, 2]), y, margin=3.7, reduction="none")
    assert whole.dtype == lib.int64 and whole.tolist() == [1, 1]


DTYPES = ("float16", "bfloat16", "float32", "float64", "int64", "bool")
LOSSES = (
    "huber_loss",
    "smooth_l1_loss",
    "mse_loss",
    "l1_loss",
    "kl_div",
    "poisson_nll_loss",
    "soft_margin_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "hinge_embedding_loss",
)


@pytest.mark.parametrize("name", LOSSES)
def test_a12_losses_of_mixed_dtypes(name: str) -> None:
    """The result has PyTorch's dtype, or both refuse with the same error."""

    def outcome(lib: Any, a: str, b: str, reduction: str) -> Any:
        try:
            found = getattr(lib.nn.functional, name)(
                lib.ones(3, dtype=getattr(lib, a)), lib.ones(3, dtype=getattr(lib, b)), reduction=reduction
            )
        except (RuntimeError, NotImplementedError, TypeError) as error:
            return "error" if isinstance(error, RuntimeError) else type(error).__name__
        return str(found.dtype).rpartition(".")[2], found.double().sum().item()

    for a in DTYPES:
        for b in DTYPES:
            for reduction in ("none", "sum"):
                ours, theirs = outcome(rl, a, b, reduction), outcome(torch, a, b, reduction)
                where = f"{name} of {a} and {b}, {reduction}"
                if isinstance(theirs, str):
                    assert ours == theirs, where
                else:
                    assert ours[0] == theirs[0], where
                    assert ours[1] == pytest.approx(theirs[1], rel=1e-2, abs=1e-6), where


@LIBRARIES
def test_a12_pinv_with_a_tolerance_of_nan(lib: Any) -> None:
    for hermitian in (False, True):
        found = lib.linalg.pinv(lib.eye(2), rcond=float("nan"), hermitian=hermitian)
        assert found.tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("dtype", [rl.bfloat16, rl.float16])
def test_a12_matrix_exp_of_half_precision(dtype: Any) -> None:
    """PyTorch's result is wrong by orders of magnitude; ours is that of float32, rounded."""
    x = rl.tensor([[1.0, 2.0], [3.0, 4.0]]).to(dtype)
    wanted = rl.matrix_exp(x.float()).to(dtype)
    assert rl.matrix_exp(x).dtype == dtype
    rl.testing.assert_close(rl.matrix_exp(x), wanted)
    rl.testing.assert_close(rl.compile(rl.matrix_exp)(x), wanted)


@LIBRARIES
def test_a12_one_value_a_channel_has_no_variance(lib: Any) -> None:
    for raises in (
        lambda: lib.nn.functional.batch_norm(lib.ones(1, 3), None, None, training=True),
        lambda: lib.nn.BatchNorm1d(3)(lib.ones(1, 3)),
        lambda: lib.nn.BatchNorm2d(3)(lib.ones(1, 3, 1, 1)),
        lambda: lib.nn.functional.instance_norm(lib.ones(2, 3, 1)),
        lambda: lib.nn.functional.group_norm(lib.ones(1, 3), 3),
    ):
        with pytest.raises(ValueError, match="Expected more than 1"):
            raises()


@LIBRARIES
def test_to_takes_flags_after_a_dtype(lib: Any) -> None:
    x = lib.ones(2)
    for wrong in (("cpu", True), (None, True)):
        with pytest.raises(TypeError):
            x.to(*wrong)
    assert x.to(None, None, True).dtype == lib.float32


@LIBRARIES
def test_d22_modules_with_spectral_norm_are_pickled(lib: Any) -> None:
    module = lib.nn.utils.spectral_norm(lib.nn.Linear(3, 4))
    again = pickle.loads(pickle.dumps(module))
    x = lib.ones(1, 3)
    assert bool((again.eval()(x) == module.eval()(x)).all())
    old = module.state_dict()
    old["weight"] = old["weight_orig"] / (
        old["weight_u"] @ old["weight_orig"].flatten(1) @ old.pop("weight_v")
    )
    del old._metadata[""]["spectral_norm"]
    again.load_state_dict(old)
    lib.testing.assert_close(again(x), module(x))


# Pools.


@LIBRARIES
def test_pools_of_windows_without_elements(lib: Any) -> None:
    """Taps further apart than the input is long may miss it."""
    x = lib.ones(1, 1, 1)
    values, places = lib.nn.functional.max_pool1d(x, 2, None, 1, 2, return_indices=True)
    assert values.tolist() == [[[float("-inf")]]] and places.tolist() == [[[1]]]
    whole, _ = lib.nn.functional.max_pool2d(
        lib.arange(6).view(1, 1, 3, 2), (1, 2), 1, (0, 1), (1, 3), return_indices=True
    )
    assert whole.flatten().tolist() == [lib.iinfo(lib.int64).min] * 3


@LIBRARIES
def test_pools_of_no_channels_and_to_no_windows(lib: Any) -> None:
    functional = lib.nn.functional
    assert functional.adaptive_max_pool2d(lib.ones(0, 4, 4), 3).shape == (0, 3, 3)
    with pytest.raises(RuntimeError, match="non-zero size"):
        functional.adaptive_max_pool2d(lib.ones(2, 0, 4, 4), 3)
    for pool in (functional.adaptive_max_pool2d, functional.adaptive_avg_pool2d):
        none = pool(lib.ones(1, 2, 4, 4, requires_grad=True), 0)
        with pytest.raises(RuntimeError, match="grad_output to have non-zero size"):
            none.sum().backward()
        with pytest.raises(RuntimeError):
            pool(lib.ones(1, 2, 4, 4), (5,))
    assert lib.nn.FractionalMaxPool2d(2, output_size=(0, 1))(lib.ones(2, 3, 5, 5)).shape == (2, 3, 0, 1)
    with pytest.raises(RuntimeError):
        functional.max_pool2d(lib.tensor(1.0), 2)


def test_native_multi_head_attention() -> None:
    rng = torch.Generator().manual_seed(0)
    shapes = ((2, 3, 4), (12, 4), (12,), (4, 4), (4,))
    x, *weights = (torch.rand(shape, generator=rng) for shape in shapes)
    masks = {
        0: torch.tensor([[0, 1, 0], [0, 0, 1], [1, 0, 0]]).bool(),
        1: torch.tensor([[0, 1, 0], [0, 0, 0]]).bool(),
        2: torch.rand(2, 2, 3, 3, generator=rng) > 0.8,
        None: None,
    }
    for kind, mask in masks.items():
        for average in (True, False):
            with torch.no_grad():
                wanted = torch._native_multi_head_attention(
                    x, x, x, 4, 2, *weights, mask, True, average, kind
                )
            mine = rl.from_numpy(x.numpy())
            found = rl._native_multi_head_attention(
                mine,
                mine,
                mine,
                4,
                2,
                *[rl.from_numpy(w.numpy()) for w in weights],
                None if mask is None else rl.from_numpy(mask.numpy()),
                True,
                average,
                kind,
            )
            for a, b in zip(found, wanted, strict=True):
                torch.testing.assert_close(torch.from_numpy(a.numpy()), b)


def test_fast_gradcheck_of_many_elements() -> None:
    """One direction sums over all elements, and so do the errors of differences."""
    module = rl.nn.LayerNorm((56, 56), elementwise_affine=False)
    assert rl.autograd.gradcheck(
        module, rl.randn(8, 5, 56, 56, dtype=rl.float64, requires_grad=True), fast_mode=True
    )


@LIBRARIES
def test_attention_of_an_empty_batch(lib: Any) -> None:
    layer = lib.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
    x = lib.ones(5, 0, 8, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad.shape == (5, 0, 8)
