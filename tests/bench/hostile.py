"""Honest members next to attackers on one server: python -m tests.bench.hostile [MINUTES]

200 members in 20 groups send a heartbeat every second, first for half a minute alone, then for ten minutes (or as many
as the argument) next to five attackers, each in a separate process:

    malformed frames     bursts of 300 over 48 connections
    bombs                batches of 30 million headers, 400,000 headers and 499,000 empty records, small on the wire,
                         and look-ups by time in what was taken of them
    subscriptions        joins of 1 MiB, each to a new group, on 50 connections that are then closed
    hang-ups             connections that are closed in the middle of a frame, or after a request and before its answer
    slow reader          fetches of 16 MiB whose answers are read by one kilobyte a second

The table has the latency of the heartbeats, how many were refused (a member that was expelled is refused), and the
memory of the server.
"""

import multiprocessing
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import count
from statistics import quantiles
from typing import Any

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import BatchHeader, assemble, read_header
from kcoord.protocol.records.compression import Codec, compress
from kcoord.protocol.records.record import Record, write_batch
from kcoord.protocol.varint import uvarint
from kcoord.testing.node import HOST
from tests.bench.support import client
from tests.bench.support.machine import machine, table
from tests.bench.support.servers import Kcoord, Running
from tests.hostile.fuzzing import Fuzzer

GROUPS, GROUP_SIZE = 20, 10
SESSION = timedelta(seconds=10)
BEAT_INTERVAL = 1.0
QUIET_SECONDS = 30.0
MINUTES = 10.0
AFTERWARDS = 60.0  # sessions of what the attackers left behind end, and their memory with them
MIB = 1024 * 1024
TOPIC, READ_SLOWLY = "hostile", "read-slowly"
ATTACKER = "attacker"
SETTINGS = {
    "group.initial.rebalance.delay.ms": "1000",
    "log.retention.check.interval.ms": "500",
    "log.retention.bytes": str(64 * MIB),
    "log.segment.bytes": str(16 * MIB),
}


@dataclass(slots=True)
class Phase:
    """The heartbeats and the memory during one phase."""

    name: str
    latencies: list[float] = field(default_factory=list)
    refused: int = 0
    memory: list[float] = field(default_factory=list)

    def row(self) -> list[str]:
        cuts = quantiles(self.latencies, n=1000)
        times = [f"{seconds * 1000:.1f} ms" for seconds in (cuts[499], cuts[989], cuts[998], max(self.latencies))]
        memory = [f"{each:,.0f} MiB" for each in (max(self.memory), self.memory[-1])]
        return [self.name, f"{len(self.latencies):,}", f"{self.refused:,}", *times, *memory]


def main(minutes: float = MINUTES) -> None:
    print(f"{GROUPS * GROUP_SIZE} members beside attackers, {minutes:g} minutes\n{machine()}\n")
    quiet, mixed, after = Phase("alone"), Phase("beside attackers"), Phase("afterwards")
    with Running(Kcoord(SETTINGS)) as server:
        for topic in (TOPIC, READ_SLOWLY):
            client.create_topic(server.bootstrap, topic, partitions=1)
        with _honest_members(server.port) as honest:
            honest.beat_for(QUIET_SECONDS, quiet, server)
            with _attackers(server.port) as taken:
                honest.beat_for(minutes * 60, mixed, server)
                done = {name: taken[name].value for name in taken}
            honest.beat_for(AFTERWARDS, after, server)
    head = ["", "heartbeats", "refused", "median", "p99", "p99.9", "longest", "most memory", "memory at the end"]
    print(table([head, *(phase.row() for phase in (quiet, mixed, after))]))
    print("\n" + table([["attack", "times"], *([name, f"{times:,}"] for name, times in done.items())]))


