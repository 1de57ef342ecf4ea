"""The server that is audited: `kcoord serve` on a folder that outlives it."""

import json
import os
import resource
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from kcoord.api_keys import ApiKey
from kcoord.broker.cluster import OFFSETS_TOPIC
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.testing.embedded import READY, serve_command
from kcoord.testing.process import CapturedProcess
from tests.durability.support import group_writers, record_writers
from tests.durability.support.faulty import Plan
from tests.durability.support.writers import TOPIC_RESOURCE

_TOPICS: Final = {
    group_writers.TOPIC: group_writers.PARTITIONS,
    record_writers.TOPIC: record_writers.PARTITIONS,
}
_START_TIMEOUT: Final = 60.0
_FAULTY: Final = Path(__file__).with_name("faulty.py")


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """The settings and the faults of a server."""

    settings: dict[str, str] = field(default_factory=dict)
    offsets_segment_bytes: int | None = None
    is_synced: bool = False
    plan: Plan | None = None  # The plan of its faults.


class Served:
    """One process, which ends with the `with` block."""

    def __init__(self, folder: Path, kind: Kind) -> None:
        settings = {"group.initial.rebalance.delay.ms": "0", **kind.settings}
        command = serve_command(1, _TOPICS, settings, folder, kind.is_synced)
        if kind.plan is not None:
            assert command[1:3] == ["-m", "kcoord.commands"]
            command[1:3] = ["-P", str(_FAULTY), kind.plan.text()]
        self._process = CapturedProcess(command, name="kcoord serve")
        try:
            ready = json.loads(self._process.wait_for(READY, timeout=_START_TIMEOUT))
        except BaseException:
            self._process.kill()
            raise
        host, port = ready["bootstrap"].split(":")
        self.address: tuple[str, int] = (host, int(port))
        if kind.offsets_segment_bytes is not None:
            self._set_segment_bytes(kind.offsets_segment_bytes)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.exit_code is None

    def client(self) -> Client:
        return Client(*self.address, timeout=60.0)

    def kill(self) -> None:
        """Kills the process at once."""
        os.kill(self.pid, signal.SIGKILL)
        self._process.kill()

    def let_files_grow_to(self, size: int) -> None:
        """Limits the size of files: a write beyond it is cut short, and the next one is refused."""
        _, most = resource.prlimit(self.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(self.pid, resource.RLIMIT_FSIZE, (size, most))

    def let_files_grow(self) -> None:
        self.let_files_grow_to(resource.RLIM_INFINITY)

    def log(self) -> str:
        return self._process.stderr()

    def _set_segment_bytes(self, size: int) -> None:
        """Sets the segment size of `__consumer_offsets`, which exists once a group was used."""
        config = {"name": "segment.bytes", "config_operation": 0, "value": str(size)}
        resource = {"resource_type": TOPIC_RESOURCE, "resource_name": OFFSETS_TOPIC, "configs": [config]}
        with self.client() as client:
            client.ask(ApiKey.OFFSET_FETCH, 7, group_id="any", topics=None)
            [answer] = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource]).responses
        assert answer.error_code is ErrorCode.none, answer

    def __enter__(self) -> "Served":
        return self

    def __exit__(self, *error: object) -> None:
        self._process.kill()
