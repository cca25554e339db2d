"""Processes as points of a grid: a dimension for data parallelism, one for tensors, and so on."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..core.construct import from_numpy, tensor
from ..core.tensor import Tensor
from . import groups
from .groups import ProcessGroup, get_rank, get_world_size, init_process_group, is_initialized, new_group

__all__ = ["DeviceMesh", "init_device_mesh"]


class DeviceMesh:
    """Ranks in an array of as many dimensions as the mesh has. All processes of the world make it together.

    `mesh["dp"]` is the part of one dimension (or several) that this process is in, `get_group("dp")` its group.
    """

    def __init__(
        self,
        device_type: str,
        mesh: Any,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
        backend_override: Any = None,
        _init_backend: bool = True,
        _rank: int | None = None,
    ) -> None:
        if device_type not in ("cpu",):
            raise ValueError(f"a mesh is of processes with tensors on the 'cpu', not on {device_type!r}")
        array = mesh.numpy_array() if isinstance(mesh, Tensor) else np.asarray(mesh)
        ranks = array.astype(np.int64)
        if len(set(ranks.ravel().tolist())) != ranks.size:
            raise ValueError(f"a mesh has each rank once, not {ranks.tolist()}")
        if mesh_dim_names is not None and len(mesh_dim_names) != ranks.ndim:
            raise ValueError(
                f"mesh_dim_names {mesh_dim_names} are {len(mesh_dim_names)} for a mesh of {ranks.ndim} dimensions"
            )
        if not is_initialized():
            init_process_group()
        if ranks.size and not 0 <= ranks.min() <= ranks.max() < get_world_size():
            raise RuntimeError(
                f"Mesh should not be bigger than default world size {get_world_size()}, but found "
                f"{ranks.size} ranks!"
            )
        names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        self._set(device_type, ranks, names, {}, None)
        for dim in range(ranks.ndim) if _init_backend else ():
            self._groups[dim] = _group_along(ranks, dim)

    def _set(
        self,
        device_type: str,
        ranks: np.ndarray,
        names: tuple[str, ...] | None,
        groups: dict[int, Any],
        root: DeviceMesh | None,
    ) -> None:
        self.device_type, self._ranks, self.mesh_dim_names = device_type, ranks, names
        self._groups, self._root = groups, root
        self._flattened: dict[str, DeviceMesh] = {}
        here = np.argwhere(ranks == get_rank())
        self._coordinate = [int(i) for i in here[0]] if len(here) else None

    @classmethod
    def _made(cls, *fields: Any) -> DeviceMesh:
        mesh = object.__new__(cls)
        mesh._set(*fields)
        return mesh

    @staticmethod
    def from_group(
        group: Any,
        device_type: str,
        mesh: Any = None,
        *,
        mesh_dim_names: tuple[str, ...] | None = None,
        backend_override: Any = None,
    ) -> DeviceMesh:
        """The mesh of groups that were made before, one per dimension."""
        parts = [group] if isinstance(group, ProcessGroup) else list(group)
        if mesh is None:
            if len(parts) != 1:
                raise ValueError("Must pass mesh if passing multiple ProcessGroups")
            mesh = parts[0].ranks
        ranks = (mesh.numpy_array() if isinstance(mesh, Tensor) else np.asarray(mesh)).astype(np.int64)
        if ranks.ndim != len(parts):
            raise ValueError(f"a mesh of {ranks.ndim} dimensions has as many groups, not {len(parts)}")
        names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        return DeviceMesh._made(device_type, ranks, names, dict(enumerate(parts)), None)

    @property
    def mesh(self) -> Tensor:
        return from_numpy(self._ranks.copy()) if self._ranks.ndim else tensor(int(self._ranks))

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self._ranks.shape)

    @property
    def ndim(self) -> int:
        return self._ranks.ndim

    def size(self, mesh_dim: int | None = None) -> int:
        return int(self._ranks.size if mesh_dim is None else self._ranks.shape[mesh_dim])

    def _dim(self, mesh_dim: int | str | None) -> int:
        if mesh_dim is None:
            if self.ndim != 1:
                raise RuntimeError(f"mesh_dim needs to be specified: the mesh has {self.ndim} dimensions")
            return 0
        if isinstance(mesh_dim, str):
            if self.mesh_dim_names is None or mesh_dim not in self.mesh_dim_names:
                raise KeyError(f"the mesh has the dimensions {self.mesh_dim_names}, not {mesh_dim!r}")
            return self.mesh_dim_names.index(mesh_dim)
        if not -self.ndim <= mesh_dim < self.ndim:
            raise IndexError(f"dimension {mesh_dim} of a mesh of {self.ndim} dimensions")
        return mesh_dim % self.ndim

    def get_group(self, mesh_dim: int | str | None = None) -> Any:
        """The group of the processes that differ from this one in `mesh_dim` alone."""
        if isinstance(mesh_dim, str) and mesh_dim in self._flattened:
            return self._flattened[mesh_dim].get_group()
        dim = self._dim(mesh_dim)
        if dim not in self._groups:
            raise RuntimeError("DeviceMesh process groups not initialized!")
        return self._groups[dim]

    def get_all_groups(self) -> list[Any]:
        return [self.get_group(dim) for dim in range(self.ndim)]

    def get_rank(self) -> int:
        """This process's number in the world."""
        return get_rank()

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """This process's place along `mesh_dim`."""
        if self._coordinate is None:
            raise RuntimeError("this process is not in the mesh")
        return self._coordinate[self._dim(mesh_dim)]

    def get_coordinate(self) -> list[int] | None:
        """This process's place in the mesh; None if it is not in it."""
        return None if self._coordinate is None else list(self._coordinate)

    def __getitem__(self, names: str | tuple[str, ...]) -> DeviceMesh:
        """The mesh of the dimensions `names`, at this process's place in the others."""
        wanted = (names,) if isinstance(names, str) else tuple(names)
        if self.mesh_dim_names is None:
            raise RuntimeError("Cannot slice a DeviceMesh without mesh_dim_names!")
        if wanted == self.mesh_dim_names:
            return self
        if len(wanted) == 1 and wanted[0] in self._flattened:
            return self._flattened[wanted[0]]
        if any(name not in self.mesh_dim_names for name in wanted):
            raise KeyError(
                f"Invalid mesh_dim_names {wanted} specified. Valid mesh_dim_names are {self.mesh_dim_names}."
            )
        dims = [self.mesh_dim_names.index(name) for name in wanted]
        if dims != sorted(dims):
            raise KeyError(f"Invalid mesh_dim_names {wanted} specified. The order must be that of the mesh.")
        where = self._coordinate or [0] * self.ndim
        ranks = self._ranks[tuple(slice(None) if d in dims else where[d] for d in range(self.ndim))]
        parts = {k: self._groups[d] for k, d in enumerate(dims) if d in self._groups}
        return DeviceMesh._made(self.device_type, ranks, wanted, parts, self._root or self)

    def _flatten(self, mesh_dim_name: str | None = None) -> DeviceMesh:
        """One dimension of all dimensions of this mesh. All processes of the world call it."""
        root = self._root or self
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ("mesh",))
        if name in root._flattened:
            return root._flattened[name]
        dims = range(self.ndim) if root is self else [root._dim(n) for n in self.mesh_dim_names or ()]
        moved = np.moveaxis(root._ranks, list(dims), list(range(-len(dims), 0)))
        rows = moved.reshape(-1, self._ranks.size)
        own = None
        for row in rows.tolist():
            made = new_group(row)
            if isinstance(made, ProcessGroup):
                own = made
        flat = DeviceMesh._made(self.device_type, self._ranks.reshape(-1), (name,), {0: own}, root)
        root._flattened[name] = flat
        return flat

    def _get_root_mesh(self) -> DeviceMesh:
        return self._root or self

    def __repr__(self) -> str:
        if self.mesh_dim_names is None:
            return f"DeviceMesh({self.device_type!r}, {self._ranks.tolist()})"
        sizes = ", ".join(f"{n}={s}" for n, s in zip(self.mesh_dim_names, self.shape, strict=True))
        return f"DeviceMesh(({sizes}), device: {self.device_type!r}, ranks: {self._ranks.ravel().tolist()})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DeviceMesh):
            return False
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return self.device_type, self.shape, tuple(self._ranks.ravel().tolist()), self.mesh_dim_names


