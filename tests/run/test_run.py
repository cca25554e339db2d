"""`rushlight run`: a program finds Rushlight under the name torch, and everything else as Python makes it."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from .running import python, run, write

PROBE = '''"""What a program finds."""
import os, sys
print(os.path.abspath(sys.argv[0]), sys.argv[1:], sys.path[0], os.getcwd())
print(__name__, __file__, __spec__ and __spec__.name, __package__, __doc__, __cached__)
print(sys.modules["__main__"].__dict__ is globals(), sorted({*globals()} - {"__annotations__"}))
'''


@pytest.mark.parametrize("how", [("probe.py",), ("./probe.py",), ("-m", "probe"), ("app",), ("-m", "app")])
def test_a_program_finds_what_python_gives_it(how: tuple[str, ...], tmp_path: Path) -> None:
    write(tmp_path, "probe.py", PROBE)
    (tmp_path / "app").mkdir()
    write(tmp_path / "app", "__main__.py", PROBE)
    arguments = [*how, "--lr", "0.1", "--", "-m", "--compile", "demo"]
    wanted, found = python(*arguments, cwd=tmp_path), run("--compile", "off", *arguments, cwd=tmp_path)
    assert found.returncode == wanted.returncode == 0, found.stderr
    assert found.stdout == wanted.stdout


ENDINGS = {
    "status": "import sys; sys.exit(7)",
    "message": "raise SystemExit('no more')",
    "error": "import torch\ndef f():\n    raise ValueError('wrong')\nf()",
    "syntax": "x = = 1",
    "end": "import atexit\natexit.register(print, 'end')",
}


@pytest.mark.parametrize("name", ENDINGS)
def test_a_program_ends_as_under_python(name: str, tmp_path: Path) -> None:
    write(tmp_path, "program.py", ENDINGS[name])
    wanted, found = python("program.py", cwd=tmp_path), run("program.py", cwd=tmp_path)
    assert (found.returncode, found.stdout, found.stderr) == (wanted.returncode, wanted.stdout, wanted.stderr)


IMPORTS = """
import sys, types
import torch, torch.nn as nn, torch.nn.functional as F
import torch.autograd.gradcheck, torch.optim.lr_scheduler, torch.utils.data
from torch.autograd.gradcheck import gradcheck
from torch.utils.data import DataLoader
from torch import optim, Tensor
import importlib.metadata, importlib.util
import rushlight
assert torch is rushlight and torch.torch is torch and F is torch.nn.functional is rushlight.nn.functional
assert all(m is sys.modules["rushlight" + n[5:]] for n, m in sys.modules.items() if n.split(".")[0] == "torch")
assert isinstance(torch.autograd.gradcheck, types.FunctionType)
assert torch.__version__ >= "2.4" and torch.__version__ < (99,) and torch.version.__version__ == torch.__version__
assert importlib.metadata.version("torch") == torch.__version__
assert importlib.util.find_spec("torch") and importlib.util.find_spec("torch.nowhere") is None
assert not hasattr(torch, "nowhere")
print(torch.__version__, torch.float32, torch.zeros(1).type(), torch.Size([2]))
"""


def test_every_import_of_torch_finds_rushlight(tmp_path: Path) -> None:
    """Though PyTorch is installed here."""
    done = run(write(tmp_path, "program.py", IMPORTS))
    assert done.returncode == 0, done.stderr
    assert done.stdout == "2.13.0+rushlight.0.1.0 torch.float32 torch.FloatTensor torch.Size([2])\n"


@pytest.mark.parametrize(
    ("text", "error", "name"),
    [
        ("import torch.nowhere", "ModuleNotFoundError: No module named 'torch.nowhere'", "torch.nowhere"),
        ("import torch.core", "ModuleNotFoundError: No module named 'torch.core'", "torch.core"),
        ("from torch.nn import Nothing", "ImportError: cannot import name 'Nothing'", "torch.nn.Nothing"),
        ("import torch; torch.nothing", "AttributeError: module 'torch' has no attribute", "torch.nothing"),
        ("import torch; torch.nn.Nothing()", "AttributeError: module", "torch.nn.Nothing"),
    ],
)
def test_what_is_not_there_is_named(text: str, error: str, name: str, tmp_path: Path) -> None:
    done = run(write(tmp_path, "program.py", text))
    assert done.returncode == 1
    assert error in done.stderr
    assert f"{name} is not there: torch is Rushlight in this program. What to do:" in done.stderr


def test_other_errors_are_left_alone(tmp_path: Path) -> None:
    done = run(write(tmp_path, "program.py", "import torch, nowhere"))
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'nowhere'\n")


WORKERS = """
import torch, sys
import torch.multiprocessing as mp
from torch.utils.data import DataLoader, Dataset

