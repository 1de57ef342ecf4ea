"""Compaction in the background: partitions of `__consumer_offsets`, one after the other, for a part of the time."""

import asyncio
import logging
import time
from typing import Final

from kcoord.broker.cluster import OFFSETS_TOPIC, Cluster, Partition
from kcoord.journal.compaction import Compacted, compact, is_worth_compacting
from kcoord.server.clock import now_ms
from kcoord.server.group_runtime import GroupRuntime
from kcoord.wire.batches import BadBatch

log = logging.getLogger("kcoord.journal")

_REST_PER_WORK: Final = 4
"""It works for a fifth of the time at most: whoever asks in between is served."""


async def compact_what_is_worth_it(cluster: Cluster, groups: GroupRuntime) -> None:
    least = cluster.settings.kcoord_compaction_bytes
    topic = cluster.topics.get(OFFSETS_TOPIC)  # none where the journal is elsewhere
    for partition in topic.partitions if topic else ():
        if is_worth_compacting(partition.log, least):
            try:
                await _compact(partition, cluster, groups)
            except (OSError, BadBatch) as error:
                groups.counts.failed_compactions += 1
                log.error("not compacted partition=%s why=%r", partition.index, str(error))


async def _compact(partition: Partition, cluster: Cluster, groups: GroupRuntime) -> None:
    retention_ms, began, worked = cluster.settings.log_cleaner_delete_retention_ms, time.monotonic(), 0.0
    steps = compact(partition.log, now_ms=now_ms(), delete_retention_ms=retention_ms)
    try:
        while not groups.is_reading:  # who reads must find the deletion of what it has read
            step_began = time.monotonic()
            next(steps)
            step = time.monotonic() - step_began
            worked += step
            await asyncio.sleep(step * _REST_PER_WORK)
    except StopIteration as end:
        outcome: Compacted = end.value
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
