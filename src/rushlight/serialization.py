"""save and load: objects in files.

Plain data (dict, list, tuple, str, bytes, numbers, None, Size, dtype, device, NumPy arrays and tensors)
becomes a safetensors file: tensors are entries, named by their place in the object, so that other safetensors
readers find a state dict under its own names; the object itself is JSON in the file's metadata
(`_serialization/trees.py`).
Any other object, such as a whole module, is pickled into PyTorch's archive format (`_serialization/pickled.py`),
and so is everything in a program that runs under PyTorch's name (`rushlight run`).

`load` reads both, and the files of PyTorch itself. Nothing in a file is executed unless the caller says
weights_only=False, and a file is checked before anything is built from it.
"""

from __future__ import annotations

import contextlib
import enum
import os
import pickle
import stat
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

from ._serialization.archives import ArchiveReader, ArchiveWriter
from ._serialization.checkpoints import Options, is_checkpoint, is_zip, read_checkpoint, unsafe_names
from ._serialization.classes import register_tensor_class
from ._serialization.pickled import write_archive, write_pickles
from ._serialization.safetensors import SerializationError, read_header, write
from ._serialization.trees import NotPlain, TreeReader, TreeWriter
from ._serialization.trusted import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from .core.lazy import LazyModule
from .core.mapped import of_file
from .core.nested_base import NestedBase
from .core.pytree import flatten
from .core.shown_name import SHOWN
from .core.storage import UntypedStorage
from .core.tensor import Tensor
from .core.tokens import device

json = LazyModule("json")
tempfile = LazyModule("tempfile")

__all__ = [
    "LoadEndianness",
    "SerializationError",
    "add_safe_globals",
    "clear_safe_globals",
    "default_restore_location",
    "get_default_load_endianness",
    "get_default_mmap_options",
    "get_safe_globals",
    "get_unsafe_globals_in_checkpoint",
    "load",
    "location_tag",
    "register_package",
    "register_tensor_class",
    "safe_globals",
    "save",
    "set_default_load_endianness",
    "set_default_mmap_options",
    "skip_data",
]

DEFAULT_PROTOCOL = 2
MAP_SHARED, MAP_PRIVATE = 1, 2  # of the system calls
_TREE, _VERSION = "rushlight", "1"

_serialization_tls = threading.local()  # what `skip_data` says in this thread


# Settings.


class LoadEndianness(enum.Enum):
    """The byte order of numbers in files that do not say it.

    >>> rl.serialization.LoadEndianness.NATIVE.name
    'NATIVE'
    """

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_endianness: list[LoadEndianness | None] = [None]
_mmap_flag = [MAP_PRIVATE]


MAP_LOCATION = Callable[[Any, str], Any] | device | str | dict[str, str] | None


