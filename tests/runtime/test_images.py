"""Code as an image: what it computes is what LLVM's linker has it compute, and it is loaded without LLVM."""

from __future__ import annotations

import ctypes
import gc
import platform
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from rushlight.runtime import engine as engine_module
from rushlight.runtime import machine as machine_module
from rushlight.runtime.cache import ObjectCache
from rushlight.runtime.engine import Engine
from rushlight.runtime.images import is_image, load
from rushlight.runtime.machine import machine
from rushlight.runtime.objects import image_of

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="images are of ELF for x86-64"
)

# Constants, tables of addresses, data that is written to and data that is zero at first, calls inside and
# outside, and addresses of functions inside and outside.
TEXT = """
@table = private unnamed_addr constant [2 x ptr] [ptr @inside, ptr @outside]
@counted = global i64 5
@blank = global [1000 x i64] zeroinitializer
@far = external global i64
declare i64 @outside(i64)
define internal i64 @inside(i64 %a) noinline {
  %b = mul i64 %a, 7
  ret i64 %b
}
define i64 @through_table(i64 %a, i64 %which) {
  %place = getelementptr [2 x ptr], ptr @table, i64 0, i64 %which
  %function = load ptr, ptr %place
  %b = call i64 %function(i64 %a)
  ret i64 %b
}
define i64 @calls(i64 %a, i64 %b) {
  %c = call i64 @inside(i64 %a)
  %d = call i64 @outside(i64 %b)
  %e = add i64 %c, %d
  %place = getelementptr [1000 x i64], ptr @blank, i64 0, i64 999
  %before = load i64, ptr %place
  %f = add i64 %e, %before
  store i64 %e, ptr %place
  %n = load i64, ptr @counted
  %m = add i64 %n, 1
  store i64 %m, ptr @counted
  %g = add i64 %f, %m
  ret i64 %g
}
define i64 @constants(i64 %a, i64 %b) {
  %x = sitofp i64 %a to double
  %y = fmul double %x, 1.25
  %z = call double @llvm.copysign.f64(double %y, double -3.0)
  %w = fptosi double %z to i64
  %v = load i64, ptr @far
  %s = add i64 %w, %v
  ret i64 %s
}
declare double @llvm.copysign.f64(double, double)
"""
NO_IMAGES = SimpleNamespace(image_of=lambda code: None)
EXPORTS = ("through_table", "calls", "constants", "counted")
Binary = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)
Unary = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)


def results(library) -> list[int]:
    calls = {name: Binary(library.addresses[name]) for name in EXPORTS[:-1]}
    found = [calls["through_table"](6, which) for which in (0, 1)]
    found += [calls["calls"](a, b) for a, b in ((1, 2), (3, 4), (5, 6))]
    found += [calls["constants"](8, 0), ctypes.c_int64.from_address(library.addresses["counted"]).value]
    return found


def test_an_image_computes_what_linked_code_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    outside, far = Unary(lambda a: 100 * a), ctypes.c_int64(1000)
    imports = {"outside": ctypes.cast(outside, ctypes.c_void_p).value, "far": ctypes.addressof(far)}
    own = Engine(ObjectCache(None)).build(TEXT, EXPORTS, imports)
    assert is_image(own.object_code)
    monkeypatch.setattr(engine_module, "objects", NO_IMAGES)
    linked = Engine(ObjectCache(None)).build(TEXT, EXPORTS, imports)
    assert linked.object_code.startswith(b"\x7fELF")
    assert results(own) == results(linked) == [42, 600, 213, 635, 1064, 990, 8]


def test_code_cannot_be_written_to_and_data_cannot_run() -> None:
    library = Engine(ObjectCache(None)).build(TEXT, EXPORTS, {"outside": 16, "far": 16})
    rights = {}
    for line in Path("/proc/self/maps").read_text().splitlines():
        places, allowed = line.split()[:2]
        first, last = (int(place, 16) for place in places.split("-"))
        for name in ("calls", "counted"):
            if first <= library.addresses[name] < last:
                rights[name] = allowed
    assert rights == {"calls": "r-xp", "counted": "rw-p"}


