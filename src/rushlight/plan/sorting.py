"""The plan of a sort: the method, the tasks and their scratch memory."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

from ..core.dtypes import DTYPES
from ..core.errors import InternalError
from ..core.index import as_index
from ..core.symbols import hint, is_size
from ..loops.kernels import Sort
from ..loops.nest import Buffer, MemoryKind
from ..loops.tasks import TASK_WORK
from ..runtime.target import Target
from ..schedule.cost import SERIAL_WORK
from .cost import (
    BATCH,
    DIGITS,
    FEW_SELECTED,
    FEW_SORT_TASKS,
    LONG_ROW,
    MOST_IN_NETWORK,
    MOST_SELECTED,
    MOST_SORT_TASKS,
    NETWORK_ROWS,
    NETWORK_WORK,
    RADIX_WORK,
    SELECT_WORK,
    SHORT_ROW,
)


class SortMethod(enum.Enum):
    NETWORK = "network"  # eight rows side by side
    RADIX = "radix"  # digit by digit
    SELECT = "select"  # the best of a row, in one pass


@dataclass(frozen=True)
class SortPlan:
    """How rows are sorted: by which method, in how many tasks, each with `words` 8-byte words of scratch. Where
    sizes change, their hints decide on method and tasks, which are right for all of them."""

    sort: Sort
    method: SortMethod
    rows: int
    tasks: int
    rows_per_task: int
    words: int
    scratch: Buffer
    lanes: int  # elements of a row that a selection looks at together

    @property
    def name(self) -> str:
        return self.sort.name

    def verify(self) -> None:
        """Raise InternalError if the plan breaks an invariant."""
        rules = {
            "tasks cover the rows": self.tasks * hint(self.rows_per_task) >= hint(self.rows),
            "no task is empty": (
                self.rows == 0 or (self.tasks - 1) * hint(self.rows_per_task) < hint(self.rows)
            ),
            "a task begins with a whole batch": (
                self.method is not SortMethod.NETWORK or self.rows_per_task % BATCH == 0
            ),
            "each task has its scratch memory": self.scratch.size == as_index(self.tasks * self.words),
        }
        for rule, holds in rules.items():
            if not holds:
                raise InternalError(f"plan of {self.name}: it does not hold that {rule}\n{self.summary()}")

    def summary(self) -> str:
        tasks = "1 task" if self.tasks == 1 else f"{self.tasks} tasks of {self.rows_per_task} rows"
        return f"{self.method.value}; {tasks}; {8 * self.words} bytes of scratch each"

    def __str__(self) -> str:
        return f"{self.sort}\n  -- {self.summary()}"


def plan_sort(sort: Sort, target: Target) -> SortPlan:
    shape = sort.shape
    rows, n = math.prod(shape.rows), shape.length
    method = _method(hint(shape.length), hint(shape.count), hint(rows))
    pair = 2 if shape.dtype.itemsize > 4 else 1  # keys and positions apart
    words, work, batch = {
        SortMethod.SELECT: (2 * shape.count, SELECT_WORK, 1),
        SortMethod.NETWORK: (BATCH * n * pair, NETWORK_WORK, BATCH),
        SortMethod.RADIX: (4 * pair * DIGITS + 2 * n * pair, RADIX_WORK, 1),
    }[method]
    work *= hint(rows) * hint(n)
    most = FEW_SORT_TASKS if hint(n) > LONG_ROW else MOST_SORT_TASKS
    wanted = 1 if work < SERIAL_WORK else min(work // TASK_WORK, most)
    tasks = max(1, min(wanted, hint(rows)))
    per_task = _share(rows, tasks, batch)
    tasks = -(-hint(rows) // hint(per_task))
    if is_size(rows):  # so many tasks have all rows, however many there are
        per_task = _share(rows, tasks, batch)
    words = -(-words // 8) * 8
    scratch = Buffer(f"{sort.name}_scratch", DTYPES["int64"], as_index(tasks * words), MemoryKind.TEMPORARY)
    lanes = target.lanes(max(4, shape.dtype.itemsize)) if shape.source.step == 1 else 1
    return SortPlan(sort, method, rows, tasks, per_task, words, scratch, lanes)


def _share(rows: int, tasks: int, batch: int) -> int:
    """How many rows each task has, in whole batches."""
    share = -(-rows // tasks)
    return -(-share // batch) * batch


def _method(length: int, count: int, rows: int) -> SortMethod:
    if count <= MOST_SELECTED and FEW_SELECTED * count <= length:
        return SortMethod.SELECT
    if length <= MOST_IN_NETWORK and (rows >= NETWORK_ROWS or length <= SHORT_ROW):
        return SortMethod.NETWORK
    return SortMethod.RADIX
