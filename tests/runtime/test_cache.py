"""The object cache: what it gives back is what was stored, or nothing."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest

from rushlight import core
from rushlight.runtime import cache as cache_module
from rushlight.runtime.cache import SUFFIX, ObjectCache, default_directory, key_of


@pytest.fixture
def cache(tmp_path: Path) -> ObjectCache:
    return ObjectCache(tmp_path / "objects")


def entry(cache: ObjectCache, key: str) -> Path:
    assert cache.directory is not None
    return Path(cache.directory) / (key + SUFFIX)


def test_round_trip(cache: ObjectCache) -> None:
    assert cache.load("k") is None
    assert cache.store("k", b"code")
    assert cache.load("k") == b"code"
    assert (cache.hits, cache.misses) == (1, 1)


def test_entries_that_were_kept_together_are_taken_once(cache: ObjectCache) -> None:
    cache.take({"k": b"kept", "other": b"thing"})
    assert cache.load("k") == b"kept"
    assert cache.load("k") is None
    cache.store("changing", b"1", stays=False)
    cache.take({"changing": b"0"})
    assert cache.load("changing", stays=False) == b"1"
    cache.store("stored", b"2")
    assert list(cache.used) == ["k", "stored"]
    off = ObjectCache(None)
    off.take({"k": b"kept"})
    assert off.load("k") is None


def test_code_of_changed_files_is_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process whose files were replaced after it had read them stored its code, with the layout of its
    tables, under the name of the new files; the next process corrupted memory with it."""
    fingerprint = cache_module.fingerprint.__wrapped__
    monkeypatch.setattr(core, "IMPORTED_AT", 2**63 - 1)
    assert fingerprint() == fingerprint()
    monkeypatch.setattr(core, "IMPORTED_AT", 0)
    assert fingerprint() != fingerprint()


def test_keys_separate_their_parts() -> None:
    assert key_of(("ab", "c")) != key_of(("a", "bc"))


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: data[:10] + bytes([data[10] ^ 1]) + data[11:],
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: b"",
        lambda data: data + b"x",
    ],
)
def test_a_damaged_entry_is_absent(cache: ObjectCache, damage) -> None:
    cache.store("k", b"code" * 100)
    path = entry(cache, "k")
    path.write_bytes(damage(path.read_bytes()))
    assert cache.load("k") is None


def test_an_entry_under_another_name_is_absent(cache: ObjectCache) -> None:
    cache.store("k", b"code")
    entry(cache, "k").rename(entry(cache, "other"))
    assert cache.load("other") is None


def test_entries_others_can_write_are_absent(cache: ObjectCache) -> None:
    cache.store("k", b"code")
    entry(cache, "k").chmod(0o666)
    assert cache.load("k") is None


def test_a_directory_others_can_write_is_not_used(cache: ObjectCache) -> None:
    cache.store("k", b"code")
    assert cache.directory is not None
    Path(cache.directory).chmod(0o777)
    assert cache.load("k") is None
    assert not cache.store("other", b"code")


def test_symbolic_links_are_not_followed(cache: ObjectCache, tmp_path: Path) -> None:
    cache.store("k", b"code")
    outside = tmp_path / "outside"
    entry(cache, "k").rename(outside)
    entry(cache, "k").symlink_to(outside)
    assert cache.load("k") is None


def test_a_cache_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    cache = ObjectCache(tmp_path / "file" / "objects")
    assert not cache.store("k", b"code")
    assert cache.load("k") is None


def test_the_oldest_entries_go_first(cache: ObjectCache, monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    monkeypatch.setattr(cache_module, "LIMIT_BYTES", 1000)
    for i in range(4):
        cache.store(str(i), b"x" * 300)
        os.utime(entry(cache, str(i)), (i, i)) if entry(cache, str(i)).exists() else None
    assert cache.load("0") is None
    assert cache.load("3") is not None


def test_the_environment_chooses_or_turns_off(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", str(tmp_path))
    assert default_directory() == str(tmp_path)
    monkeypatch.setenv("RUSHLIGHT_CACHE_DIR", "")
    assert default_directory() is None
    assert not ObjectCache(None).store("k", b"code")


def _hammer(directory: str) -> int:
    cache = ObjectCache(Path(directory))
    wrong = 0
    for i in range(200):
        cache.store("shared", bytes([i % 7]) * 5000)
        data = cache.load("shared")
        wrong += data is None or len(set(data)) != 1 or len(data) != 5000
    return wrong


def test_concurrent_writers_never_show_half_a_file(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(2) as workers:
        assert workers.map(_hammer, [str(tmp_path / "o")] * 2) == [0, 0]