class _Honest:
    """Members that each have a connection; the members of a group take turns in one thread."""

    def __init__(self, groups: Sequence[Sequence["_Member"]]) -> None:
        self._groups = groups

    def beat_for(self, seconds: float, phase: Phase, server: Running) -> None:
        until = time.monotonic() + seconds
        threads = [threading.Thread(target=self._beat, args=(members, until, phase)) for members in self._groups]
        for thread in threads:
            thread.start()
        while time.monotonic() < until:
            phase.memory.append(server.memory()[0])
            time.sleep(0.5)
        for thread in threads:
            thread.join()

    @staticmethod
    def _beat(members: Sequence["_Member"], until: float, phase: Phase) -> None:
        next_at = time.monotonic()
        while next_at < until:
            time.sleep(max(0.0, next_at - time.monotonic()))
            for member in members:
                started = time.perf_counter()
                error = member.heartbeat()
                phase.latencies.append(time.perf_counter() - started)
                phase.refused += error is not ErrorCode.none
            next_at = max(next_at + BEAT_INTERVAL, time.monotonic())


@dataclass(frozen=True, slots=True)
class _Member:
    client: Client
    group_id: str
    member_id: str
    generation: int

    def heartbeat(self) -> ErrorCode:
        answer = self.client.ask(
            ApiKey.HEARTBEAT, 4, group_id=self.group_id, generation_id=self.generation, member_id=self.member_id
        )
        return ErrorCode(answer.error_code)


@contextmanager
def _honest_members(port: int) -> Iterator[_Honest]:
    with ExitStack() as stack:
        clients = {
            f"honest-{number}": [
                stack.enter_context(Client(HOST, port, client_id="honest", timeout=120)) for _ in range(GROUP_SIZE)
            ]
            for number in range(GROUPS)
        }
        for group_id, members in clients.items():
            for each in members:
                each.send(ApiKey.JOIN_GROUP, 3, **_join(group_id, b"honest"))
        yield _Honest([_synced(group_id, members) for group_id, members in clients.items()])


def _synced(group_id: str, clients: Sequence[Client]) -> list[_Member]:
    answers = [each.receive(ApiKey.JOIN_GROUP, 3) for each in clients]
    members = [
        _Member(each, group_id, answer.member_id, answer.generation_id)
        for each, answer in zip(clients, answers, strict=True)
    ]
    if len({member.generation for member in members}) != 1:
        raise RuntimeError(f"the members of {group_id} did not join together")
    plan = tuple({"member_id": each.member_id, "assignment": b"its part"} for each in members)
    for each, answer in zip(members, answers, strict=True):
        given = plan if answer.leader == each.member_id else ()
        each.client.send(
            ApiKey.SYNC_GROUP,
            3,
            group_id=group_id,
            generation_id=each.generation,
            member_id=each.member_id,
            assignments=given,
        )
    for each in members:
        if each.client.receive(ApiKey.SYNC_GROUP, 3).error_code:
            raise RuntimeError(f"a member of {group_id} got no assignment")
    return members


def _join(group_id: str, subscription: bytes) -> dict[str, Any]:
    return {
        "group_id": group_id,
        "session_timeout": SESSION,
        "rebalance_timeout": timedelta(minutes=1),
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": ({"name": "range", "metadata": subscription},),
    }


@contextmanager
def _attackers(port: int) -> Iterator[dict[str, Any]]:
    """Runs the attackers until the block ends, and yields the count of attacks of each."""
    context = multiprocessing.get_context("spawn")
    taken = {name: context.Value("q", 0) for name in ATTACKS}
    processes = [
        context.Process(target=_attack, args=(name, port, taken[name]), daemon=True, name=name) for name in ATTACKS
    ]
    for process in processes:
        process.start()
    try:
        yield taken
        ended = [process.name for process in processes if not process.is_alive()]
        if ended:
            raise RuntimeError(f"these attackers ended by themselves: {', '.join(ended)}")
    finally:
        for process in processes:
            process.terminate()
            process.join()


def _attack(name: str, port: int, taken: Any) -> None:
    for _ in ATTACKS[name](port):
        taken.value += 1


def _malformed_frames(port: int) -> Iterator[None]:
    for seed in count():
        Fuzzer((HOST, port), seed, 300).run()
        yield
        time.sleep(0.2)


