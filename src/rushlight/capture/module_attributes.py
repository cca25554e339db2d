"""What a program may read of a module: its tables, hooks, plain attributes, and others that the code mentions.

Hooks, and functions that a module hands itself to, have it by names of their own, so that attributes are looked
at by their names, whatever the module is called there.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

from ..core.tensor import Tensor
from .locations import PLAIN, Length
from .object_kinds import is_own

TABLES = ("_parameters", "_buffers", "_modules")
_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")
_OF_MODULES = frozenset(
    (
        *TABLES,
        *_HOOKS,
        "_non_persistent_buffers_set",
        "_forward_hooks_with_kwargs",
        "_forward_hooks_always_called",
        "_forward_pre_hooks_with_kwargs",
        "_state_dict_hooks",
        "_state_dict_pre_hooks",
        "_load_state_dict_pre_hooks",
        "_load_state_dict_post_hooks",
    )
)


@dataclass(slots=True)
class SeenModule:
    """A module, and the names that its attributes were looked at by."""

    own: dict[str, Any]
    name: str
    attributes: frozenset[str]  # but those of every module, and plain values, which are guarded anyway
    names: frozenset[str] = frozenset()
    assigned: frozenset[str] = frozenset()


def look_at_module(collector: Any, module: Any, name: str) -> None:
    """Guard on what every module has, and follow its code and its parts."""
    own = module.__dict__
    if getattr(module, "_initialize_hook", None) is not None:
        collector.unfinished = True
    base = next((kind for kind in type(module).__mro__ if is_own(kind.__module__)), None)
    users = base is not None and base.__name__ == "Module"  # all but the base is the user's code
    for attribute, value in own.items():
        if isinstance(value, PLAIN):
            place = own, attribute, value, f"{name}.{attribute}"
            if users and attribute != "training" and not attribute.startswith("_"):
                collector.plain.append(place)
            else:
                collector.place(*place)
    for table in _HOOKS:
        collector.hooks(own[table], f"{name}.{table}")
    others = [a for a, value in own.items() if not isinstance(value, PLAIN) and a not in _OF_MODULES]
    collector.modules.append(SeenModule(own, name, frozenset(others)))
    if not users:  # code of ours, which nobody reads, may call functions that it was given
        for attribute in others:
            if callable(own[attribute]):
                collector.place(own, attribute, own[attribute], f"{name}.{attribute}", True)
    for table in TABLES:
        for key, item in own[table].items():
            collector.places.append((own[table], key, item, f"{name}.{key}"))
            if isinstance(item, Tensor):
                collector.tensors.setdefault(id(item), (item, f"{name}.{key}", set()))
    for table in TABLES:
        collector.places.append((Length(own[table]), None, len(own[table]), f"the number of {name}.{table}"))
    collector.places.append((Length(own), None, len(own), f"the number of attributes of {name}"))
    forward = getattr(module.forward, "__func__", None)
    if isinstance(forward, types.FunctionType):
        if not is_own(type(module).__module__) and "forward" not in own:
            collector.method(type(module), "forward", forward, f"{name}.forward")
        collector.function(forward, module)
    for key, child in own["_modules"].items():
        if child is not None:
            collector.module(child, f"{name}.{key}")


def look_at_modules(collector: Any) -> None:
    """Guard on the attributes of modules that the code mentions, and watch those that it assigns to."""
    if not collector.modules:
        return
    last = collector.modules[0]  # names are only added
    names = last.names if len(last.names) == len(collector.names) else frozenset(collector.names)
    assigned = (
        last.assigned if len(last.assigned) == len(collector.assigned) else frozenset(collector.assigned)
    )
    for module in list(collector.modules):
        if module.names is names and module.assigned is assigned and not collector.asks_names:
            continue
        own = module.own
        wanted = module.attributes if collector.asks_names else (names - module.names) & module.attributes
        for attribute in sorted(wanted):
            collector.place(own, attribute, own[attribute], f"{module.name}.{attribute}", True)
            collector.objects.append((own[attribute], f"{module.name}.{attribute}"))
        for attribute in sorted(assigned - module.assigned):
            collector.watch(own, attribute, f"{module.name}.{attribute}")
        module.names, module.assigned = names, assigned
