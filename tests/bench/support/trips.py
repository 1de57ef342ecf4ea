"""The client of the proxy's benchmark, trips/, and what it measures: round trips of a frame, over several ways in turn.

It is a Go program: a request and its answer cost it two system calls, where a Python client would take as long as what
is measured. Frames are encoded here.
"""

import base64
import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Self

from kcoord.client.client_codec import kio_codec
from kcoord.protocol.headers import RequestHeader
from tests.clients.programs import build_go

SOURCE = Path(__file__).parent / "trips"
TIMEOUT = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """A way to the broker: its address, and the frame that is sent there."""

    address: str
    frame: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Trips:
    """The results of one way, in seconds: the median and the sum of each round, quantiles of all, and an answer's
    bytes."""

    medians: list[float]
    waits: list[float]
    p50: float
    p99: float
    length: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The number of rounds, and of requests that each way sends in each round."""

    rounds: int
    requests: int
    warmup_rounds: int

    @property
    def all_requests(self) -> int:
        """The number of requests of one way, with those that are not measured and the one that finds the length of
        answers."""
        return (self.warmup_rounds + self.rounds) * self.requests + 1


class Traveller:
    """`with Traveller() as traveller: traveller.measure(ways, schedule, is_constant=True)`"""

    def __enter__(self) -> Self:
        self._folder = TemporaryDirectory(prefix="kcoord-trips-")
        self._binary = build_go(SOURCE, Path(self._folder.name))
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._folder.cleanup()

    def measure(self, ways: Mapping[str, Route], schedule: Schedule, *, is_constant: bool) -> dict[str, Trips]:
        """Returns the results by way. Where answers are constant, each is compared with the first, byte by byte."""
        plan = {
            "ways": [{"address": way.address, "frame": base64.b64encode(way.frame).decode()} for way in ways.values()],
            "warmup_rounds": schedule.warmup_rounds,
            "rounds": schedule.rounds,
            "requests": schedule.requests,
            "is_constant": is_constant,
        }
        ran = subprocess.run([self._binary], input=json.dumps(plan), capture_output=True, text=True, timeout=TIMEOUT)
        assert ran.returncode == 0, ran.stderr
        return {name: Trips(**seen) for name, seen in zip(ways, json.loads(ran.stdout), strict=True)}


def frame(api_key: int, api_version: int, **values: Any) -> bytes:
    """Encodes a request as a client would send it, with its length; the traveller sets the correlation id."""
    header = RequestHeader(api_key=api_key, api_version=api_version, correlation_id=0, client_id="bench")
    return kio_codec(api_key, api_version).encode_request(header, values)
