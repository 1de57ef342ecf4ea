"""A restart with many offsets, against the real broker on the same data: python -m tests.bench.restart [OFFSETS ...]

A broker takes the commits, of a thousand offsets for each group, and is stopped. kcoord starts on a copy of its folder,
the broker on the folder itself; in turn, each time after the same pause. Measured from the start of the process:

    Metadata     until it answers the first request
    offsets      until it answers OffsetFetch for one group of each partition of __consumer_offsets, without an error
    memory       resident, when all is read; and what it is more than that of the same server without any offset
"""

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median

from kcoord.api_keys import ApiKey
from kcoord.broker.describe_cluster import offsets_partition
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.testing.node import HOST, free_ports
from tests.bench.support import client
from tests.bench.support.machine import machine, table
from tests.bench.support.servers import SCRIPT_FLAGS, Kafka, PreparedBefore, Running

ROUNDS = 3
COUNTS = (100_000, 1_000_000)
TOPIC, PARTITIONS = "bench-restart", 1000  # a commit of each for every group
OFFSETS_PARTITIONS = 50
TIMEOUT = 120.0
KCOORD, KAFKA = "kcoord", "Kafka"
SETTINGS = {"offsets.topic.num.partitions": str(OFFSETS_PARTITIONS)}


@dataclass(frozen=True, slots=True)
class Restart:
    metadata: float
    offsets: float
    memory: float


def main(counts: Sequence[int] = COUNTS) -> None:
    print(f"restart: medians of {ROUNDS} rounds\n{machine()}\n")
    rows = [["offsets", "", "Metadata", "offsets", "memory", "per million more"]]
    empty: dict[str, float] = {}
    for count in (0, *counts):
        seen = _measure(count)
        for name, restarts in seen.items():
            memory = median(each.memory for each in restarts)
            empty.setdefault(name, memory)
            more = f"{(memory - empty[name]) / count * 1e6:,.0f} MiB" if count else ""
            times = [f"{median(getattr(each, what) for each in restarts):.2f} s" for what in ("metadata", "offsets")]
            rows.append([f"{count:,}", name, *times, f"{memory:,.0f} MiB", more])
        ours, theirs = (median(each.offsets for each in seen[name]) for name in (KCOORD, KAFKA))
        rows.append(["", "times faster", "", f"{theirs / ours:.2f}x", "", ""])
    print(table(rows))


def _measure(count: int) -> dict[str, list[Restart]]:
    groups = [f"group-{number}" for number in range(count // PARTITIONS)]
    with _folder() as home:
        command, port = Kafka(SCRIPT_FLAGS, uses_archive=False, settings=SETTINGS).prepare(home)
        with Running(PreparedBefore(command, port)) as broker:
            client.create_topic(broker.bootstrap, TOPIC, partitions=PARTITIONS)
            _commit(port, groups or ["nobody"])
        (logs,) = home.rglob("__consumer_offsets-0")
        shutil.copytree(logs.parent, home / "copy")
        our_port = free_ports(1)[0]
        kcoord = str(Path(sys.executable).parent / "kcoord")
        ours = [kcoord, "serve", "--listen", f"{HOST}:{our_port}", "--data-dir", str(home / "copy")]
        rivals = {KCOORD: PreparedBefore(ours, our_port), KAFKA: PreparedBefore(command, port)}
        asked = _one_of_each_partition(groups or ["nobody"])
        seen: dict[str, list[Restart]] = {name: [] for name in rivals}
        for _ in range(ROUNDS):
            for name, rival in rivals.items():
                with Running(rival) as server:
                    offsets = _wait_for_offsets(server, asked)
                    seen[name].append(Restart(server.start_seconds, offsets, server.memory()[0]))
    return seen


@contextmanager
def _folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="kcoord-bench-restart-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _commit(port: int, groups: Sequence[str]) -> None:
    with Client(HOST, port, timeout=TIMEOUT) as server:
        server.ask(ApiKey.FIND_COORDINATOR, 4, key_type=0, coordinator_keys=["any"])  # this request creates the topic
        for number, group_id in enumerate(groups):
            lines = [
                {"partition_index": each, "committed_offset": number * PARTITIONS + each, "committed_metadata": ""}
                for each in range(PARTITIONS)
            ]
            topics = [{"name": TOPIC, "partitions": lines}]
            values = {"generation_id_or_member_epoch": -1, "member_id": "", "topics": topics}
            _until_there(partial(_is_taken, server, group_id, values))


def _is_taken(server: Client, group_id: str, values: dict[str, object]) -> bool:
    """Commits, and returns whether that succeeded; the first commit creates the offsets topic."""
    answer = server.ask(ApiKey.OFFSET_COMMIT, 8, group_id=group_id, **values)
    errors = {line.error_code for topic in answer.topics for line in topic.partitions}
    return errors == {ErrorCode.none}


def _one_of_each_partition(groups: Sequence[str]) -> list[str]:
    return list({offsets_partition(group_id, OFFSETS_PARTITIONS): group_id for group_id in groups}.values())


def _wait_for_offsets(server: Running, groups: Sequence[str]) -> float:
    """Returns the seconds from the start until all of these groups have answered with what was committed."""
    with Client(HOST, server.port, timeout=TIMEOUT) as asking:
        for group_id in groups:
            _until_there(partial(_has_offsets, asking, group_id))
    return time.perf_counter() - server.started


def _has_offsets(server: Client, group_id: str) -> bool:
    topics = [{"name": TOPIC, "partition_indexes": [0, PARTITIONS - 1]}]
    answer = server.ask(ApiKey.OFFSET_FETCH, 7, group_id=group_id, topics=topics)
    if answer.error_code is not ErrorCode.none:
        return False
    offsets = [line.committed_offset for line in answer.topics[0].partitions]
    assert offsets[1] - offsets[0] == PARTITIONS - 1, f"{group_id} has lost its offsets: {offsets}"
    return True


def _until_there(is_there: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT
    while not is_there():
        assert time.monotonic() < deadline, f"nothing after {TIMEOUT} s"
        time.sleep(0.01)


if __name__ == "__main__":
    main([int(each) for each in sys.argv[1:]] or COUNTS)
