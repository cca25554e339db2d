"""Files: what may be saved, what a file may do, and damaged files (defects 18 and 22, and files made in bad
faith)."""

from __future__ import annotations

import collections
import io
import os
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rushlight as rl
from rushlight.serialization import SerializationError

from ..files import load_with_flipped_bytes, saved, through


class Special(rl.Tensor):
    pass


class Net(rl.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = rl.nn.utils.spectral_norm(rl.nn.Linear(3, 4))
        self.rest = rl.nn.Sequential(rl.nn.BatchNorm1d(4), rl.nn.ReLU(), rl.nn.Linear(4, 2))
        self.note = {"kept": collections.Counter("aab")}

    def forward(self, x: rl.Tensor) -> rl.Tensor:
        return self.rest(self.first(x))


def test_d18_a_module_is_saved_and_needs_trust() -> None:
    module = Net().eval()
    x = rl.randn(5, 3)
    file = io.BytesIO(saved(module))
    with pytest.raises(pickle.UnpicklingError, match="Unsupported global: GLOBAL"):
        rl.load(file)
    file.seek(0)
    again = rl.load(file, weights_only=False)
    assert type(again) is Net
    assert again.note == module.note
    assert again(x).tolist() == module(x).tolist()


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_d18_protocols_and_the_older_format(protocol: int) -> None:
    shared = rl.arange(6.0)
    obj = {"whole": shared, "part": shared[2:4], "counter": collections.Counter("aab"), 3: {1, 2}}
    for new_format in (True, False):
        file = io.BytesIO()
        rl.save(obj, file, pickle_protocol=protocol, _use_new_zipfile_serialization=new_format)
        file.seek(0)
        back = rl.load(file)
        assert back["counter"] == obj["counter"]
        assert back[3] == {1, 2}
        back["whole"][2] = 7.0
        assert back["part"].tolist() == [7.0, 3.0]


def test_d18_scheduler_state_and_plain_containers() -> None:
    optimizer = rl.optim.SGD([rl.nn.Parameter(rl.ones(2))], lr=0.1)
    scheduler = rl.optim.lr_scheduler.MultiStepLR(optimizer, [2, 2, 5])
    state = scheduler.state_dict()
    assert through(state)["milestones"] == state["milestones"]
    assert type(through(state)["milestones"]) is collections.Counter
    loop: list[Any] = [1]
    loop.append(loop)
    back = through(loop)
    assert back[1] is back


def test_d18_attributes_and_subclasses() -> None:
    x = rl.ones(2)
    x.note = "kept"
    assert through(x).note == "kept"
    special = rl.ones(2).as_subclass(Special)
    special.note = 3
    with rl.serialization.safe_globals([Special]):
        back = through(special)
    assert type(back) is Special
    assert back.note == 3


def test_d18_pytorch_reads_the_archive_and_its_modules_are_read() -> None:
    x = rl.arange(6.0).reshape(2, 3)
    obj = {
        "x": x,
        "row": x[1],
        "half": rl.ones(2, dtype=rl.complex32),
        "c": collections.Counter("ab"),
        "shape": x.shape,
        "dtype": rl.float16,
        "p": rl.nn.Parameter(rl.ones(2)),
        "sparse": rl.eye(2).to_sparse(),
        "where": rl.device("cpu"),
    }
    back = torch.load(io.BytesIO(saved(obj)))
    assert back["row"].tolist() == [3.0, 4.0, 5.0]
    assert back["row"].untyped_storage().data_ptr() == back["x"].untyped_storage().data_ptr()
    assert back["dtype"] is torch.float16
    assert back["half"].dtype is torch.complex32
    assert back["sparse"].to_dense().tolist() == [[1, 0], [0, 1]]
    theirs = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.LayerNorm(3)).eval()
    file = io.BytesIO()
    torch.save(theirs, file)
    file.seek(0)
    ours = rl.load(file, weights_only=False)
    assert np.allclose(ours(rl.ones(1, 2)).tolist(), theirs(torch.ones(1, 2)).tolist(), atol=1e-6)


