"""Background compaction of the partitions of `__consumer_offsets`, one at a time."""

import asyncio
import logging
import time
from typing import Final

from kcoord.broker.cluster import OFFSETS_TOPIC, Cluster, Partition
from kcoord.protocol.records.batch import CorruptBatch
from kcoord.server.clock import now_ms
from kcoord.server.groups.group_runtime import GroupRuntime
from kcoord.storage.cleaner import CompactionResult, compact, is_worth_compacting

log = logging.getLogger("kcoord.storage")

_WORK: Final = 0.0005
_SLEEP_PER_WORK: Final = 4
"""Compaction works for half a millisecond or one step at once, and for a fifth of the time at most."""


async def compact_worthwhile_partitions(cluster: Cluster, groups: GroupRuntime) -> None:
    """Compacts the partitions of __consumer_offsets that have grown enough, one at a time and in the background
    (Kafka's log cleaner).
    """
    least = cluster.settings.kcoord_compaction_bytes
    topic = cluster.topics.get(OFFSETS_TOPIC)  # None if the journal is not a log of this cluster
    for partition in topic.partitions if topic else ():
        if is_worth_compacting(partition.log, least):
            try:
                await _compact(partition, cluster, groups)
            except (OSError, CorruptBatch) as error:
                groups.counts.failed_compactions += 1
                log.error("not compacted partition=%s why=%r", partition.index, str(error))


async def _compact(partition: Partition, cluster: Cluster, groups: GroupRuntime) -> None:
    retention_ms, began, worked = cluster.settings.log_cleaner_delete_retention_ms, time.monotonic(), 0.0
    superseded = groups.superseded_in(partition.index)
    steps = compact(partition.log, superseded, now_ms=now_ms(), delete_retention_ms=retention_ms)
    try:
        while not groups.is_loading:  # a load that is under way must find the tombstones of records that it has read
            turn_began, took = time.monotonic(), 0.0
            try:
                while took < _WORK:
                    next(steps)
                    took = time.monotonic() - turn_began
            finally:
                worked += time.monotonic() - turn_began
            await asyncio.sleep(took * _SLEEP_PER_WORK)
    except StopIteration as end:
        outcome: CompactionResult = end.value
        cluster.freed(outcome.bytes_before - outcome.bytes_after)
        groups.counts.compactions += 1
        groups.counts.compacted_bytes += outcome.bytes_before - outcome.bytes_after
        log.info(
            "compacted partition=%s bytes=%s left=%s worked=%.3fs took=%.3fs",
            partition.index,
            outcome.bytes_before,
            outcome.bytes_after,
            worked,
            time.monotonic() - began,
        )
    finally:
        steps.close()
