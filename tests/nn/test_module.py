"""Module: registration, walking, state, hooks, conversion. Scenarios run with torch and with rushlight."""

from __future__ import annotations

import copy
import gc
import pickle

import pytest
import torch

import rushlight as rl
from rushlight import nn

from .sides import LIBRARIES, both


def net(lib):
    """A module with parameters, buffers of both kinds, a shared parameter and a missing one."""

    class Net(lib.nn.Module):
        def __init__(self):
            super().__init__()
            self.first = lib.nn.Linear(2, 3)
            self.second = lib.nn.Sequential(lib.nn.ReLU(), lib.nn.Linear(3, 2, bias=False))
            self.scale = lib.nn.Parameter(lib.ones(2))
            self.tied = self.scale
            self.register_parameter("absent", None)
            self.register_buffer("kept", lib.zeros(2))
            self.register_buffer("lost", lib.ones(1), persistent=False)
            self.register_buffer("none", None)
            self.plain = 3

        def forward(self, x):
            return self.second(self.first(x)) * self.scale + self.kept

    torch.manual_seed(0)
    rl.manual_seed(0)
    made = Net()
    with lib.no_grad():
        for i, param in enumerate(made.parameters()):
            param.copy_(lib.arange(param.numel(), dtype=lib.float32).reshape(param.shape) / 7 - i / 5)
    return made


def test_names():
    def scenario(lib):
        m = net(lib)
        return {
            "parameters": [n for n, _ in m.named_parameters()],
            "with duplicates": [n for n, _ in m.named_parameters(remove_duplicate=False)],
            "own": [n for n, _ in m.named_parameters(recurse=False)],
            "prefix": [n for n, _ in m.named_parameters("p")],
            "buffers": [n for n, _ in m.named_buffers()],
            "modules": [n for n, _ in m.named_modules()],
            "children": [n for n, _ in m.named_children()],
            "state": list(m.state_dict()),
            "prefixed state": list(m.state_dict(prefix="a.")),
            "metadata": dict(m.state_dict()._metadata),
            "dir": [n for n in dir(m) if n in ("first", "scale", "kept", "plain", "0", "absent")],
        }

    both(scenario)


def test_repr():
    both(lambda lib: repr(net(lib)))


def test_registration_follows_assignment():
    def scenario(lib):
        m = net(lib)
        m.plain = lib.nn.Parameter(lib.ones(1))  # becomes a parameter
        m.scale = None
        m.kept = lib.ones(2)  # stays a buffer
        m.first = lib.nn.ReLU()
        m.kept2 = lib.nn.Buffer(lib.ones(2), persistent=False)
        m.late = 3
        m.late = lib.nn.Linear(1, 1)  # replaces a plain attribute
        del m.second, m.lost
        return (
            [n for n, _ in m.named_parameters()],
            list(m.state_dict()),
            [n for n, _ in m.named_buffers()],
            repr(m),
        )

    both(scenario)


@pytest.mark.parametrize(
    "action",
    [
        lambda lib, m: m.register_parameter("a.b", None),
        lambda lib, m: m.register_parameter("", None),
        lambda lib, m: m.register_parameter("first", None),
        lambda lib, m: m.register_parameter("x", lib.ones(1)),
        lambda lib, m: m.register_parameter("x", m.scale * 2),
        lambda lib, m: m.register_parameter(3, None),
        lambda lib, m: m.register_buffer("scale", lib.ones(1)),
        lambda lib, m: m.register_buffer("x", 3),
        lambda lib, m: m.add_module("a.b", None),
        lambda lib, m: m.add_module("x", 3),
        lambda lib, m: m.missing,
        lambda lib, m: setattr(m, "scale", lib.ones(1)),
        lambda lib, m: setattr(m, "first", 3),
        lambda lib, m: setattr(m, "kept", 3),
        lambda lib, m: m.train("yes"),
        lambda lib, m: m.to(lib.int64),
        lambda lib, m: m.get_submodule("first.weight"),
        lambda lib, m: m.get_parameter("first.nothing"),
        lambda lib, m: m.get_buffer("scale"),
        lambda lib, m: lib.nn.Module()(1),
        lambda lib, m: lib.nn.Linear(),
        lambda lib, m: m.load_state_dict({}),
        lambda lib, m: m.load_state_dict([]),
        lambda lib, m: m.load_state_dict({**m.state_dict(), "more": lib.ones(1)}),
        lambda lib, m: m.load_state_dict({**m.state_dict(), "scale": lib.ones(5)}),
        lambda lib, m: m.load_state_dict({**m.state_dict(), "scale": 5}),
        lambda lib, m: m.set_submodule("", lib.nn.ReLU()),
    ],
)
def test_errors(action):
    with pytest.raises(Exception) as theirs:
        action(torch, net(torch))
    with pytest.raises(type(theirs.value)):
        action(rl, net(rl))


