"""Compaction of a whole log at once."""

from kcoord.protocol.records.batch import split_batches
from kcoord.storage.cleaner_policy import LastRecords


def compacted(content: bytes, *, now_ms: int, delete_retention_ms: int) -> bytes:
    batches = list(split_batches(content))
    last_records = LastRecords()
    for batch in batches:
        last_records.add(batch)
    compaction = last_records.compaction(now_ms=now_ms, delete_retention_ms=delete_retention_ms)
    return b"".join(compaction.retain(batch, is_last=batch is batches[-1]) for batch in batches)