def _bombs(port: int) -> Iterator[None]:
    batches = [_bomb(30_000_000, 1), _bomb(400_000, 1), _bomb(0, 499_000)]
    for number in count():
        with suppress(OSError, EOFError), Client(HOST, port, client_id=ATTACKER, timeout=60) as attacker:
            _produce(attacker, batches[number % len(batches)])
            yield
            line = {"partition_index": 0, "timestamp": _now_ms() - 1, "current_leader_epoch": -1}
            attacker.ask(ApiKey.LIST_OFFSETS, 7, topics=[{"name": TOPIC, "partitions": [line]}])
            yield
        time.sleep(0.3)


def _bomb(headers: int, records: int) -> bytes:
    """Returns a batch of records without keys and values, each with this many headers of empty keys and without
    values."""
    body = b"\x00" + _varint(0) + _varint(0) + _varint(-1) + _varint(-1) + _varint(headers) + b"\x00\x01" * headers
    if records == 1:
        content = _varint(len(body)) + body
    else:
        bodies = (
            b"\x00" + _varint(0) + _varint(delta) + _varint(-1) + _varint(-1) + _varint(0) for delta in range(records)
        )
        content = b"".join(_varint(len(each)) + each for each in bodies)
    header: BatchHeader = read_header(write_batch([Record(timestamp=_now_ms())], codec=Codec.ZSTD))
    header = header._replace(record_count=records, last_offset_delta=records - 1)
    return assemble(header, compress(Codec.ZSTD, content))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _varint(number: int) -> bytes:
    return uvarint((number << 1) ^ (number >> 63))


def _produce(attacker: Client, batch: bytes, topic: str = TOPIC) -> None:
    data = [{"name": topic, "partition_data": [{"index": 0, "records": batch}]}]
    attacker.ask(ApiKey.PRODUCE, 9, acks=-1, timeout=timedelta(seconds=5), topic_data=data)


def _subscriptions(port: int) -> Iterator[None]:
    subscription = bytes(MIB - 1024)
    for number in count():
        with suppress(OSError, EOFError), ExitStack() as stack:
            for part in range(50):
                attacker = stack.enter_context(Client(HOST, port, client_id=ATTACKER, timeout=60))
                attacker.send(ApiKey.JOIN_GROUP, 3, **_join(f"large-{number}-{part}", subscription))
                yield
                time.sleep(0.02)
            time.sleep(1)


def _hang_ups(port: int) -> Iterator[None]:
    for number in count():
        with socket.create_connection((HOST, port), timeout=60) as raw:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.sendall(struct.pack(">i", 1000) + bytes(number % 900))
        with Client(HOST, port, client_id=ATTACKER, timeout=60) as attacker:
            attacker.send(ApiKey.METADATA, 12, topics=None)
        yield
        time.sleep(0.01)


def _slow_reader(port: int) -> Iterator[None]:
    with Client(HOST, port, client_id=ATTACKER, timeout=60) as attacker:
        for _ in range(32):
            _produce(attacker, write_batch([Record(value=bytes(512 * 1024), timestamp=_now_ms())]), READ_SLOWLY)
    partition = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 16 * MIB, "current_leader_epoch": -1}
    wanted = {"max_wait": timedelta(0), "min_bytes": 1, "max_bytes": 16 * MIB, "session_epoch": -1}
    while True:
        with suppress(OSError, EOFError), Client(HOST, port, client_id=ATTACKER, timeout=60) as attacker:
            for _ in range(20):
                attacker.send(ApiKey.FETCH, 12, **wanted, topics=[{"topic": READ_SLOWLY, "partitions": [partition]}])
            for _ in range(30):
                attacker._socket.recv(1024)
                yield
                time.sleep(1)


ATTACKS: dict[str, Callable[[int], Iterator[None]]] = {
    "malformed frames": _malformed_frames,
    "bombs": _bombs,
    "subscriptions": _subscriptions,
    "hang-ups": _hang_ups,
    "slow reader": _slow_reader,
}

if __name__ == "__main__":
    main(*(float(minutes) for minutes in sys.argv[1:]))