def test_d18_names_in_a_file_are_listed_without_running_them() -> None:
    file = io.BytesIO(saved({"a": Net(), "t": rl.ones(2)}))
    names = rl.serialization.get_unsafe_globals_in_checkpoint(file)
    assert f"{__name__}.Net" in names
    assert "torch._utils._rebuild_tensor_v2" not in names


def test_d18_room_for_data_is_left() -> None:
    with rl.serialization.skip_data():
        data = saved({"a": rl.ones(3), "b": rl.ones(2)})
        with pytest.raises(RuntimeError, match="skip_data"):
            rl.load(io.BytesIO(data))
    back = rl.load(io.BytesIO(data))
    assert back["a"].tolist() == [0, 0, 0]


def test_d18_mapped_files(tmp_path: Path) -> None:
    for name, obj in (("plain", {"a": rl.arange(5.0)}), ("archive", {"a": rl.arange(5.0), "s": {1}})):
        path = tmp_path / name
        rl.save(obj, path)
        private = rl.load(path, mmap=True)["a"]
        private[0] = 9.0
        assert rl.load(path)["a"].tolist() == [0, 1, 2, 3, 4]
        with rl.serialization.set_default_mmap_options(1):
            rl.load(path, mmap=True)["a"][0] = 9.0
        assert rl.load(path, mmap=True)["a"].tolist() == [9, 1, 2, 3, 4]


def test_d22_a_module_with_spectral_norm_is_pickled() -> None:
    module = rl.nn.utils.spectral_norm(rl.nn.Linear(3, 4)).eval()
    again = pickle.loads(pickle.dumps(module))
    assert again(rl.ones(3)).tolist() == module(rl.ones(3)).tolist()


def test_d22_modules_of_all_kinds_are_pickled() -> None:
    nn = rl.nn
    prune = nn.utils.prune
    modules = [
        prune.l1_unstructured(nn.Linear(3, 4), "weight", 2),
        nn.LazyLinear(4),
        nn.LSTM(3, 4),
        nn.GRU(3, 4),
        nn.TransformerEncoderLayer(4, 2),
        nn.MultiheadAttention(4, 2),
        nn.Embedding(3, 4),
        nn.ModuleDict({"a": nn.Conv2d(3, 4, 1)}),
        nn.ParameterList([nn.Parameter(rl.ones(2))]),
        nn.AdaptiveLogSoftmaxWithLoss(64, 9, [3, 5]),
        nn.TripletMarginWithDistanceLoss(),
    ]
    for module in modules:
        again = pickle.loads(pickle.dumps(module))
        assert repr(again) == repr(module)
        assert [name for name, _ in again.named_parameters()] == [
            name for name, _ in module.named_parameters()
        ]


# Files made in bad faith.

RAN: list[str] = []


def record(text: str) -> str:
    RAN.append(text)
    return text


class Hostile:
    """Its pickle calls `record`; with any other callable it would be the same."""

    def __init__(self, *how: Any) -> None:
        self.how = how

    def __reduce__(self) -> Any:
        return self.how or (record, ("ran",))


