"""The options of `rushlight.compile` are honoured, or refused with those that there are (defect 7)."""

from __future__ import annotations

import pytest
import torch

import rushlight as rl
from rushlight import nn
from rushlight.capture.errors import CaptureError
from rushlight.compiler import pipeline


@pytest.mark.parametrize("mode", ["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_d7_modes(mode):
    compiled = rl.compile(lambda x: x + 1, mode=mode, fullgraph=True)
    assert rl.equal(compiled(rl.ones(3)), rl.full((3,), 2.0))
    assert len(compiled.specializations) == 1


@pytest.mark.parametrize(
    ("options", "names"),
    [
        ({"mode": "bogus"}, "max-autotune-no-cudagraphs"),
        ({"mode": 3}, "reduce-overhead"),
        ({"backend": "bogus"}, "inductor, rushlight, eager"),
        ({"options": {"bogus": 1}}, "use_cache"),
        ({"options": {"use_cache": "no"}}, "of type bool"),
        ({"mode": "default", "options": {}}, "both"),
        ({"dynamic": "yes"}, "True, False or None"),
    ],
)
def test_d7_what_is_not_known_is_refused(options, names):
    with pytest.raises(Exception, match=names) as refused:
        rl.compile(lambda x: x, **options)
    with pytest.raises(Exception) as expected:
        torch.compile(lambda x: x, **options)
    if options != {"options": {"use_cache": "no"}}:  # an option of ours
        assert issubclass(expected.type, refused.type)
    with pytest.raises(refused.type):
        rl.compile(**options)  # as a decorator, and of a module
    with pytest.raises(refused.type):
        rl.compile(nn.Linear(2, 2), **options)


def test_d7_a_callable_backend_is_refused():
    with pytest.raises(NotImplementedError, match="make_fx"):
        rl.compile(lambda x: x, backend=lambda graph, inputs: graph)


def test_d7_uncompiled_backends_run_the_function_itself():
    def function(x):
        return x + 1

    assert rl.compile(function, backend="eager") is function


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_uncompiled_backends_with_fullgraph_refuse_what_has_no_graph(backend):
    seen = []

    def function(x, scale):
        seen.append(1)
        return rl.func.grad(lambda v: (v * v * scale).sum())(x)

    def breaks(x):
        return x + 1 if x.sum().item() > 0 else x

    x = rl.ones(2)
    checked = rl.compile(function, backend=backend, fullgraph=True)
    assert [checked(x, 2.0).tolist() for _ in range(3)] == [[4, 4]] * 3
    assert len(seen) == 3  # what the capture does to the program is undone
    checked = rl.compile(breaks, backend=backend, fullgraph=True)
    with pytest.raises(CaptureError, match="reads a value"):
        checked(x)
    assert rl.func.vmap(rl.compile(lambda v: v * 2, backend=backend, fullgraph=True))(x).tolist() == [2, 2]
    module = nn.Linear(2, 2)
    compiled = rl.compile(module, backend=backend, fullgraph=True)
    assert compiled(x).tolist() == module(x).tolist()
    assert list(compiled.state_dict()) == ["_orig_mod.weight", "_orig_mod.bias"]


@pytest.mark.parametrize(("dynamic", "compilations"), [(None, 2), (True, 1), (False, 3)])
def test_d7_dynamic_says_how_often_to_compile(dynamic, compilations):
    compiled = rl.compile(lambda x: (x * 2).sum(0), dynamic=dynamic, fullgraph=True)
    for size in (2, 3, 5):
        x = rl.randn(size, size + 1)
        rl.testing.assert_close(compiled(x), (x * 2).sum(0))
    assert len(compiled.reasons) == compilations


def test_d7_option_use_cache(monkeypatch):
    looked = []
    recall = pipeline.recall
    monkeypatch.setattr(pipeline, "recall", lambda key, *more: looked.append(key) or recall(key, *more))
    x = rl.ones(3, 2)
    for use_cache in (True, False):
        looked.clear()
        module = nn.Linear(2, 2)
        rl.compile(module, options={"use_cache": use_cache})(x)
        rl.compile(lambda x: x + 1, options={"use_cache": use_cache})(x)
        assert bool(looked) is use_cache