def test_missing_keys_are_told():
    state = net(rl).state_dict()
    del state["first.bias"]
    with pytest.raises(RuntimeError, match=r"(?s)Net.*Missing key.*\"first\.bias\".*size mismatch for scale"):
        net(rl).load_state_dict({**state, "scale": rl.ones(7)})


def test_assigning_before_init():
    class Early(nn.Module):
        def __init__(self):
            self.x = nn.Parameter(rl.ones(1))

    with pytest.raises(AttributeError, match=r"before Module\.__init__"):
        Early()


@LIBRARIES
def test_state_dict_shares_memory_and_loading_copies(lib):
    m, other = net(lib), net(lib)
    state = m.state_dict()
    with lib.no_grad():
        m.scale.fill_(9)
    assert state["scale"].tolist() == [9, 9]
    assert not state["scale"].requires_grad
    assert m.state_dict(keep_vars=True)["scale"] is m.scale
    kept = other.scale
    assert str(other.load_state_dict(state)) == "<All keys matched successfully>"
    assert other.scale is kept
    assert kept.tolist() == [9, 9]
    assert other.scale.data_ptr() != m.scale.data_ptr()


@LIBRARIES
def test_loading_not_strictly_and_by_assignment(lib):
    m = net(lib)
    result = m.load_state_dict({"scale": lib.zeros(2), "more": lib.ones(1)}, strict=False)
    assert result.unexpected_keys == ["more"]
    assert "first.weight" in result.missing_keys
    value = lib.full((2,), 5.0)
    m.load_state_dict({**m.state_dict(), "scale": value}, assign=True)
    assert m.scale.data_ptr() == value.data_ptr()
    assert m.scale.requires_grad


@LIBRARIES
def test_meta_module_takes_over_a_state_dict(lib):
    m = lib.nn.Linear(2, 3, device="meta")
    source = lib.nn.Linear(2, 3)
    m.load_state_dict(source.state_dict(), assign=True)
    assert m.weight.tolist() == source.weight.tolist()
    assert isinstance(m.weight, lib.nn.Parameter)


def test_extra_state():
    def scenario(lib):
        class Counted(lib.nn.Linear):
            count = 3

            def get_extra_state(self):
                return {"count": self.count}

            def set_extra_state(self, state):
                self.count = state["count"]

        a, b = Counted(1, 1), Counted(1, 1)
        a.count = 7
        b.load_state_dict(a.state_dict())
        return list(a.state_dict()), b.count

    both(scenario)


def test_state_dict_hooks():
    def scenario(lib):
        m, log = net(lib), []
        m.register_state_dict_pre_hook(lambda module, prefix, keep: log.append(("before", prefix)))
        m.register_state_dict_post_hook(lambda module, state, prefix, meta: state.pop("kept") is None or None)

        def before_loading(module, state, prefix, *rest):
            log.append(("load", prefix))
            state.pop("gone", None)

        m.register_load_state_dict_pre_hook(before_loading)
        m.register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
        state = m.state_dict()
        m.load_state_dict({**state, "gone": 3})
        return log, list(state)

    both(scenario)


# Hooks.


def test_forward_hooks_run_in_order_and_change_values():
    def scenario(lib):
        m, log = net(lib), []
        handles = [
            m.register_forward_pre_hook(lambda module, args: log.append("pre") or (args[0] + 1,)),
            m.register_forward_pre_hook(lambda module, args: log.append("first"), prepend=True),
            m.register_forward_hook(lambda module, args, out: log.append("post") or out * 2),
            m.register_forward_hook(
                lambda module, args, kwargs, out: log.append(sorted(kwargs)), with_kwargs=True
            ),
            m.register_forward_pre_hook(
                lambda module, args, kwargs: ((), {"x": args[0] * 2}), with_kwargs=True
            ),
        ]
        out = m(lib.ones(1, 2)).tolist()
        for handle in handles:
            handle.remove()
        return (
            log,
            [[round(v, 4) for v in row] for row in out],
            [[round(v, 4) for v in row] for row in m(lib.ones(1, 2)).tolist()],
            len(m._forward_hooks_with_kwargs),
        )

    both(scenario)