def hostile_pickles() -> dict[str, bytes]:
    name = f"{__name__}\nrecord\n".encode()
    plain = pickle.dumps(Hostile(), 2)
    return {
        "reduce": plain,
        "stack_global": pickle.dumps(Hostile(), 4),
        "inst": b"(S'ran'\ni" + name + b".",
        "obj": b"(c" + name + b"S'ran'\no.",
        "newobj": b"\x80\x02c" + name + b"(S'ran'\nt\x81.",
        "system": pickle.dumps(Hostile(os.system, ("true",)), 2),
        "eval": pickle.dumps(Hostile(eval, ("1",)), 2),
        "getattr": pickle.dumps(Hostile(getattr, (rl.Tensor, "numpy")), 2),
        "attribute_of_tensor": b"\x80\x02ctorch\nTensor\n}X\x06\x00\x00\x00_arrayK\x01sb.",
        "attribute_of_class": b"\x80\x02ccollections\nOrderedDict\n}X\x07\x00\x00\x00__len__K\x01sb.",
        "bytearray": b"\x80\x02cbuiltins\nbytearray\n\x8a\x06\x00\x00\x00\x00\x00\x10\x85R.",
        "coding": b"\x80\x02c_codecs\nencode\nX\x01\x00\x00\x00aX\x04\x00\x00\x00zlib\x86R.",
        "deep": b"\x80\x02" + b"(" * 100_000 + b".",
        "extension": b"\x80\x02\x82\x01.",
        "memo": b"\x80\x02h\x07.",
        "buffer": b"\x80\x05\x97.",
        "long": b"\x80\x02\x8b\xff\xff\xff\x7f" + b"\x01.",
        "text": b"\x80\x04\x8d\xff\xff\xff\xff\xff\xff\xff\x7fa.",
    }


def archive_of(pickled: bytes, **records: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/data.pkl", pickled)
        archive.writestr("a/version", "3\n")
        for name, data in records.items():
            archive.writestr(f"a/data/{name.lstrip('_')}", data)
    return file.getvalue()


@pytest.mark.parametrize("name", hostile_pickles())
def test_hostile_pickles_run_nothing(name: str) -> None:
    RAN.clear()
    pickled = hostile_pickles()[name]
    older = (
        b"".join(pickle.dumps(part, 2) for part in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}))
        + pickled
    )
    for data in (archive_of(pickled), older, older + pickle.dumps(["0"], 2)):
        with pytest.raises(SerializationError):
            rl.load(io.BytesIO(data))
    assert not RAN


def tensor_pickle(count: Any, offset: Any, size: Any, stride: Any, kind: str = "FloatStorage") -> bytes:
    """A pickle of one tensor, with any numbers in it."""

    class Storage:
        pass

    class Pickler(pickle._Pickler):  # type: ignore[name-defined, misc]
        def persistent_id(self, obj: Any) -> Any:
            return ("storage", Word("torch", kind), "0", "cpu", count) if isinstance(obj, Storage) else None

        dispatch = dict(pickle._Pickler.dispatch)  # type: ignore[attr-defined]

        def save_word(self, word: Any) -> None:
            self.write(b"c" + f"{word.module}\n{word.name}\n".encode())

    class Word:
        def __init__(self, module: str, name: str) -> None:
            self.module, self.name = module, name

        def __call__(self) -> None:
            pass

    class Built:
        def __reduce__(self) -> Any:
            return Word("torch._utils", "_rebuild_tensor_v2"), (
                Storage(),
                offset,
                size,
                stride,
                False,
                collections.OrderedDict(),
            )

    Pickler.dispatch[Word] = Pickler.save_word
    file = io.BytesIO()
    Pickler(file, 2).dump(Built())
    return file.getvalue()


def test_a_tensor_that_fits_is_read() -> None:
    data = archive_of(tensor_pickle(4, 1, (2,), (2,)), _0=np.arange(4, dtype=np.float32).tobytes())
    assert rl.load(io.BytesIO(data)).tolist() == [1.0, 3.0]