def _group_along(ranks: np.ndarray, dim: int) -> Any:
    """The group along `dim` that this process is in. All processes of the world make all of them."""
    if ranks.ndim == 1 and ranks.tolist() == list(range(get_world_size())):
        return groups.world()
    own = None
    for row in np.moveaxis(ranks, dim, -1).reshape(-1, ranks.shape[dim]).tolist():
        made = new_group(row)
        if isinstance(made, ProcessGroup):
            own = made
    return own


def init_device_mesh(
    device_type: str,
    mesh_shape: tuple[int, ...],
    *,
    mesh_dim_names: tuple[str, ...] | None = None,
    backend_override: Any = None,
) -> DeviceMesh:
    """The mesh of all processes in the order of their ranks; makes the world's group if there is none."""
    if mesh_dim_names is not None:
        if len(set(mesh_dim_names)) != len(mesh_dim_names):
            raise RuntimeError(f"Each mesh_dim_name must be unique, unlike those of {mesh_dim_names}")
        if len(mesh_dim_names) != len(mesh_shape):
            raise RuntimeError(
                "mesh_shape and mesh_dim_names should have same length!",
                f"Found len(mesh_dim_names): {len(mesh_dim_names)} and len(mesh_shape):{len(mesh_shape)}.",
            )
    if not device_type.isalpha():
        raise RuntimeError(f"Device type with index is not supported but got {device_type}. ")
    ranks = np.arange(math.prod(mesh_shape)).reshape(mesh_shape)
    return DeviceMesh(device_type, ranks, mesh_dim_names=mesh_dim_names, backend_override=backend_override)
