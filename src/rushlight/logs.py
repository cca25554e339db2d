"""What the compiler tells while it works, on request.

`RUSHLIGHT_LOG=graph,fusion,recompile` in the environment, or `rushlight.logs.set_logs("graph", ...)`, prints
these topics to standard error as they happen; "all" means all of them:

    graph      graphs as captured, and after the graph passes
    lowered    what each operator of the graph became: loops over expressions
    loops      kernels as loop nests
    plan       how each kernel runs: tiles, packing, tasks, vectors, prefetches
    fusion     what was fused with what, and why not
    llvm       the LLVM IR of every program
    assembly   the machine code of every program
    time       the time of every pass, and bytes moved by each kernel
    cache      hits and misses of the cache on disk
    recompile  why a function was compiled, or runs eagerly
    eager      which operators outside of compiled functions have no native kernel, and why
    breaks     where a program was broken into parts
    passes     what every pass made

Without it the topics are ordinary loggers, `rushlight.graph` and so on, that say nothing unless configured.
"""

from __future__ import annotations

import functools
import os
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging

TOPICS = (
    "graph",
    "lowered",
    "loops",
    "plan",
    "fusion",
    "llvm",
    "assembly",
    "time",
    "cache",
    "recompile",
    "eager",
    "breaks",
    "passes",
)

_active: set[str] = set()
_INFO = 20  # logging.INFO


@functools.cache
def logger(topic: str) -> logging.Logger:
    import logging  # when somebody listens, or looks whether somebody does: not at start-up

    return logging.getLogger(f"rushlight.{topic}")


def wanted(topic: str) -> bool:
    """Whether anybody listens, so that a long text is worth making."""
    if topic in _active:
        return True
    log = logger(topic)
    return bool(log.handlers) and log.isEnabledFor(_INFO)


def set_logs(*topics: str) -> None:
    """Print these topics, and no others, to standard error."""
    import logging

    chosen = set(TOPICS) if "all" in topics else set(topics)
    unknown = chosen - set(TOPICS)
    if unknown:
        raise ValueError(
            f"set_logs: there is no topic {', '.join(sorted(unknown))}; the topics are "
            f"{', '.join(TOPICS)} and all"
        )
    for topic in TOPICS:
        log = logger(topic)
        for handler in [h for h in log.handlers if getattr(h, "rushlight", False)]:
            log.removeHandler(handler)
        if topic in chosen:
            handler = logging.StreamHandler(sys.stderr)
            handler.rushlight = True  # type: ignore[attr-defined]
            handler.setFormatter(logging.Formatter("[%(name)s] %(message)s"))
            log.addHandler(handler)
            log.setLevel(logging.INFO)
        elif topic in _active:
            log.setLevel(logging.NOTSET)
    _active.clear()
    _active.update(chosen)


def _from_environment() -> None:
    asked = [topic.strip() for topic in os.environ.get("RUSHLIGHT_LOG", "").split(",") if topic.strip()]
    known = [topic for topic in asked if topic in TOPICS or topic == "all"]
    for topic in asked:
        if topic not in known:
            print(
                f"RUSHLIGHT_LOG: there is no topic {topic}; the topics are {', '.join(TOPICS)} and all",
                file=sys.stderr,
            )
    if known:
        set_logs(*known)


_from_environment()
