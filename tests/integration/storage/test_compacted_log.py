"""Our compaction of __consumer_offsets retains what a broker's retains, and a broker loads the same state from it."""

import time
from pathlib import Path
from typing import Any

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.protocol.records.batch import split_batches
from kcoord.testing.kafka import KafkaCluster
from kcoord.testing.tools import JavaTools
from tests.support.logs.compacted import compacted
from tests.support.logs.log_dump_scene import SETTINGS, LogScene, until

RETENTION = 600_000
PATIENCE = 60.0


def test_a_broker_answers_as_before_after_its_log_was_compacted(java_tools: JavaTools) -> None:
    with KafkaCluster(properties=SETTINGS | {"offsets.topic.compression.codec": "4"}) as kafka:
        scene = LogScene(kafka.bootstrap)
        scene.play()
        scene.close()
        before = answers(kafka.bootstrap)
        kafka.kill(1)
        folder = kafka.brokers[0].data_dir / "__consumer_offsets-0"
        sizes = [compact(folder, now_ms=now_ms) for now_ms in (0, RETENTION)]
        kafka.restart(1)
        after = answers(kafka.bootstrap)
    assert after == before
    assert len(before["groups"]) > 8
    assert sum(len(topic.partitions) for group in before["offsets"] for topic in group.topics) == 6
    assert sizes[0][0] > sizes[0][1] > sizes[1][1], "records went, then tombstones"


def test_of_a_segment_is_left_what_the_broker_itself_leaves_of_it(java_tools: JavaTools) -> None:
    properties = SETTINGS | {
        "offsets.topic.segment.bytes": str(1 << 20),
        "log.cleaner.min.cleanable.ratio": "1.0",
        "log.cleaner.backoff.ms": "200",
        "log.cleaner.delete.retention.ms": str(RETENTION),
    }
    with KafkaCluster(properties=properties) as kafka:
        folder = kafka.brokers[0].data_dir / "__consumer_offsets-0"
        scene = LogScene(kafka.bootstrap)
        scene.play()
        for offset in range(100):  # 12 KiB each, so that one segment is no longer active
            scene.commit("filling", offset=offset, note="n" * 4_000)
        segment, _ = sorted(folder.glob("*.log"))
        original = segment.read_bytes()
        scene.set_topic_config("__consumer_offsets", "min.cleanable.dirty.ratio", "0.001")
        until(lambda: 0 < size_of(segment) < len(original))
        theirs = segment.read_bytes()
        scene.close()
    horizons = {batch.header.delete_horizon for batch in split_batches(theirs)} - {None}
    (horizon,) = horizons
    assert horizon is not None
    ours = compacted(original, now_ms=horizon - RETENTION, delete_retention_ms=RETENTION)
    # A broker also retains, without records, the last batch of each producer: the coordinator writes no sequences.
    emptied = [batch.header.producer_id for batch in split_batches(theirs) if not batch.header.record_count]
    assert ours == b"".join(batch.data for batch in split_batches(theirs) if batch.header.record_count)
    assert len(ours) < len(original) / 10
    assert -1 not in emptied


def size_of(segment: Path) -> int:
    try:
        return segment.stat().st_size
    except FileNotFoundError:  # while the broker replaces the segment
        return 0


def compact(folder: Path, *, now_ms: int) -> tuple[int, int]:
    """Compacts the folder; returns the size of its one segment before and after."""
    (segment,) = folder.glob("*.log")
    content = segment.read_bytes()
    left = compacted(content, now_ms=now_ms, delete_retention_ms=RETENTION)
    segment.write_bytes(left)
    for index in (*folder.glob("*.index"), *folder.glob("*.timeindex"), *folder.glob("*.txnindex")):
        index.unlink()  # a broker creates them again
    return len(content), len(left)


def answers(bootstrap: str) -> dict[str, Any]:
    """Returns the coordinator's answers about all groups, once it has loaded them."""
    host, _, port = bootstrap.rpartition(":")
    deadline = time.monotonic() + PATIENCE
    with Client(host, int(port)) as client:
        while client.ask(ApiKey.OFFSET_FETCH, 8, groups=[{"group_id": "any", "topics": None}]).groups[0].error_code:
            assert time.monotonic() < deadline, "the coordinator does not load"
            time.sleep(0.1)
        listed = client.ask(ApiKey.LIST_GROUPS, 5)
        # A broker lists a group whose only commit was aborted as long as that record is in the log.
        groups = [group for group in listed.groups if group.group_id != "aborted-txn"]
        groups.sort(key=lambda group: str(group.group_id))
        names = [group.group_id for group in groups]
        asked = [{"group_id": name, "topics": None} for name in names]
        offsets = client.ask(ApiKey.OFFSET_FETCH, 8, groups=asked).groups
        classic = [group.group_id for group in groups if group.group_type == "classic"]
        described = client.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=classic).groups
    return {"groups": groups, "offsets": sorted(offsets, key=lambda group: str(group.group_id)), "classic": described}