@pytest.mark.parametrize(
    ("count", "offset", "size", "stride"),
    [
        (4, 0, (5,), (1,)),
        (4, 4, (1,), (1,)),
        (4, -1, (2,), (1,)),
        (4, 0, (2,), (-1,)),
        (4, 0, (2,), (4,)),
        (4, 0, (2**62,), (0,)),
        (4, 0, (2**40, 2**40), (0, 0)),
        (4, 0, (2, 2), (2**61, 2**61)),
        (4, 0, (2,), ()),
        (4, 0, (2.0,), (1,)),
        (4, 0, ("2",), (1,)),
        (4, None, (2,), (1,)),
        (4, 0, None, (1,)),
        (4, 0, (-2,), (1,)),
        (5, 0, (2,), (1,)),
        (2**60, 0, (2,), (1,)),
        (-1, 0, (2,), (1,)),
        (4.0, 0, (2,), (1,)),
        (4, 2**63, (2,), (1,)),
        (4, 0, (1,) * 65, (1,) * 65),
    ],
)
def test_tensors_beyond_their_storage_are_refused(count: Any, offset: Any, size: Any, stride: Any) -> None:
    data = archive_of(tensor_pickle(count, offset, size, stride), _0=bytes(16))
    with pytest.raises(SerializationError):
        rl.load(io.BytesIO(data))


def test_storages_of_kinds_that_are_none_are_refused() -> None:
    for kind in ("Tensor", "float32", "device"):
        with pytest.raises(SerializationError):
            rl.load(io.BytesIO(archive_of(tensor_pickle(4, 0, (2,), (1,), kind), _0=bytes(16))))


def test_archives_that_lie_about_themselves_are_refused() -> None:
    good = saved({"a": rl.arange(40.0), "c": {1}})
    # a name twice
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/data.pkl", pickle.dumps(1, 2))
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a/data.pkl", pickle.dumps(2, 2))
    with pytest.raises(SerializationError, match="twice"):
        rl.load(io.BytesIO(file.getvalue()))
    # much data in little: it must be as much as the pickle says
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/data.pkl", tensor_pickle(4, 0, (2,), (1,)))
        archive.writestr("a/data/0", bytes(50_000_000))
    assert len(file.getvalue()) < 100_000
    with pytest.raises(SerializationError, match="50000000 bytes, not 16"):
        rl.load(io.BytesIO(file.getvalue()))
    # a size in the directory that the file does not have
    place = good.rfind(b"PK\x01\x02")
    entry = good.find(b"PK\x01\x02")
    while entry != -1 and entry < place:
        broken = bytearray(good)
        struct.pack_into("<II", broken, entry + 20, 2**31, 2**31)
        if good[entry + 46 :].startswith(b"archive/data/"):
            with pytest.raises(SerializationError):
                rl.load(io.BytesIO(bytes(broken)))
        entry = good.find(b"PK\x01\x02", entry + 4)
    for order in (b"middle", b"\xff"):
        file = io.BytesIO()
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("a/data.pkl", pickle.dumps(1, 2))
            archive.writestr("a/byteorder", order)
        with pytest.raises(SerializationError, match="byte order"):
            rl.load(io.BytesIO(file.getvalue()))


@pytest.mark.parametrize("older", [False, True])
def test_archives_that_are_cut_short_or_damaged(older: bool) -> None:
    file = io.BytesIO()
    rl.save(
        {"a": rl.arange(40.0), "c": {1, 2}, "h": rl.ones(3, dtype=rl.complex32)},
        file,
        _use_new_zipfile_serialization=not older,
    )
    data = file.getvalue()
    for length in [*range(40), *range(40, len(data) - 1, 97)]:
        with pytest.raises(SerializationError):
            rl.load(io.BytesIO(data[:length]))
    load_with_flipped_bytes(data)


def test_big_endian_files() -> None:
    file = io.BytesIO()
    values = np.arange(4, dtype=">f4")
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a/data.pkl", tensor_pickle(4, 0, (4,), (1,)))
        archive.writestr("a/data/0", values.tobytes())
        archive.writestr("a/byteorder", "big")
    assert rl.load(io.BytesIO(file.getvalue())).tolist() == [0, 1, 2, 3]
    unmarked = archive_of(tensor_pickle(4, 0, (4,), (1,)), _0=values.tobytes())
    rl.serialization.set_default_load_endianness(rl.serialization.LoadEndianness.BIG)
    try:
        assert rl.load(io.BytesIO(unmarked)).tolist() == [0, 1, 2, 3]
    finally:
        rl.serialization.set_default_load_endianness(None)
