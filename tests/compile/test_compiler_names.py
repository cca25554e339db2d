"""The functions of `rushlight.compiler`."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import nn
from rushlight.capture.errors import CaptureError


def test_is_compiling():
    assert not rl.compiler.is_compiling()
    compiled = rl.compile(lambda x: x * 2 if rl.compiler.is_compiling() else x * 3, fullgraph=True)
    assert rl.equal(compiled(rl.ones(2)), rl.full((2,), 2.0))
    assert not rl.compiler.is_exporting()


def test_disable():
    runs = []

    @rl.compiler.disable(reason="it is timed")
    def plain(x):
        runs.append(type(x.sum().item()))
        return x + 1

    def function(x):
        return plain(x * 2) * 3

    with pytest.raises(CaptureError, match=r"plain, for which compilation is disabled \(it is timed\)"):
        rl.compile(function, fullgraph=True)(rl.ones(2))
    compiled = rl.compile(function)
    for _ in range(3):
        assert rl.equal(compiled(rl.ones(2)), rl.full((2,), 9.0))
    assert runs == [float] * 3
    assert plain.__name__ == "plain"


def test_disable_a_module():
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = rl.compiler.disable(nn.Linear(2, 2))

        def forward(self, x):
            return self.inner(x) + 1

    block = Block()
    with pytest.raises(CaptureError, match="disabled"):
        rl.compile(block, fullgraph=True)(rl.ones(1, 2))
    assert rl.equal(rl.compile(block)(rl.ones(1, 2)), block(rl.ones(1, 2)))


def test_reset():
    compiled = rl.compile(lambda x: x + 1)
    compiled(rl.ones(2))
    compiled(rl.ones(2))
    rl.compiler.reset()
    assert not compiled.specializations
    assert rl.equal(compiled(rl.ones(2)), rl.full((2,), 2.0))
    assert compiled.reasons == ["first call"]


def test_backends():
    for name in rl.compiler.list_backends(None):
        assert rl.compile(rl.sin, backend=name)(rl.zeros(1)) == 0
    assert rl.compiler.allow_in_graph(rl.sin) is rl.compiler.assume_constant_result(rl.sin) is rl.sin


def compiled_is_2():
    """A compiled function that gives 2 for ones where it is compiled, and 3 where it runs eagerly."""
    return rl.compile(lambda x: x + 1 if rl.compiler.is_compiling() else x + 2)


def test_force_eager():
    function = compiled_is_2()
    values = [function(rl.ones(1)).item() for _ in range(2)]
    with rl.compiler.set_stance("force_eager"):
        values.append(function(rl.ones(1)).item())
    values.append(function(rl.ones(1)).item())
    rl.compiler.set_stance("force_eager")
    values.append(function(rl.ones(1)).item())
    rl.compiler.set_stance()
    values.append(function(rl.ones(1)).item())
    assert values == [2, 2, 3, 2, 3, 2]


def test_recompilation_under_a_stance():
    function = compiled_is_2()
    function(rl.ones(2))
    with rl.compiler.set_stance("eager_on_recompile"):
        assert [function(rl.ones(n))[0].item() for n in (3, 2, 3)] == [3, 2, 3]
    with rl.compiler.set_stance("fail_on_recompile"):
        assert function(rl.ones(2))[0].item() == 2
        with pytest.raises(
            RuntimeError, match=r"Detected recompile when the stance .* \(argument 0: shape was"
        ):
            function(rl.ones(3))
    with rl.compiler.set_stance("eager_then_compile"):
        assert [function(rl.ones(4))[0].item() for _ in range(3)] == [3, 2, 2]


def test_stance_of_a_decorated_function_and_wrong_ones():
    function = compiled_is_2()
    outer = rl.compiler.set_stance("force_eager")(lambda x: function(x))
    assert [f(rl.ones(1)).item() for f in (outer, function, outer)] == [3, 2, 3]
    with pytest.raises(RuntimeError, match="invalid stance 'bogus'; the stances are default"):
        rl.compiler.set_stance("bogus")
    with pytest.raises(RuntimeError, match="non-default stance cannot have force_backend"):
        rl.compiler.set_stance("force_eager", force_backend="inductor")
    with pytest.raises(NotImplementedError, match="force_backend is not available"):
        rl.compiler.set_stance("default", force_backend="inductor")
    with pytest.raises(NotImplementedError, match="skip_guard_eval_unsafe"):
        rl.compiler.set_stance("default", skip_guard_eval_unsafe=True)
    with pytest.raises(RuntimeError, match="in a compiled function"):
        rl.compile(lambda x: rl.compiler.set_stance("default") and x, fullgraph=True)(rl.ones(1))


def test_wrap_numpy(same):
    same(lambda lib: lib.compiler.wrap_numpy(lambda a, k=1: {"twice": a * 2 * k, "n": 3})(lib.ones(2), k=2))


def test_substitute_in_graph(same):
    same(lambda lib: lib.compiler.substitute_in_graph(3), message="expects a function but got")
    same(
        lambda lib: lib.compiler.substitute_in_graph(len)(lambda first, second: 1),
        message="Signature mismatch between",
    )

    @rl.compiler.substitute_in_graph(len, skip_signature_check=True)
    def length(x):
        return sum(1 for _ in x)

    assert rl.compile(lambda x: x * length([1, 2]), fullgraph=True)(rl.ones(1)).item() == 2


def test_regions_and_allowed_functions(same):
    @rl.compiler.nested_compile_region
    def block(x):
        return x.sin() + 1

    x = rl.rand(3)
    rl.testing.assert_close(rl.compile(lambda x: block(block(x)), fullgraph=True)(x), block(block(x)))
    assert block.__name__ == "block"
    same(lambda lib: lib.compiler.allow_in_graph(3), message="allow_in_graph expects a callable")
    assert rl.compiler.allow_in_graph([rl.sin]) == [rl.sin]
