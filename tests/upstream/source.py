"""PyTorch's source tree, with its unit tests, in the user's cache. Nothing of it enters this repository.

It comes from the source package of a Debian archive, through `apt-get`, which verifies the archive's
signature; the archive is the one that this machine is set up for. On other systems, give a checkout of
PyTorch 2.6 with `--tree`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from pathlib import Path

SOURCES = Path("/etc/apt/sources.list.d/debian.sources")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
RELEASE = "trixie"  # the release whose pytorch is 2.6


class NoTree(Exception):
    """There is no source tree and none can be had; the message says what to do."""


def cache() -> Path:
    """Where the tree and the outcomes are kept."""
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "rushlight-upstream"


def get_tree() -> Path:
    """The tree, downloaded if it is not there."""
    tree = cache() / "tree"
    if tree.is_dir():
        return tree
    if shutil.which("apt-get") is None or not SOURCES.exists() or not KEYRING.exists():
        raise NoTree(
            "PyTorch's source package can be downloaded on Debian only; "
            "give a checkout of PyTorch 2.6 with --tree DIR"
        )
    _download(cache())
    archives = sorted(cache().glob("pytorch_2.6*.orig.tar.*"))
    if not archives:
        raise NoTree(
            f"the archive has no source package of PyTorch 2.6 in {RELEASE}; give a checkout with --tree DIR"
        )
    _unpack(archives[-1], tree)
    return tree


def _download(into: Path) -> None:
    lists = into / "apt" / "lists"
    (lists / "partial").mkdir(parents=True, exist_ok=True)
    found = re.search(r"^URIs:\s*(\S+)", SOURCES.read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise NoTree(f"{SOURCES} names no archive; give a checkout of PyTorch 2.6 with --tree DIR")
    listed = into / "apt" / "src.list"
    listed.write_text(f"deb-src [signed-by={KEYRING}] {found[1]} {RELEASE} main\n", encoding="utf-8")
    options = {
        "Dir::Etc::sourcelist": listed,
        "Dir::Etc::sourceparts": "/dev/null",
        "Dir::State::lists": lists,
    }
    flags = [part for key, value in options.items() for part in ("-o", f"{key}={value}")]
    for what in (["update"], ["source", "--download-only", "pytorch"]):
        subprocess.run(["apt-get", "-qq", *flags, *what], cwd=into, check=True)


def _unpack(archive: Path, tree: Path) -> None:
    """Unpack beside the tree and rename, so that a tree that is there is whole."""
    part = tree.with_name("tree.part")
    shutil.rmtree(part, ignore_errors=True)
    with tarfile.open(archive) as packed:
        packed.extractall(part, filter="data")
    (top,) = part.iterdir()
    top.rename(tree)
    part.rmdir()
