"""The test files that are run, and how many tests of each: 0 means all, a number that many, chosen by a
hash of their names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FILES = (
    ("test_indexing.py", 0),
    ("test_view_ops.py", 0),
    ("test_autograd.py", 0),
    ("test_torch.py", 1000),
    ("test_nn.py", 1200),
    ("functorch/test_eager_transforms.py", 0),
    ("inductor/test_torchinductor.py", 0),
    ("inductor/test_torchinductor_dynamic_shapes.py", 0),
    ("test_tensor_creation_ops.py", 500),
    ("test_sort_and_select.py", 0),
    ("test_scatter_gather_ops.py", 0),
    ("test_reductions.py", 700),
    ("test_unary_ufuncs.py", 500),
    ("test_binary_ufuncs.py", 500),
    ("autograd/*.py", 0),
    ("nn/test_convolution.py", 400),
    ("nn/test_dropout.py", 0),
    ("nn/test_init.py", 0),
    ("nn/test_lazy_modules.py", 0),
    ("nn/test_load_state_dict.py", 0),
    ("nn/test_module_hooks.py", 0),
    ("nn/test_multihead_attention.py", 0),
    ("nn/test_packed_sequence.py", 0),
    ("nn/test_pooling.py", 400),
    ("nn/test_pruning.py", 0),
    ("test_modules.py", 300),
    ("test_optim.py", 300),
    ("optim/*.py", 0),
    ("test_linalg.py", 300),
    ("test_complex.py", 0),
    ("test_segment_reductions.py", 0),
    ("test_foreach.py", 200),
    ("test_sparse.py", 300),
    ("test_nestedtensor.py", 300),
    ("test_serialization.py", 0),
    ("distributions/*.py", 0),
    ("test_numpy_interop.py", 0),
    ("test_dlpack.py", 0),
    ("test_subclass.py", 0),
    ("test_custom_ops.py", 0),
    ("test_autocast.py", 0),
    ("test_type_info.py", 0),
)


@dataclass(frozen=True)
class TestFile:
    name: str  # relative to the tree's test folder
    sample: int  # how many tests run; 0: all

    @property
    def key(self) -> str:
        """The name as part of a file name."""
        return self.name.replace("/", "+")


def selected(tree: Path, pattern: str) -> Iterator[TestFile]:
    """The files of the suite whose name contains a match, in the suite's order."""
    root = tree / "test"
    for glob, sample in FILES:
        for path in sorted(root.glob(glob)):
            name = path.relative_to(root).as_posix()
            if path.name.startswith("test_") and re.search(pattern, name):
                yield TestFile(name, sample)


def counts(test: str) -> bool:
    """Whether a test can count: torch._refs is torch's second implementation of itself, not an interface."""
    return "_refs_" not in test
