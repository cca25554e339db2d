"""Sequential, and lists and dicts of modules and parameters. Scenarios run with torch and with rushlight."""

from __future__ import annotations

from collections import OrderedDict

import pytest
import torch

import rushlight as rl

from .sides import both


def test_sequential():
    def scenario(lib):
        L, R = lib.nn.Linear, lib.nn.ReLU
        s = lib.nn.Sequential(L(1, 2), R())
        s.append(L(2, 1)).insert(1, R()).extend([R()])
        log = [repr(lib.nn.Sequential(OrderedDict(a=L(1, 2), b=R())))]
        log += [repr(s), len(s), list(s._modules), type(s[-1]).__name__, repr(s[1:3])]
        del s[0]
        s[0] = L(3, 3)
        s2 = s + lib.nn.Sequential(R())
        s2 *= 2
        popped = s2.pop(0)
        return [*log, repr(s), repr(s2), repr(popped), repr(2 * lib.nn.Sequential(R())), list(s2._modules)]

    both(scenario)


def test_module_list():
    def scenario(lib):
        L = lib.nn.Linear
        m = lib.nn.ModuleList([L(1, 1), L(1, 1), lib.nn.ReLU()])
        m.append(L(1, 1)).extend([L(2, 1)])
        m.insert(0, lib.nn.Tanh())
        m += [lib.nn.ReLU()]
        text = repr(m)
        del m[0], m[-1]
        m[0] = lib.nn.GELU()
        return text, repr(m), repr(m[1:3]), repr(m + [L(5, 5)]), len(m), repr(m.pop(1)), list(m._modules)

    both(scenario)


def test_module_dict():
    def scenario(lib):
        m = lib.nn.ModuleDict({"b": lib.nn.ReLU(), "a": lib.nn.Linear(1, 1)})
        m.update([("c", lib.nn.Tanh())])
        m["d"] = lib.nn.Identity()
        keys = list(m.keys())
        popped = m.pop("b")
        del m["d"]
        return keys, repr(popped), repr(m), len(m), "a" in m, [k for k, _ in m.items()]

    both(scenario)


def strip(text):
    return text.replace("torch.", "").replace("rushlight.", "")


def test_parameter_list_and_dict():
    def scenario(lib):
        p = lib.nn.ParameterList([lib.ones(2), 3, lib.nn.Parameter(lib.ones(1, 2))])
        p.append(lib.zeros(1))
        p[0] = lib.zeros(4)
        d = lib.nn.ParameterDict({"b": lib.ones(2), "a": lib.nn.Parameter(lib.ones(3)), "n": None})
        d["z"] = lib.ones(1)
        e = d | lib.nn.ParameterDict({"y": lib.ones(5)})
        return (
            strip(repr(p)),
            strip(repr(p[1:])),
            len(p),
            [n for n, _ in p.named_parameters()],
            strip(repr(d)),
            list(d.keys()),
            list(e),
            [k for k, _ in d.items()],
            d.popitem()[0],
            list(reversed(d)),
            d.get("nothing", 3),
            list(d.fromkeys(["q"], lib.ones(1))),
            d.pop("a").shape == (3,),
        )

    both(scenario)


@pytest.mark.parametrize(
    "action",
    [
        lambda lib: lib.nn.Sequential(lib.nn.ReLU())[3],
        lambda lib: lib.nn.Sequential(lib.nn.ReLU()) * 0,
        lambda lib: lib.nn.Sequential(lib.nn.ReLU()) + 3,
        lambda lib: lib.nn.ModuleList([3]),
        lambda lib: lib.nn.ModuleList(3),
        lambda lib: lib.nn.ModuleDict([("a",)]),
        lambda lib: lib.nn.ModuleDict(3),
        lambda lib: lib.nn.ParameterList([1])(2),
        lambda lib: lib.nn.ParameterDict({3: lib.ones(1)}),
        lambda lib: lib.nn.ModuleDict()["x"],
        lambda lib: lib.nn.ModuleList()(1),
        lambda lib: lib.nn.Sequential().insert(3, lib.nn.ReLU()),
    ],
)
def test_container_errors(action):
    with pytest.raises(Exception) as theirs:
        action(torch)
    with pytest.raises(type(theirs.value)):
        action(rl)
