"""A network in four numbers."""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from pathlib import Path

_UNITS = {"": 1.0, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_SECONDS = re.compile(r"([\d.eE+-]+?)\s*([num\u00b5]?)s?")
_RATE = re.compile(r"([\d.eE+-]+?)\s*([kMGT]?)(bit|B|)(?:/s)?")


@dataclass(frozen=True)
class Network:
    """What messages cost. A process that sends `m` messages of `n` bytes in all, and receives as many, is done
    after `latency + m * 2 * overhead + n / bandwidth`: `latency` is the way of one message in seconds, `overhead`
    what the processor spends on sending or receiving one, `bandwidth` the bytes that a process sends in a
    second, while it receives as many. Where the processor itself moves the bytes (`offload=False`: processes that
    share memory) it computes nothing meanwhile.

    >>> from rushlight.planning import Network
    >>> Network.parse(latency="2us", bandwidth="100Gbit/s").bandwidth
    12500000000.0
    """

    latency: float = 2e-6
    bandwidth: float = 12.5e9
    overhead: float = 0.5e-6
    offload: bool = True

    def __post_init__(self) -> None:
        if not (self.latency >= 0 and self.overhead >= 0 and self.bandwidth > 0):
            raise ValueError(f"times are not negative, and the bandwidth is positive: {self}")

    @classmethod
    def parse(
        cls,
        *,
        latency: str | None = None,
        bandwidth: str | None = None,
        overhead: str | None = None,
        offload: bool = True,
    ) -> Network:
        """Of texts with units: "2us", "100Gbit/s", "12.5GB/s"; what is not given is as in the class."""
        given = {
            "latency": None if latency is None else seconds(latency),
            "bandwidth": None if bandwidth is None else bytes_per_second(bandwidth),
            "overhead": None if overhead is None else seconds(overhead),
        }
        return cls(**{name: value for name, value in given.items() if value is not None}, offload=offload)

    @classmethod
    def load(cls, path: str | Path) -> Network:
        """What `save` wrote."""
        return cls(**json.loads(Path(path).read_text()))

    def save(self, path: str | Path) -> None:
        """Write the numbers to a file, as JSON."""
        Path(path).write_text(json.dumps(asdict(self), indent=1) + "\n")

    def __str__(self) -> str:
        where = "" if self.offload else ", moved by the processor"
        return (
            f"latency {self.latency * 1e6:.2f} us, {self.bandwidth / 1e9:.2f} GB/s, "
            f"{self.overhead * 1e6:.2f} us a message{where}"
        )


def seconds(text: str) -> float:
    """A time: "2us", "0.5 ms", "1e-6"."""
    found = _SECONDS.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no time: 2us, 0.5ms, 1e-6 (seconds)")
    return float(found[1]) * _UNITS[found[2]]


def bytes_per_second(text: str) -> float:
    """A rate: "100Gbit/s", "12.5GB/s", "1e10"."""
    found = _RATE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no rate: 100Gbit/s, 12.5GB/s, 1e10 (bytes a second)")
    return float(found[1]) * _UNITS[found[2]] / (8 if found[3] == "bit" else 1)
