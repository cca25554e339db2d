"""What is compiled on its own does what it does eagerly: results, hooks, modes, state, errors, logs."""

from __future__ import annotations

import copy
import logging
import pickle
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.compiler.graph_breaks import PIECES
from rushlight.core.modes import MODES
from rushlight.programs import automatic
from rushlight.programs.automatic import MOST_WARM, PAYS, WARM
from rushlight.programs.piece_function import MOST_CHANGES

CALLS = WARM + 3  # the last ones run compiled code


@pytest.fixture(autouse=True)
def compiling() -> Iterator[None]:
    automatic.enable()
    yield
    automatic.disable()


def piece(owner: Any) -> Any:
    """The only piece of a module or an optimizer."""
    (found,) = vars(owner)[PIECES].values()
    return found


def model(seed: int = 0) -> nn.Sequential:
    rl.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def trained(steps: int, change: Callable[[Any, Any, int], Any] = lambda m, o, i: None) -> list[Any]:
    """The losses of some steps, the weights and the state of the optimizer after them."""
    # the norm comes first: the gradient of a bias before it is 0 but for rounding, which Adam makes large
    module = nn.Sequential(nn.BatchNorm1d(3), model(), nn.Dropout(0.25))
    optimizer = rl.optim.AdamW(module.parameters(), lr=0.1)
    scheduler = rl.optim.lr_scheduler.StepLR(optimizer, 3)
    generator = rl.Generator().manual_seed(1)
    losses = []
    for i in range(steps):
        change(module, optimizer, i)
        optimizer.zero_grad()
        loss = module(rl.randn(6, 3, generator=generator)).square().mean()
        loss.backward()
        optimizer.step()
        scheduler.step()
        losses.append(loss.detach())
    state = optimizer.state_dict()["state"]
    return [*losses, *module.state_dict().values(), *(v for s in state.values() for v in s.values())]


def replace_layer(module: Any, optimizer: Any, i: int) -> None:
    if i == CALLS:
        module[1][2] = nn.Linear(4, 2)
        optimizer.add_param_group({"params": list(module[1][2].parameters()), "lr": 0.5})


def freeze(module: Any, optimizer: Any, i: int) -> None:
    if i == CALLS:
        module[1][0].requires_grad_(False)


def evaluate(module: Any, optimizer: Any, i: int) -> None:
    module.train(i % 3 != 2)


def load(module: Any, optimizer: Any, i: int) -> None:
    if i == CALLS:
        module.load_state_dict({k: rl.ones_like(v) for k, v in module.state_dict().items()})


def clip(module: Any, optimizer: Any, i: int) -> None:
    for hook in list(module._forward_hooks):
        del module._forward_hooks[hook]
    if i > WARM:
        module.register_forward_hook(lambda m, args, out: out * 2)


@pytest.mark.parametrize("change", [None, replace_layer, freeze, evaluate, load, clip])
def test_training_is_what_it_is_eagerly(change: Any) -> None:
    changes = () if change is None else (change,)
    found = trained(CALLS + 4, *changes)
    automatic.disable()
    for one, other in zip(found, trained(CALLS + 4, *changes), strict=True):
        rl.testing.assert_close(one, other)


