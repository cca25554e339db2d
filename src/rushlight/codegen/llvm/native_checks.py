"""What native calls look at before they run, and refuse: such calls run in Python."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from .native_record import RecordEmitter

# Modes, and what they are where nothing but a plain call is to be recorded.
_USUAL_MODES = (
    ("inference", "false"),
    ("dual_levels", "zero"),
    ("anomaly", "false"),
    ("silent", "empty_set"),
    ("saved_hooks", "empty"),
)


class Fix(IntEnum):
    """How an argument is made of what is given."""

    NONE = 0
    LONG = 1  # an int, that fits into 64 bits
    ONE_LONG = 2  # the same in a tuple
    LONGS = 3  # a tuple of such ints
    LONGS_OR_NONE = 4  # one that may be empty
    TENSORS = 5  # a tuple of tensors


class CheckEmitter(RecordEmitter):
    """Emits the checks."""

    # Tensors and modes.

    def _live_tensors(self, refused: Any) -> Any:
        """Bits of the tensors that autograd asks about; others are plain, or the call is refused."""
        bits = self.table.tensors

        def look(i: Any, live: Any) -> tuple[Any]:
            is_tensor = self.has_bit(self.shift_right(bits, i), 1)
            return (
                self.branch(is_tensor, lambda: [self._look(i, live, refused)], lambda: several(i, live))[0],
            )

        def several(i: Any, live: Any) -> list[Any]:
            are_tensors = self.compare("==", self._fix(i), int(Fix.TENSORS))
            return self.branch(are_tensors, lambda: [self._look_into(i, live, refused)], lambda: [live])

        return self.fold(0, self.given, 1, [self.i64(0)], look)[0]

    def _look_into(self, i: Any, live: Any, refused: Any) -> Any:
        """The same of a tuple, whose tensors are all of the plain class."""
        value = self.word(self.args, i, self.pointer)
        count = self.api("PyTuple_Size", value)
        self.require(self.compare(">", count, 0), refused)

        def look(k: Any, live: Any) -> tuple[Any]:
            tensor = self.api("PyTuple_GetItem", value, k)
            self.require(self.is_same(self.type_of(tensor), self.object("Tensor")), refused)
            return (self._look_at(tensor, i, live, refused),)

        return self.fold(0, count, 1, [live], look)[0]

    def _look(self, i: Any, live: Any, refused: Any) -> Any:
        tensor = self.word(self.args, i, self.pointer)
        missing = self.is_same(tensor, self.object("none"))
        return self.branch(missing, lambda: [live], lambda: [self._look_at(tensor, i, live, refused)])[0]

    def _look_at(self, tensor: Any, i: Any, live: Any, refused: Any) -> Any:
        keys = self.get(tensor, "_keys")
        self.require_object(keys, refused)
        self.api("Py_DecRef", keys)  # a small number, which stays
        plain, one = (self.is_same(keys, self.object(name)) for name in ("zero", "one"))
        self.require(self.or_(plain, one), refused)
        with self.when(one):
            self.require_attribute(tensor, "_inference", self.object("false"), refused)
        bit = self.shift_left(self.i64(1), i)
        return self.select(one, self.or_(live, bit), live)

    def _check_modes(self, recording: Any, refused: Any) -> None:
        """Refuse all but the simplest modes; say whether the call is recorded."""
        modes = self._require_modes(_USUAL_MODES, refused)
        found = self.api("PyDict_GetItemWithError", modes, self.attribute_name("grad"))
        grad = self.or_(self.is_null(found), self.is_same(found, self.object("true")))
        with self.when(self.and_(grad, self.compare("==", self.table.through, 0))):
            self.store(self.i64(1), recording)

    def _require_modes(self, usual: tuple[tuple[str, str], ...], refused: Any) -> Any:
        """Go on if modes are as usual; the dictionary of those that are set."""
        modes = self.get(self.object("modes"), "__dict__")
        self.require_object(modes, refused)
        self.api("Py_DecRef", modes)  # the thread holds it
        for name, value in usual:
            found = self.api("PyDict_GetItemWithError", modes, self.attribute_name(name))
            fine = self.or_(self.is_null(found), self.is_same(found, self.object(value)))
            self.require(fine, refused)
        return modes

    # Numbers.

    def _check_numbers(self, refused: Any) -> None:
        """Refuse ints that do not fit."""
        with self.loop(0, self.given) as i:
            fix = self._fix(i)
            value = self.word(self.args, i, self.pointer)
            single = self.or_(
                self.compare("==", fix, int(Fix.LONG)), self.compare("==", fix, int(Fix.ONE_LONG))
            )
            with self.when(single):
                self._check_long(value, refused)
            several = (self.compare("==", fix, int(kind)) for kind in (Fix.LONGS, Fix.LONGS_OR_NONE))
            with self.when(self.or_(*several)):
                count = self.api("PyTuple_Size", value)
                some = self.compare(">", count, 0)
                self.require(self.or_(some, self.compare("==", fix, int(Fix.LONGS_OR_NONE))), refused)
                with self.loop(0, count) as k:
                    item = self.api("PyTuple_GetItem", value, k)
                    self.require(self.is_same(self.type_of(item), self.object("int")), refused)
                    self._check_long(item, refused)

    def _fix(self, i: Any) -> Any:
        return self.word(self.table_address, self.add(self.table.fix_table, i))

    def _check_long(self, value: Any, refused: Any) -> None:
        overflow = self.local(self.i32)
        self.api("PyLong_AsLongLongAndOverflow", value, overflow)
        self.require(self.compare("==", self.load(overflow, self.i32), 0), refused)