def get_default_load_endianness() -> LoadEndianness | None:
    """The order of bytes that `load` takes files to have that do not say.

    >>> rl.serialization.get_default_load_endianness()
    """
    return _endianness[0]


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Say in which byte order files without a mark have their numbers; None is little.

    >>> rl.serialization.set_default_load_endianness(rl.serialization.LoadEndianness.BIG)
    >>> rl.serialization.get_default_load_endianness().name
    'BIG'
    >>> rl.serialization.set_default_load_endianness(None)
    """
    if endianness is not None and not isinstance(endianness, LoadEndianness):
        raise TypeError("Invalid argument type in function set_default_load_endianness")
    _endianness[0] = endianness


def get_default_mmap_options() -> int:
    """The flags that `load(mmap=True)` maps files with.

    >>> isinstance(rl.serialization.get_default_mmap_options(), int)
    True
    """
    return _mmap_flag[0]


class set_default_mmap_options:
    """Say whether writes to tensors of `load(mmap=True)` reach the file (MAP_SHARED) or not (MAP_PRIVATE).

    Also a context manager, which restores what was.

    >>> import mmap
    >>> with rl.serialization.set_default_mmap_options(mmap.MAP_SHARED):
    ...     rl.serialization.get_default_mmap_options() == mmap.MAP_SHARED
    True
    """

    def __init__(self, flags: int) -> None:
        if flags not in (MAP_SHARED, MAP_PRIVATE):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected "
                f"mmap.MAP_PRIVATE or mmap.MAP_SHARED, but got {flags}"
            )
        self._before = _mmap_flag[0]
        _mmap_flag[0] = flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        _mmap_flag[0] = self._before


class skip_data:
    """Within it `save` makes room for the bytes of tensors and leaves it to the program to write them.

    >>> with rl.serialization.skip_data():
    ...     pass
    """

    def __init__(self, materialize_fake_tensors: bool = False) -> None:
        if materialize_fake_tensors:
            raise NotImplementedError("skip_data: there are no fake tensors to materialize")

    def __enter__(self) -> None:
        self._before = getattr(_serialization_tls, "skip_data", False)
        _serialization_tls.skip_data = True

    def __exit__(self, *error: Any) -> None:
        _serialization_tls.skip_data = self._before


# Saving.


def save(
    obj: Any,
    f: Any,
    pickle_module: Any = None,
    pickle_protocol: int = DEFAULT_PROTOCOL,
    _use_new_zipfile_serialization: bool = True,
) -> None:
    """Write `obj` to a path, atomically, or to a binary file.

    Another pickle module or protocol, or the older format, makes even plain data a pickle.

    >>> import io
    >>> file = io.BytesIO()
    >>> rl.save({"weight": rl.ones(2)}, file)
    >>> file.tell() > 0
    True
    """
    module = None if pickle_module is pickle else pickle_module
    if isinstance(f, str | bytes | os.PathLike):
        with _replaced_file(f) as file:
            folder = os.path.splitext(os.path.basename(os.fspath(f)))[0]
            _write(
                obj,
                file,
                os.fsdecode(folder) or "archive",
                module,
                pickle_protocol,
                _use_new_zipfile_serialization,
            )
        return
    if not hasattr(f, "write"):
        raise AttributeError(f"save: expected a path or a file with a 'write' method, not {type(f).__name__}")
    if not callable(f.write):
        raise TypeError(f"save: 'write' of the {type(f).__name__} is not callable")
    _write(obj, f, "archive", module, pickle_protocol, _use_new_zipfile_serialization)
    if hasattr(f, "flush"):
        f.flush()  # for whoever opens the file by its name


def _write(obj: Any, file: Any, folder: str, pickle_module: Any, protocol: int, new_format: bool) -> None:
    skipping = getattr(_serialization_tls, "skip_data", False)
    if skipping:
        _check_skippable(obj)
    if not new_format:
        write_pickles(file, obj, pickle_module, protocol)
        return
    as_torch = SHOWN.package == "torch"  # whose programs expect files that PyTorch reads
    if pickle_module is None and protocol == DEFAULT_PROTOCOL and not skipping and not as_torch:
        writer = TreeWriter()
        try:
            tree = writer.encode(obj, ())
        except (NotPlain, RecursionError):
            pass
        else:
            arrays = writer.arrays()  # completes the records of the tensors in the tree
            text = json.dumps({"version": _VERSION, "tree": tree}, separators=(",", ":"))
            write(file, arrays, {"format": "pt", _TREE: text})
            return
    write_archive(file, obj, folder, pickle_module, protocol, skipping)


def _check_skippable(obj: Any) -> None:
    for leaf in flatten(obj)[0]:
        if isinstance(leaf, NestedBase):
            raise RuntimeError("Cannot serialize nested tensor under skip_data context manager")
        if isinstance(leaf, Tensor) and leaf.is_meta:
            warnings.warn(
                "Serializing tensors on the meta device under skip_data context manager is a no-op",
                UserWarning,
                stacklevel=4,
            )


@contextlib.contextmanager
def _replaced_file(path: Any) -> Iterator[BinaryIO]:
    """A new file that takes the place of `path` when all of it is written, and never half of it."""
    path = os.fspath(path)
    folder, name = os.path.split(os.path.abspath(path))
    mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else 0o666 & ~_umask()
    handle, temporary = tempfile.mkstemp(prefix=f".{os.fsdecode(name)}.", dir=os.fsdecode(folder))
    try:
        with open(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# Loading.


def load(
    f: Any,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """The object in a file that `save` wrote, or that PyTorch's did, or the dict of tensors of any other
    safetensors file.

    `map_location` is None, a device, a map of device names, or a function of a storage and the name of its
    device: on "meta" only shapes and dtypes are read. `weights_only` is True unless a `pickle_module` is
    given: tensors and plain containers are built, and objects of classes that `add_safe_globals` named; with
    False the file may run any code. `mmap` maps the file instead of reading it.

    >>> import io
    >>> file = io.BytesIO()
    >>> rl.save({"weight": rl.ones(2)}, file)
    >>> _ = file.seek(0)
    >>> rl.load(file)
    {'weight': tensor([1., 1.])}
    """
    if getattr(_serialization_tls, "skip_data", False):
        raise RuntimeError(
            "`load` called within a skip_data context manager is not supported. Please call "
            "torch.load outside the skip_data context manager"
        )
    only = _is_restricted(weights_only, pickle_module)
    if only and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    restore = _restorer(map_location)
    path = os.fsdecode(f) if isinstance(f, str | bytes | os.PathLike) else None
    if mmap and path is None:
        raise ValueError("f must be a file path in order to use the mmap argument")
    order = None if _endianness[0] is None else _endianness[0].name.lower()
    options = Options(
        restore,
        only,
        pickle_module,
        map_location in ("meta", device("meta")),
        path if mmap else None,
        _mmap_flag[0] == MAP_SHARED,
        order,
        pickle_load_args,
    )
    if path is not None:
        with open(path, "rb") as file:
            return _read(file, options)
    if not hasattr(f, "read"):
        raise AttributeError(f"load: expected a path or a file with a 'read' method, not {type(f).__name__}")
    return _read(f, options)


def _is_restricted(weights_only: bool | None, pickle_module: Any) -> bool:
    """Whether a file may only hold tensors and plain containers: as the argument says, unless the environment
    decides, by the variables that PyTorch reads."""
    always, never = (
        os.environ.get(f"TORCH_FORCE_{name}WEIGHTS_ONLY_LOAD", "").lower() in ("1", "y", "yes", "true")
        for name in ("", "NO_")
    )
    if always and never:
        raise RuntimeError(
            "Only one of `TORCH_FORCE_WEIGHTS_ONLY_LOAD` and `TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD` should be set"
        )
    if always:
        return True
    if never and weights_only is None:
        warnings.warn(
            "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD is set and the `weights_only` argument was not passed to `load`: "
            "forcing weights_only=False.",
            UserWarning,
            stacklevel=3,
        )
        return False
    return pickle_module is None if weights_only is None else weights_only


def _read(file: Any, options: Options) -> Any:
    if is_checkpoint(file):
        return read_checkpoint(file, options)
    if not options.weights_only and not (hasattr(file, "seek") and hasattr(file, "tell")):
        raise AttributeError(
            "a pickle cannot be read from a stream. You can only torch.load from a file "
            "that is seekable. Please pre-load the data into a buffer like io.BytesIO and "
            "try to load from it instead."
        )
    header = read_header(file)
    text = header.metadata.get(_TREE)
    mapped = None
    if options.mapped is not None:
        start = file.tell()
        mapped = of_file(options.mapped, options.shared, 0).buffer[start:]
    reader = TreeReader(file, header, options.without_data, options.restore, mapped)
    if text is None:
        return {name: reader.whole(name) for name in header.entries}
    return reader.decode(_tree(text), "")


def _tree(text: str) -> Any:
    try:
        parsed = json.loads(text)
        version, tree = parsed["version"], parsed["tree"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise SerializationError(
            "load: damaged file: the description of the saved object cannot be read"
        ) from None
    if version != _VERSION:
        raise SerializationError(
            f"load: the file was written in version {version} of the format; this is version {_VERSION}"
        )
    return tree


def get_unsafe_globals_in_checkpoint(f: Any) -> list[str]:
    """The names in a zip archive that `load` would refuse; nothing of the file is executed.

    >>> import fractions, io
    >>> file = io.BytesIO()
    >>> rl.save({"weight": rl.ones(2), "scale": fractions.Fraction(1, 2)}, file)
    >>> _ = file.seek(0)
    >>> rl.serialization.get_unsafe_globals_in_checkpoint(file)
    ['fractions.Fraction']
    """
    if isinstance(f, str | bytes | os.PathLike):
        with open(f, "rb") as file:
            return unsafe_names(file)
    return unsafe_names(f)


# Where storages go.

Tagger = Callable[[Any], "str | None"]
Deserializer = Callable[[Any, str], Any]
_packages: list[tuple[int, Tagger, Deserializer]] = []


def register_package(priority: int, tagger: Tagger, deserializer: Deserializer) -> None:
    """Say how storages are tagged when they are saved, and where tagged ones go when they are loaded.

    Lower priorities are asked first. A tagger gives a tag or None, a deserializer a storage or None.

    >>> def restore(storage, location):
    ...     return storage if location == "attic" else None
    >>> rl.serialization.register_package(30, lambda storage: None, restore)
    >>> rl.serialization.default_restore_location(rl.ones(2).untyped_storage(), "attic").nbytes()
    8
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda package: package[0])


