"""A log that cannot be used because of what was found on disk: nothing is read from it, and nothing is changed."""

from collections.abc import Sequence

from kcoord.broker.log.batch_validation import Admitted, Allowance
from kcoord.broker.log.partition_log import Appended, LogSettings, PartitionLog, Refused, TimestampOffset
from kcoord.broker.log.slices import Effort, Slices
from kcoord.broker.log.storage import LogStorage
from kcoord.errors import ErrorCode
from kcoord.protocol.records.batch import Batch


class FailedLog(PartitionLog):
    """The partition log of a partition whose files were found corrupt or unreadable. Every request gets
    KAFKA_STORAGE_ERROR; only deleting its topic is possible.
    """

    is_failed = True

    def __init__(self, name: str, settings: LogSettings, *, storage: LogStorage, reason: str) -> None:
        super().__init__(name, settings, now_ms=0)
        self._refused = Refused(error=ErrorCode.kafka_storage_error, message=f"The log has failed: {reason}")
        self._storage = storage

    def admit(self, batch: Batch, now_ms: int, allowance: Allowance) -> Slices[Admitted | Refused]:
        """Refuses the batch with KAFKA_STORAGE_ERROR."""
        yield from ()
        return self._refused

    def append(self, batch: Batch, admitted: Admitted, now_ms: int) -> Appended | Refused:
        """Refuses the batch with KAFKA_STORAGE_ERROR."""
        return self._refused

    def append_internal(self, batches: Sequence[Batch], now_ms: int) -> int | Refused:
        """Refuses the batches with KAFKA_STORAGE_ERROR."""
        return self._refused

    def read(self, offset: int, *, max_bytes: int, min_one_batch: bool = False) -> bytes | Refused:
        """Refuses the read with KAFKA_STORAGE_ERROR."""
        return self._refused

    def offset_for_timestamp(self, timestamp: int, effort: Effort) -> Slices[TimestampOffset | None]:
        """Raises OSError: nothing can be read."""
        raise OSError(self._refused.message)

    def offset_of_max_timestamp(self, effort: Effort) -> Slices[TimestampOffset | None]:
        """Raises OSError: nothing can be read."""
        raise OSError(self._refused.message)

    def delete_records(self, before_offset: int, now_ms: int) -> int | Refused:
        """Refuses DeleteRecords with KAFKA_STORAGE_ERROR."""
        return self._refused

    def enforce_retention(self, now_ms: int) -> int:
        """Deletes nothing and returns 0."""
        return 0