def test_modules_and_steps_are_compiled() -> None:
    module = model()
    optimizer = rl.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(CALLS):
        module(rl.ones(5, 3)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert piece(module).compiled.reasons == piece(optimizer).compiled.reasons == ["first call"]
    assert PIECES not in vars(module[0])


def test_copies_and_files_have_no_pieces() -> None:
    module = model()
    for _ in range(CALLS):
        module(rl.ones(5, 3))
    piece(module)
    for other in (copy.deepcopy(module), copy.copy(module), pickle.loads(pickle.dumps(module))):
        assert PIECES not in vars(other)
        assert type(other) is nn.Sequential
    twin = model(1)
    vars(twin).update({**vars(module), "_modules": twin._modules})  # as some libraries make replicas
    with rl.no_grad():
        rl.testing.assert_close(twin(rl.ones(5, 3)), twin._call_impl(rl.ones(5, 3)))


class Telling(nn.Module):
    """A module that does `tell` in every call."""

    def __init__(self, tell: Callable[[], Any]) -> None:
        super().__init__()
        self.inner = model()
        self.tell = tell

    def forward(self, x: Any) -> Any:
        y = self.inner(x)
        self.tell()
        return y + 1


def test_logs_are_written_in_every_call(caplog: pytest.LogCaptureFixture) -> None:
    log = logging.getLogger("program")
    module = Telling(lambda: log.warning("called"))
    for _ in range(CALLS):
        module(rl.ones(5, 3))
    assert len(caplog.records) == CALLS
    (reason,) = piece(module).compiled.eager.values()
    assert "it writes a log" in reason
    assert "test_automatic.py" in reason
    for _ in range(CALLS):
        module(rl.ones(5, 3))
    assert piece(module.inner).compiled.reasons == ["first call"]  # what is inside is compiled


def test_warnings_are_shown_in_every_call() -> None:
    module = Telling(lambda: warnings.warn("again", UserWarning))
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        for _ in range(CALLS):
            module(rl.ones(5, 3))
    assert len(shown) == CALLS


def test_files_are_opened_in_every_call(tmp_path: Any) -> None:
    path = tmp_path / "calls"

    def tell() -> None:
        with open(path, "a") as file:
            file.write(".")

    module = Telling(tell)
    for _ in range(CALLS):
        module(rl.ones(5, 3))
    assert path.read_text() == "." * CALLS


def test_errors_are_those_of_eager_calls() -> None:
    module = model()
    for _ in range(CALLS):
        module(rl.ones(5, 3))
    with pytest.raises(RuntimeError, match=r"mat1 and mat2|shapes"):
        module(rl.ones(5, 4))
    assert module(rl.ones(5, 3)).shape == (5, 2)


def test_transforms_see_operators() -> None:
    module = model()
    x = rl.randn(7, 3)
    for _ in range(CALLS):
        module(x)
    params = dict(module.named_parameters())
    loss = lambda p, v: rl.func.functional_call(module, p, (v[None],)).sum()  # noqa: E731
    each = rl.func.vmap(rl.func.grad(loss), (None, 0))(params, x)
    module.zero_grad()
    module(x).sum().backward()
    for name, p in params.items():
        rl.testing.assert_close(each[name].sum(0), p.grad)


def test_what_the_program_compiles_is_left_to_it() -> None:
    module = rl.compile(model())
    for _ in range(CALLS):
        module(rl.ones(5, 3))
    assert PIECES not in vars(module)
    assert module.reasons == ["first call"]


def test_a_compiled_function_that_breaks_has_pieces_of_its_own() -> None:
    module = model()
    plain = rl.ones(5, 3)

    @rl.compile
    def broken(x: Any) -> Any:
        return module(x) if float(x.sum()) > 0 else -module(x)

    for _ in range(CALLS):
        rl.testing.assert_close(broken(plain), module(plain))
    assert broken.eager


def test_what_is_disabled_is_not_compiled() -> None:
    module = model()
    call = rl.compiler.disable(lambda x: module(x))
    for _ in range(CALLS):
        call(rl.ones(5, 3))
    assert PIECES not in vars(module)


def test_values_that_keep_changing_are_given_up_soon() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.name = model(), ""

        def forward(self, x: Any) -> Any:
            return self.inner(x) * (1 + len(self.name))

    module = Scaled()
    with rl.no_grad():
        for i in range(CALLS + 8):
            module.name = "a" * i
            rl.testing.assert_close(module(rl.ones(5, 3)), module.inner._call_impl(rl.ones(5, 3)) * (1 + i))
    assert len(piece(module).compiled.reasons) == 1 + MOST_CHANGES
    assert piece(module).compiled.eager


def test_threads_that_ran_pieces_before_have_no_runner_of_their_own() -> None:
    automatic.disable()
    broken = rl.compile(lambda x: print(end="") or model()(x))
    broken(rl.ones(2, 3))
    assert MODES.pieces is None
    automatic.enable()
    module = model()
    for _ in range(CALLS):
        module(rl.ones(2, 3))
    assert piece(module).runs_compiled
    automatic.disable()
    assert MODES.pieces is None


class Around(nn.Module):
    """What a program makes anew for a few calls."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: Any) -> Any:
        return self.inner(x) + 1


def test_what_is_made_anew_again_and_again_is_not_compiled_each_time() -> None:
    inner, captures = model(), 0
    for _ in range(30):
        around = Around(inner)
        for _ in range(CALLS):
            rl.testing.assert_close(around(rl.ones(5, 3)), inner._call_impl(rl.ones(5, 3)) + 1)
        captures += piece(around).compiled is not None
    assert captures == 1
    assert piece(inner).runs_compiled  # which stays
    for _ in range(MOST_WARM):
        around(rl.ones(5, 3))
    assert piece(around).runs_compiled  # at last


def test_classes_that_are_made_anew_are_of_one_kind() -> None:
    captures = 0
    for _ in range(10):
        around = type("Around", (Around,), {})(model())
        for _ in range(CALLS):
            around(rl.ones(5, 3))
        captures += piece(around).compiled is not None
    assert captures == 1


def test_what_is_made_anew_is_compiled_as_soon_as_the_first_where_that_pays() -> None:
    first = Around(model())
    for _ in range(CALLS + PAYS):
        first(rl.ones(5, 3))
    second = Around(model())
    for _ in range(CALLS):
        second(rl.ones(5, 3))
    assert piece(second).runs_compiled


def test_layers_of_one_class_wait_as_long_as_one() -> None:
    layers = [Around(model()) for _ in range(8)]
    for _ in range(CALLS):
        for layer in layers:
            layer(rl.ones(5, 3))
    assert all(piece(layer).runs_compiled for layer in layers)