def _on_processor(storage: Any, location: str) -> Any:
    return storage.cpu() if location == "cpu" else None


def _on_meta(storage: Any, location: str) -> Any:
    return UntypedStorage.of_size(storage.nbytes()) if location == "meta" else None


def _on_cuda(storage: Any, location: str) -> Any:
    if location.partition(":")[0] != "cuda":
        return None
    raise RuntimeError(
        "Attempting to deserialize object on a CUDA device, and there is none: load with "
        "map_location=torch.device('cpu') to put the storages in the processor's memory"
    )


register_package(10, lambda storage: "cpu" if storage.device.type == "cpu" else None, _on_processor)
register_package(20, lambda storage: None, _on_cuda)
register_package(22, lambda storage: "meta" if storage.device.type == "meta" else None, _on_meta)


def location_tag(storage: Any) -> str:
    """The name of the place of a storage, as files have it.

    >>> rl.serialization.location_tag(rl.ones(1).untyped_storage())
    'cpu'
    """
    for _, tagger, _ in _packages:
        location = tagger(storage)
        if location:
            return location
    raise RuntimeError(f"don't know how to determine data location of {type(storage).__name__}")


def default_restore_location(storage: Any, location: str) -> Any:
    """A storage at the place that a file names.

    >>> rl.serialization.default_restore_location(rl.ones(2).untyped_storage(), "cpu").nbytes()
    8
    """
    for _, _, deserializer in _packages:
        result = deserializer(storage, location)
        if result is not None:
            return result
    raise RuntimeError(
        f"don't know how to restore data location of {type(storage).__name__} (tagged with {location})"
    )