def test_hooks_that_always_run():
    def scenario(lib):
        log = []

        class Fails(lib.nn.Module):
            def forward(self, x):
                raise KeyError("inside")

        m = Fails()
        m.register_forward_hook(lambda module, args, out: log.append("never"))
        m.register_forward_hook(lambda module, args, out: log.append(("always", out)), always_call=True)
        try:
            m(1)
        except KeyError as error:
            log.append(str(error))
        return log

    both(scenario)


def test_backward_hooks():
    def scenario(lib):
        m, log = net(lib), []
        m.first.register_full_backward_hook(
            lambda module, gi, go: log.append(("full", gi[0].tolist(), go[0].tolist())) or (gi[0] * 0,)
        )
        m.register_full_backward_pre_hook(
            lambda module, go: log.append(("pre", go[0].tolist())) or (go[0] * 2,)
        )
        m.second.register_full_backward_hook(lambda module, gi, go: log.append("second"))
        x = lib.full((1, 2), 0.5).requires_grad_()
        m(x).sum().backward()
        rounded = [
            tuple(e if isinstance(e, str) else [[round(v, 3) for v in r] for r in e] for e in entry)
            if isinstance(entry, tuple)
            else entry
            for entry in log
        ]
        return rounded, x.grad.tolist(), [round(v, 3) for v in m.scale.grad.tolist()]

    both(scenario)


@LIBRARIES
def test_backward_hook_without_gradients_of_inputs(lib):
    m, log = lib.nn.Linear(2, 1), []
    m.register_full_backward_hook(lambda module, gi, go: log.append((gi, go[0].tolist())))
    with pytest.warns(UserWarning, match="no inputs require gradients"):
        m(lib.ones(1, 2)).sum().backward()
    assert log == [((None,), [[1.0]])]
    with pytest.raises(RuntimeError):
        m.register_backward_hook(lambda *a: None)


def test_hooks_of_every_module():
    def scenario(lib):
        module, log = lib.nn.modules.module, []
        handles = [
            module.register_module_forward_pre_hook(lambda m, args: log.append(type(m).__name__)),
            module.register_module_forward_hook(lambda m, args, out: log.append("after")),
            module.register_module_parameter_registration_hook(lambda m, name, p: log.append(name)),
        ]
        try:
            made = lib.nn.Sequential(lib.nn.Linear(1, 1), lib.nn.ReLU())
            made(lib.ones(1))
        finally:
            for handle in handles:
                handle.remove()
        made(lib.ones(1))
        return log

    both(scenario)


def test_handles_do_not_keep_modules_alive():
    m = net(rl)
    handle = m.register_forward_hook(lambda *a: None)
    del m
    gc.collect()
    handle.remove()


# Modes, gradients, conversion.


@LIBRARIES
def test_modes_and_gradients(lib):
    m = net(lib)
    assert m.eval() is m
    assert not any(module.training for module in m.modules())
    m.train()
    m.requires_grad_(False)
    assert not any(p.requires_grad for p in m.parameters())
    m.requires_grad_()
    m(lib.ones(1, 2)).sum().backward()
    m.zero_grad(set_to_none=False)
    assert m.first.weight.grad.abs().sum().item() == 0
    m.zero_grad()
    assert m.first.weight.grad is None


@LIBRARIES
def test_conversion_keeps_parameters(lib):
    m = net(lib)
    m.register_buffer("count", lib.tensor(3))
    params = list(m.parameters())
    m(lib.ones(1, 2)).sum().backward()
    assert m.double() is m
    assert all(a is b for a, b in zip(params, m.parameters(), strict=True))
    assert m.first.weight.dtype is lib.float64
    assert m.first.weight.grad.dtype is lib.float64
    assert m.count.dtype is lib.int64
    assert m.tied is m.scale
    m.to(lib.bfloat16)
    assert m.kept.dtype is lib.bfloat16
    m.half()
    m.to(lib.ones(1))
    assert m.scale.dtype is lib.float32
    empty = m.to("meta")
    assert empty.scale.device.type == "meta"
    assert isinstance(empty.scale, lib.nn.Parameter)
    assert m.to_empty(device="cpu").scale.device.type == "cpu"


