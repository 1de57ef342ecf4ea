"""The log of one partition: appends, reads, retention; `timestamp_lookup` has the lookups by time.

There is one replica, in one process: what is appended is committed, so the end offset is the high watermark and, there
being no transactions, the last stable offset. The last segment is the active one; there always is one, maybe empty. If
the storage fails (kcoord.broker.log.storage), the answer is KAFKA_STORAGE_ERROR, and the log is unchanged.

A log that existed before the process is made from its `Recovered` state. Its offsets may have gaps, within a segment
and between two, because compaction has dropped records.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from uuid import UUID

from kcoord.broker.log.batch_validation import Admitted, Allowance, LogSettings, RecordError, Refused, admit
from kcoord.broker.log.leader_epochs import EpochEnd, LeaderEpochs
from kcoord.broker.log.producers import AppendedBatch, Fenced, Producers
from kcoord.broker.log.segment import Segment
from kcoord.broker.log.slices import Effort, Slices
from kcoord.broker.log.storage import EphemeralStorage, LogStorage, Store
from kcoord.broker.log.timestamp_lookup import TimestampOffset, first_not_older, newest_time
from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import NO_TIMESTAMP, Batch, BatchHeader

__all__ = [
    "HIGH_WATERMARK",
    "Appended",
    "EpochEnd",
    "LogSettings",
    "PartitionLog",
    "RecordError",
    "Recovered",
    "Refused",
    "TimestampOffset",
]

HIGH_WATERMARK = -1  # The offset in DeleteRecords that means the high watermark.
# Errors of a batch that are answered without the log's start offset (ReplicaManager.appendToLocalLog).
_WITHOUT_START_OFFSET = {ErrorCode.message_too_large, ErrorCode.record_list_too_large, ErrorCode.corrupt_message}


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """The offsets that an appended batch got; for a producer's duplicate, those of the original batch. `start_offset`
    is the log start offset.
    """

    base_offset: int
    last_offset: int
    append_time_ms: int  # -1 if the topic has the producers' timestamps.
    start_offset: int
    is_duplicate: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """The state of a partition log that was recovered from disk, from which PartitionLog continues. `epochs` are leader
    epochs and their first offsets, the current one last.
    """

    segments: Sequence[Segment]
    start_offset: int
    producers: Producers = field(default_factory=Producers)
    epochs: Sequence[tuple[int, int]] = ()


class PartitionLog:
    """The log of one partition (Kafka's UnifiedLog): its segments of record batches, idempotent producers and leader
    epochs.
    """

    is_failed = False

    def __init__(
        self,
        name: str,
        settings: LogSettings,
        *,
        now_ms: int,
        start_offset: int = 0,
        storage: LogStorage | None = None,
        recovered: Recovered | None = None,
    ) -> None:
        """Begins a log at this offset, or continues a recovered one. Raises OSError."""
        self.name = name
        self.settings = settings  # May be replaced at any time.
        self._storage = storage or EphemeralStorage().make_log(name, UUID(int=0))
        found = recovered or Recovered(segments=(), start_offset=start_offset)
        self.start_offset = found.start_offset
        self.producers = found.producers
        self._epochs = LeaderEpochs(found.epochs or [(0, start_offset)])
        self._segments = list(found.segments)
        self._base_offsets = [segment.base_offset for segment in found.segments]
        if not self._segments:
            self._add_segment(self.start_offset, 0, now_ms)

    @property
    def end_offset(self) -> int:
        """The log end offset, which the next record gets; with one replica it is also the high watermark."""
        return self._segments[-1].next_offset

    @property
    def appended_ms(self) -> int:
        """When the last batch was appended, in milliseconds since the epoch."""
        return self._segments[-1].modified_ms

    @property
    def segments(self) -> Sequence[Segment]:
        """The log's segments, the oldest first; all but the last (active) one are closed."""
        return self._segments

    @property
    def size(self) -> int:
        """The size of all segments in bytes."""
        return self._end_position - self._segments[0].log_position

    def admit(self, batch: Batch, now_ms: int, allowance: Allowance) -> Slices[Admitted | Refused]:
        """Validates a producer's batch as Kafka does, without changing anything. Its result is passed to `append`."""
        admitted = yield from admit(batch, self.settings, now_ms, allowance)
        return self._with_start_offset(admitted) if isinstance(admitted, Refused) else admitted

    def append(self, batch: Batch, admitted: Admitted, now_ms: int) -> Appended | Refused:
        """Appends an admitted batch at the log's end, and sets its offset and leader epoch; nothing changes if it is
        refused.
        """
        match self._check_producer(batch.header):
            case Refused() as refused:
                return refused
            case AppendedBatch() as original:
                return self._repeat(original)
        try:
            self._roll_if_full(batch.header.size, admitted.max_timestamp, now_ms)
            return self._append(batch, admitted, now_ms)
        except OSError as error:
            return _storage_error("written", error)

    def append_internal(self, batches: Sequence[Batch], now_ms: int) -> int | Refused:
        """Appends batches that this process made, such as those of __consumer_offsets, without validation, in one
        write: all or none. Returns how many bytes.
        """
        size = sum([batch.header.size for batch in batches])
        try:
            self._roll_if_full(size, batches[-1].header.max_timestamp, now_ms)
            self._segments[-1].append_all(batches, leader_epoch=self.leader_epoch, now_ms=now_ms)
        except OSError as error:
            return _storage_error("written", error)
        return size

    def read(self, offset: int, *, max_bytes: int, min_one_batch: bool = False) -> bytes | Refused:
        """Reads whole batches, beginning with the one that holds this offset; returns nothing at the log's end.

        With min_one_batch the first batch is read even if it alone is larger than max_bytes.
        """
        if refused := self._check_offset(offset):
            return refused
        if offset == self.end_offset:
            return b""
        try:
            return self._read(offset, max_bytes, min_one_batch)
        except OSError as error:
            return _storage_error("read", error)

    def read_internal(self, offset: int, *, max_bytes: int) -> bytes:
        """Reads at least one batch from this offset on, for use in this process. Raises CorruptSegment, or OSError
        where the storage fails.
        """
        return self._read(offset, max_bytes, min_one_batch=True)

    def offset_for_timestamp(self, timestamp: int, effort: Effort) -> Slices[TimestampOffset | None]:
        """Finds the first record whose timestamp is not older than this; None if there is none. The search counts its
        work in `effort` and yields between slices. Raises OSError if the records cannot be read.
        """
        return first_not_older(self._segments, timestamp, self.start_offset, effort)

    def offset_of_max_timestamp(self, effort: Effort) -> Slices[TimestampOffset | None]:
        """Finds the first record with the largest timestamp; None in an empty log. The search counts its work in
        `effort` and yields between slices. Raises OSError if records cannot be read.
        """
        newest = yield from newest_time(self._segments, self.start_offset, effort)
        return (yield from first_not_older(self._segments, newest, self.start_offset, effort))

    @property
    def leader_epoch(self) -> int:
        """The current leader epoch."""
        return self._epochs.current

    @property
    def start_epoch(self) -> int:
        """The leader epoch of the log's first record; -1 if that is not known."""
        return self._epochs.at(self.start_offset)

    def end_offset_for_epoch(self, leader_epoch: int) -> EpochEnd:
        """Returns the end offset of a leader epoch, for OffsetForLeaderEpoch."""
        return self._epochs.end_of(leader_epoch, start_offset=self.start_offset, end_offset=self.end_offset)

    def delete_records(self, before_offset: int, now_ms: int) -> int | Refused:
        """Moves the log start offset to `before_offset` (-1 for the high watermark) and deletes segments below it, for
        DeleteRecords. Returns the new start offset.
        """
        if self.settings.is_compacted and not self.settings.is_deletable:
            return Refused(error=ErrorCode.policy_violation, message="cleanup.policy has no delete")
        if before_offset == HIGH_WATERMARK:
            before_offset = self.end_offset
        if not 0 <= before_offset <= self.end_offset:
            return Refused(
                error=ErrorCode.offset_out_of_range, message=f"{before_offset} is not within 0 and {self.end_offset}"
            )
        if before_offset > self.start_offset:
            try:
                self._storage.persist_start_offset(before_offset)
                self.start_offset = before_offset
                self._delete_segments(self._count_before_start(), now_ms)
            except OSError as error:
                return _storage_error("deleted", error)
        return self.start_offset

    def enforce_retention(self, now_ms: int) -> int:
        """Deletes the oldest segments beyond retention.bytes and retention.ms (UnifiedLog.deleteOldSegments). Returns
        how many.

        Raises OSError if records cannot be read, or if a new segment cannot be created.
        """
        if not self.settings.is_deletable:
            return 0
        oversize = self._delete_segments(self._count_oversize(), now_ms)
        return oversize + self._delete_segments(self._count_expired(now_ms), now_ms)

    def expire_producers(self, now_ms: int, expiration_ms: int) -> int:
        """Removes idempotent producers that have been silent for `expiration_ms`. Returns how many."""
        return self.producers.expire(now_ms, expiration_ms)

    def close_active(self, now_ms: int) -> None:
        """Rolls to a new active segment, so that all records are in closed ones. Raises OSError."""
        if self._segments[-1].size:
            self._roll(now_ms)

    def make_replacement(self) -> Store:
        """Creates a store into which compaction writes what remains of the oldest segments. Raises OSError."""
        return self._storage.make_replacement(self._base_offsets[0])

    def replace_segments(self, count: int, replacement: Store, now_ms: int) -> None:
        """Replaces the oldest `count` segments, all of them closed, by their compacted replacement.

        The replacement has some of their batches, in order, with their offsets. If OSError is raised, the log is
        unchanged.
        """
        replaced = self._segments[:count]
        assert 0 < count < len(self._segments), "the active segment is not replaced"
        self._storage.replace([segment.store for segment in replaced], replacement, replaced[-1].next_offset)
        segment = Segment.closed(
            replaced[0].base_offset,
            next_offset=replaced[-1].next_offset,
            log_position=self._segments[count].log_position - replacement.size,
            modified_ms=now_ms,
            store=replacement,
        )
        self._segments[:count] = [segment]
        self._base_offsets[:count] = [segment.base_offset]

    def close(self) -> None:
        """Closes all segments of the log; the log is not used again."""
        for segment in self._segments:
            segment.close()

    def delete(self) -> None:
        """Deletes all records of the log from the storage; the log is not used again."""
        self.close()
        self._storage.delete()

    @property
    def _end_position(self) -> int:
        return self._segments[-1].log_position + self._segments[-1].size

    def _index_of(self, offset: int) -> int:
        return bisect_right(self._base_offsets, offset) - 1

    def _check_offset(self, offset: int) -> Refused | None:
        if self.start_offset <= offset <= self.end_offset:
            return None
        return Refused(
            error=ErrorCode.offset_out_of_range,
            message=f"Offset {offset} is not within {self.start_offset} and {self.end_offset}",
        )

    def _check_producer(self, header: BatchHeader) -> AppendedBatch | Refused | None:
        if header.is_transactional:
            # No transaction was ever begun here (UnifiedLog.analyzeAndValidateProducerState).
            return self._refuse(ErrorCode.invalid_txn_state, "The batch belongs to no ongoing transaction")
        if not header.has_producer_id:
            return None
        outcome = self.producers.check(header)
        return self._refuse(outcome.error, outcome.message) if isinstance(outcome, Fenced) else outcome

    def _refuse(self, error: ErrorCode, message: str) -> Refused:
        return Refused(error=error, message=message, start_offset=self.start_offset)

    def _with_start_offset(self, refused: Refused) -> Refused:
        return refused if refused.error in _WITHOUT_START_OFFSET else replace(refused, start_offset=self.start_offset)

    def _append(self, batch: Batch, admitted: Admitted, now_ms: int) -> Appended:
        header, base_offset = batch.header, self.end_offset
        uses_append_time = self.settings.uses_append_time
        self._segments[-1].append(
            batch,
            leader_epoch=self.leader_epoch,
            max_timestamp=admitted.max_timestamp,
            uses_append_time=uses_append_time,
            now_ms=now_ms,
            maxima=admitted.maxima,
        )
        if header.has_producer_id:
            self.producers.add(header, base_offset=base_offset, timestamp=admitted.max_timestamp)
        return Appended(
            base_offset=base_offset,
            last_offset=base_offset + header.last_offset_delta,
            append_time_ms=now_ms if uses_append_time else NO_TIMESTAMP,
            start_offset=self.start_offset,
        )

    def _read(self, offset: int, max_bytes: int, min_one_batch: bool) -> bytes:
        index = self._index_of(offset)
        position = self._segments[index].position_of(offset)
        while position == self._segments[index].size:  # What was here is compacted away, so the next batch is read.
            index, position = index + 1, 0
            if index == len(self._segments):
                return b""
        if min_one_batch and max_bytes < self._segments[index].size - position:
            max_bytes = max(max_bytes, self._segments[index].batch_size(position))
        parts: list[bytes] = []
        for segment in self._segments[index:]:
            parts.append(segment.whole_batches(position, max_bytes))
            max_bytes -= len(parts[-1])
            if position + len(parts[-1]) < segment.size:
                break
            position = 0
        return b"".join(parts)

    def _repeat(self, original: AppendedBatch) -> Appended:
        return Appended(
            base_offset=original.base_offset,
            last_offset=original.last_offset,
            # UnifiedLog.append returns it too, whatever the topic's timestamp type is.
            append_time_ms=original.timestamp,
            start_offset=self.start_offset,
            is_duplicate=True,
        )

    def _roll_if_full(self, size: int, max_timestamp: int, now_ms: int) -> None:
        """Rolls under the conditions of LogSegment.shouldRoll and timeWaitedForRoll."""
        active, settings = self._segments[-1], self.settings
        if not active.size:
            return
        if active.first_timestamp > NO_TIMESTAMP:
            waited_ms = max_timestamp - active.first_timestamp
        else:
            waited_ms = now_ms - active.created_ms
        if active.size + size > settings.segment_bytes or waited_ms > settings.segment_ms:
            self._roll(now_ms)

    def _roll(self, now_ms: int) -> None:
        self._add_segment(self.end_offset, self._end_position, now_ms)

    def _add_segment(self, base_offset: int, log_position: int, now_ms: int) -> None:
        store = self._storage.make_segment(base_offset, self.producers)
        self._segments.append(Segment(base_offset, log_position=log_position, created_ms=now_ms, store=store))
        self._base_offsets.append(base_offset)

    def _delete_segments(self, count: int, now_ms: int) -> int:
        """Deletes the oldest `count` segments, possibly the active one too, and moves the log's start behind them."""
        if count == len(self._segments):
            self._roll(now_ms)
        for segment in self._segments[:count]:
            segment.delete()
        del self._segments[:count]
        del self._base_offsets[:count]
        self.start_offset = max(self.start_offset, self._base_offsets[0])
        return count

    def _count_before_start(self) -> int:
        # Kafka retains an active segment without readable records; here it would only take space.
        is_all_deleted = self.start_offset == self.end_offset and self._segments[-1].size > 0
        return len(self._segments) if is_all_deleted else self._index_of(self.start_offset)

    def _count_oversize(self) -> int:
        if self.settings.retention_bytes < 0:
            return 0
        excess, count = self.size - self.settings.retention_bytes, 0
        for segment in self._segments:
            excess -= segment.size
            if excess < 0 or not segment.size:
                break
            count += 1
        return count

    def _count_expired(self, now_ms: int) -> int:
        if self.settings.retention_ms < 0:
            return 0
        count = 0
        for segment in self._segments:
            # Records without timestamps are as old as the segment's last append (LogSegment.largestTimestamp).
            newest = segment.max_timestamp if segment.max_timestamp > NO_TIMESTAMP else segment.modified_ms
            if not segment.size or now_ms - newest <= self.settings.retention_ms:
                break
            count += 1
        return count


def _storage_error(done: str, error: OSError) -> Refused:
    return Refused(
        error=ErrorCode.kafka_storage_error, message=f"The records cannot be {done}: {error.strerror or error}"
    )