def _restorer(map_location: Any) -> Callable[[UntypedStorage, str], UntypedStorage]:
    if map_location is None:
        return default_restore_location
    if isinstance(map_location, dict):
        return lambda storage, place: default_restore_location(storage, map_location.get(place, place))
    if isinstance(map_location, str | device):
        place = str(device(map_location))
        return lambda storage, location: default_restore_location(
            storage, "cpu" if place.startswith("cpu") else place
        )
    if not callable(map_location):
        raise TypeError(
            "load: map_location must be a device, its name, a map of names or a function, not "
            f"{type(map_location).__name__}"
        )

    def restore(storage: UntypedStorage, location: str) -> UntypedStorage:
        moved = map_location(storage, location)
        if moved is None:
            return default_restore_location(storage, location)
        if not hasattr(moved, "untyped"):
            raise TypeError(f"load: map_location must return a storage or None, not {type(moved).__name__}")
        return moved.untyped()

    return restore


# PyTorch's own names for what reads and writes its archives.


def _is_zipfile(f: Any) -> bool:
    """Whether a file begins as a zip archive; its position stays."""
    position = f.tell()
    start = f.read(4)
    f.seek(position)
    return is_zip(start)


@contextlib.contextmanager
def _open_file_like(name_or_buffer: Any, mode: str) -> Iterator[Any]:
    if isinstance(name_or_buffer, str | os.PathLike):
        with open(name_or_buffer, mode) as file:
            yield file
    else:
        yield name_or_buffer


def _open_zipfile_reader(name_or_buffer: Any) -> ArchiveReader:
    return ArchiveReader(name_or_buffer)


def _open_zipfile_writer(name_or_buffer: Any) -> ArchiveWriter:
    return ArchiveWriter(name_or_buffer)
