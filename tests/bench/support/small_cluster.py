"""The log folder of a small cluster: `__consumer_offsets` of 50 partitions, and the logs of a few topics.

Most groups are quiet. One in ten is unstable: a member is restarted every minute, with many short ownerships.
Every run writes the same bytes.
"""

import random
import struct
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from kcoord.broker.describe_cluster import offsets_partition
from kcoord.groups.records import GroupStored, OffsetsStored, StoredMember
from kcoord.groups.records import Record as Fact
from kcoord.offsets_log.encoding import key_values
from kcoord.protocol.records.record import Record, write_batch

GROUPS, TOPICS, PARTITIONS = 68, 4, 12
OFFSETS_PARTITIONS = 50
AT_MS = 1_790_000_000_000
SECONDS = 2 * 3600
RESTART_INTERVAL = 60
COMMIT_INTERVAL = 20
RESTLESS_SHARE = 10
"""One of so many groups is unstable."""
MEMBERS = 3
RECORD_INTERVAL = 5
"""Seconds between two records of a topic's partition."""
BATCH_RECORDS = 12


def write_small_cluster(folder: Path, *, groups: int = GROUPS, seconds: int = SECONDS) -> int:
    """Writes the segments and returns their size in bytes."""
    chance = random.Random(7)
    logs: dict[str, list[Record]] = defaultdict(list)
    for number in range(groups):
        group = f"{chance.choice(('billing', 'search', 'payments'))}-{number}"
        log = f"__consumer_offsets-{offsets_partition(group, OFFSETS_PARTITIONS)}"
        for at_ms, fact in group_life(group, f"topic-{number % TOPICS}", number % RESTLESS_SHARE == 0, seconds):
            logs[log] += [Record(timestamp=at_ms, key=key, value=value) for key, value in key_values(fact)]
    for topic in range(TOPICS):
        for partition in range(PARTITIONS):
            payloads = [Record(timestamp=at, key=None, value=bytes(20)) for at in _times(seconds)]
            logs[f"topic-{topic}-{partition}"] = payloads
    return sum(
        _write_log(folder / name, sorted(records, key=lambda each: each.timestamp)) for name, records in logs.items()
    )


def group_life(group: str, topic: str, is_restless: bool, seconds: int) -> Iterator[tuple[int, Fact]]:
    """Yields the records that a coordinator writes of one group, with their times."""
    generation = 0
    for second in range(0, seconds, COMMIT_INTERVAL):
        at_ms = AT_MS + second * 1000
        if second == 0 or (is_restless and second % RESTART_INTERVAL == 0):
            generation += 1
            yield at_ms, generation_of(group, topic, generation, at_ms)
        offsets = [second // RECORD_INTERVAL // (2 if is_restless else 1)] * PARTITIONS
        columns = (range(PARTITIONS), offsets, [0] * PARTITIONS, [""] * PARTITIONS)
        yield at_ms + 500, OffsetsStored(group, topic, *columns, at_ms + 500)


def generation_of(group: str, topic: str, generation: int, at_ms: int) -> GroupStored:
    """Returns a generation. Its last member is new in each generation; the partitions rotate among the members."""
    names = [*(f"worker-{number}" for number in range(MEMBERS - 1)), f"worker-{MEMBERS - 1}.{generation}"]
    shares = [range((index + generation) % MEMBERS, PARTITIONS, MEMBERS) for index in range(MEMBERS)]
    members = tuple(
        StoredMember(f"{name}-id", None, name.partition(".")[0], "/10.0.0.1", 45.0, 60.0, b"", assignment(topic, share))
        for name, share in zip(names, shares, strict=True)
    )
    return GroupStored(
        group_id=group,
        generation=generation,
        protocol_type="consumer",
        protocol="range",
        leader_id=members[0].member_id,
        since_ms=at_ms,
        members=members,
    )


def assignment(topic: str, partitions: range) -> bytes:
    """Encodes a consumer's assignment, version 0."""
    name = topic.encode()
    head = struct.pack(f">hih{len(name)}si", 0, 1, len(name), name, len(partitions))
    return head + struct.pack(f">{len(partitions)}i", *partitions) + struct.pack(">i", -1)


def _times(seconds: int) -> Iterator[int]:
    return (AT_MS + second * 1000 for second in range(0, seconds, RECORD_INTERVAL))


def _write_log(folder: Path, records: list[Record]) -> int:
    folder.mkdir(parents=True)
    starts = range(0, len(records), BATCH_RECORDS)
    batches = [write_batch(records[at : at + BATCH_RECORDS], base_offset=at) for at in starts]
    path = folder / f"{0:020}.log"
    path.write_bytes(b"".join(batches))
    return path.stat().st_size