class Numbers(Dataset):
    def __len__(self):
        return 6
    def __getitem__(self, i):
        import torch.nn.functional as F
        assert torch.__version__.partition("+")[2].startswith("rushlight")
        return F.relu(torch.tensor([-1.0, float(i)]))

def work(rank, queue):
    import torch.nn.functional as F
    queue.put((rank, F.relu(torch.tensor([-1.0, 2.0])).tolist(), torch.float32.__repr__()))

if __name__ == "__main__":
    for method in ("spawn", "fork", "forkserver"):
        context = mp.get_context(method)
        queue = context.Queue()
        process = context.Process(target=work, args=(3, queue))
        process.start()
        found = queue.get(timeout=120)
        process.join()
        loader = DataLoader(Numbers(), batch_size=2, num_workers=1, multiprocessing_context=method)
        print(method, found, process.exitcode, sum(batch.sum().item() for batch in loader))
"""


def test_worker_processes_find_it_too(tmp_path: Path) -> None:
    done = run(write(tmp_path, "program.py", WORKERS))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{method} (3, [0.0, 2.0], 'torch.float32') 0 15.0" for method in ("spawn", "fork", "forkserver")
    ]


def test_usage(tmp_path: Path) -> None:
    done = run(tmp_path / "nowhere.py")
    assert done.returncode == 2
    assert "there is no such file" in done.stderr
    done = run("-m", "nowhere_at_all")
    assert done.returncode == 1
    assert "No module named nowhere_at_all" in done.stderr


SAVES = """
import collections, sys
import torch
from torch import nn
from torch.utils.data import TensorDataset

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
optimizer = torch.optim.AdamW(model.parameters())
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
model(torch.arange(6.0).reshape(2, 3)).square().sum().backward()
optimizer.step()
table = torch.arange(6.0).reshape(2, 3)
torch.save(
    {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(),
        "step": 3, "rate": 0.1, "names": ["a", ("b", None, True)], "counts": collections.Counter("aab"),
        "shared": [table, table[:, 1:], table.t()], "parameter": nn.Parameter(torch.ones(2)),
        "others": [torch.ones(2, dtype=d) for d in (torch.bfloat16, torch.complex64, torch.int8, torch.bool)],
        "empty": torch.empty(0, 3), "number": torch.tensor(3), "type": torch.float32, "size": torch.Size([1, 2]),
    },
    sys.argv[1],
)
"""

LOADS = """
import sys
import torch

def plain(value):
    if isinstance(value, torch.Tensor):
        return str(value.dtype), value.requires_grad, tuple(value.stride()), value.tolist()
    if isinstance(value, dict):
        return type(value).__name__, {key: plain(part) for key, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, list | tuple) else str(value)

found = torch.load(sys.argv[1])
whole, part, turned = found["shared"]
whole[0, 1] = 50
assert part[0, 0] == 50 and turned[1, 0] == 50
model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
model.load_state_dict(found["model"])
optimizer = torch.optim.AdamW(model.parameters())
optimizer.load_state_dict(found["optimizer"])
print(plain(found))
"""


def test_files_are_those_that_pytorch_reads(tmp_path: Path) -> None:
    saves, loads = write(tmp_path, "saves.py", SAVES), write(tmp_path, "loads.py", LOADS)
    done = run(saves, tmp_path / "ours.pt")
    assert done.returncode == 0, done.stderr
    assert zipfile.is_zipfile(tmp_path / "ours.pt")
    texts = []
    for started in (python, run):
        read = started(loads, tmp_path / "ours.pt")
        assert read.returncode == 0, read.stderr
        texts.append(read.stdout)
    assert texts[0] == texts[1]
    assert "bfloat16" in texts[0]