@LIBRARIES
def test_apply_goes_from_the_leaves_up(lib):
    names = []
    net(lib).apply(lambda module: names.append(type(module).__name__))
    assert names == ["Linear", "ReLU", "Linear", "Sequential", "Net"]


@LIBRARIES
def test_copies(lib):
    m = net(lib)
    m(lib.ones(1, 2)).sum().backward()
    deep = copy.deepcopy(m)
    assert deep.tied is deep.scale
    assert deep.scale is not m.scale
    assert deep.scale.grad is None
    shallow = copy.copy(m)
    assert shallow.scale is m.scale
    again = pickle.loads(pickle.dumps(lib.nn.Linear(2, 2)))
    assert again(lib.ones(2)).shape == (2,)


@LIBRARIES
def test_parameter(lib):
    data = lib.ones(2)
    p = lib.nn.Parameter(data)
    assert p.requires_grad
    assert p.is_leaf
    assert p.data_ptr() == data.data_ptr()
    assert isinstance(p, lib.Tensor)
    assert not isinstance(p * 1, lib.nn.Parameter)
    assert repr(p) == "Parameter containing:\ntensor([1., 1.], requires_grad=True)"
    assert not lib.nn.Parameter(data, requires_grad=False).requires_grad
    assert lib.nn.Parameter().shape == (0,)
    assert isinstance(lib.nn.Buffer(data), lib.nn.Buffer)
    assert not isinstance(data, lib.nn.Buffer)


def test_parameter_is_saved_as_one(tmp_path):
    m = net(rl)
    rl.save({"p": m.scale, "state": m.state_dict()}, tmp_path / "f")
    loaded = rl.load(tmp_path / "f")
    assert isinstance(loaded["p"], nn.Parameter)
    assert loaded["p"].requires_grad
    assert list(loaded["state"]) == list(m.state_dict())
    assert loaded["state"]._metadata == m.state_dict()._metadata


def test_functional_call():
    def scenario(lib):
        m = net(lib)
        call = lib.func.functional_call
        out = call(m, {"scale": lib.zeros(2), "kept": lib.full((2,), 3.0)}, (lib.ones(1, 2),))
        grads = lib.func.grad(lambda p: call(m, p, (lib.ones(1, 2),)).sum())({"scale": lib.ones(2)})
        return out.tolist(), [round(v, 4) for v in grads["scale"].tolist()], m.kept.tolist()

    both(scenario)


def test_compiled_module():
    m = net(rl).eval()
    x = rl.randn(4, 2)
    expected = m(x)
    compiled = rl.compile(m, fullgraph=True)
    assert rl.allclose(compiled(x), expected)
    m.compile(fullgraph=True)
    assert rl.allclose(m(x), expected)


@LIBRARIES
def test_lazy_modules(lib):
    m = lib.nn.LazyLinear(3)
    assert "Uninitialized" in type(m.weight).__name__
    with pytest.raises(RuntimeError, match="uninitialized"):
        m.weight.shape
    assert copy.deepcopy(m)(lib.ones(2, 5)).shape == (2, 3)
    source = lib.nn.Linear(4, 3)
    m.load_state_dict(source.state_dict())
    assert m(lib.ones(4)).tolist() == source(lib.ones(4)).tolist()
    assert type(m) is lib.nn.Linear
    assert m.in_features == 4


def test_forward_of_a_missing_name_is_reported():
    with pytest.raises(AttributeError, match="object has no attribute 'nothing'"):
        net(rl).nothing
    with pytest.raises(AttributeError):
        nn.NoSuchModule


def test_plain_attributes_and_tables() -> None:
    """A value that is no tensor goes where the name is: to a table, which takes None alone, or to the object."""
    module = nn.Linear(2, 2)
    module.note = 1
    module.note = 2
    assert vars(module)["note"] == 2
    with pytest.raises(TypeError, match="cannot assign 'int' as parameter 'weight'"):
        module.weight = 3
    module.weight = None
    assert module._parameters["weight"] is None
    assert "weight" not in vars(module)
    module.note = nn.Parameter(rl.ones(1))
    assert "note" not in vars(module)
    assert module._parameters["note"] is module.note
    module.register_buffer("mean", rl.zeros(1))
    with pytest.raises(TypeError, match="cannot assign 'float' as buffer 'mean'"):
        module.mean = 1.0