def test_images_and_objects_are_loaded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = Engine(ObjectCache(None))
    first, _ = engine.compile("define i64 @one() {\n  ret i64 1\n}\n")
    with monkeypatch.context() as patch:
        patch.setattr(engine_module, "objects", NO_IMAGES)
        second, _ = engine.compile("define i64 @two() {\n  ret i64 2\n}\n")
    third, _ = engine.compile("define i64 @three() {\n  ret i64 3\n}\n")
    library = engine.link(first, ("one", "two", "three"), {}, (second, third))
    call = ctypes.CFUNCTYPE(ctypes.c_int64)
    assert [call(library.addresses[name])() for name in ("one", "two", "three")] == [1, 2, 3]


@pytest.mark.parametrize(
    "text",
    [
        "@own = thread_local global i64 3\ndefine i64 @f() {\n  %a = load i64, ptr @own\n  ret i64 %a\n}\n",
        "@twice = common global i64 0\n",
        "@maybe = extern_weak global i64\ndefine ptr @f() {\n  ret ptr @maybe\n}\n",
    ],
    ids=["data of threads", "common data", "weak symbols"],
)
def test_what_images_have_not_is_left_to_the_linker(text: str) -> None:
    code, _ = Engine(ObjectCache(None)).compile(text)
    assert code.startswith(b"\x7fELF")


def test_other_files_have_no_image() -> None:
    assert image_of(b"") is None
    assert image_of(b"\x7fELF\x01\x01" + bytes(100)) is None
    assert image_of(Path(sys.executable).read_bytes()) is None


def test_no_images_need_no_memory() -> None:
    assert load((), {}) == (None, {})


LATE = """
import ctypes, os, sys, types
from rushlight.runtime.cache import ObjectCache
from rushlight.runtime.engine import Engine
library = Engine(ObjectCache(None)).build("define i64 @three() {\\n  ret i64 3\\n}\\n", ["three"])
call = ctypes.CFUNCTYPE(ctypes.c_int64)(library.addresses["three"])
def end(self, call=call, write=os.write):
    write(1, b"%d" % call())
# what is freed with sys, after all modules, the library among them: its function does not keep this one
sys.late = type("Late", (), {"__del__": types.FunctionType(end.__code__, {}, "end", end.__defaults__)})()
"""


def test_code_stays_while_the_interpreter_ends() -> None:
    done = subprocess.run([sys.executable, "-c", LATE], capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"3")


def test_code_goes_with_its_library() -> None:
    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count("r-xp 00000000 00:00 0")

    before = mapped()
    libraries = [Engine(ObjectCache(None)).build(TEXT, EXPORTS, {"outside": 16, "far": 16}) for _ in range(3)]
    assert mapped() > before
    libraries.clear()
    gc.collect()
    assert mapped() == before


FROM_DISK = """
import sys
import rushlight as rl
f = rl.compile(lambda x: x.relu().softmax(-1) + 1)
f(rl.ones(64, 64))
print("llvmlite" in sys.modules)
"""


def test_code_from_disk_is_loaded_without_llvm(tmp_path: Path) -> None:
    environment = {"PATH": "", "PYTHONPATH": ":".join(sys.path), "RUSHLIGHT_CACHE_DIR": str(tmp_path)}
    found = [
        subprocess.run(
            [sys.executable, "-c", FROM_DISK], env=environment, capture_output=True, text=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert found == ["True\n", "False\n"]


def test_a_machine_is_remembered_for_its_cpu_and_its_llvm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache, asked = ObjectCache(tmp_path), []
    monkeypatch.setattr(machine_module, "_asked", lambda ask=machine_module._asked: asked.append(1) or ask())
    first = machine(cache)
    assert machine(cache) == first
    assert len(asked) == 1
    for name in ("_cpu", "_library"):
        with monkeypatch.context() as patch:
            patch.setattr(machine_module, name, lambda: "another")
            assert machine(cache) == first
            patch.setattr(machine_module, name, lambda: None)  # it cannot be told
            assert machine(cache) == machine(cache) == first
    assert len(asked) == 7
    assert machine(ObjectCache(None)) == first
