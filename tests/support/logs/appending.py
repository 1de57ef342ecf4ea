"""Runs sliced work to its end at once."""

from typing import TypeVar

from kcoord.broker.log.batch_validation import Admitted, Allowance, LogSettings, Refused
from kcoord.broker.log.batch_validation import admit as admit_in_slices
from kcoord.broker.log.partition_log import Appended, PartitionLog, TimestampOffset
from kcoord.broker.log.slices import Effort, Slices
from kcoord.protocol.records.batch import Batch, CorruptBatch

T = TypeVar("T")


def at_once(slices: Slices[T]) -> T:
    """Returns the result, with all the work done now."""
    try:
        asked = next(slices)
        while True:
            try:
                plain = asked.run() if asked is not None else None
            except CorruptBatch as bad:
                asked = slices.throw(bad)
            else:
                asked = slices.send(plain)
    except StopIteration as end:
        reply: T = end.value
        return reply


def admit(batch: Batch, settings: LogSettings, now_ms: int, allowance: Allowance) -> int | Refused:
    """Returns the largest timestamp that the batch gets, or why the log must not append it."""
    outcome = at_once(admit_in_slices(batch, settings, now_ms, allowance))
    return outcome.max_timestamp if isinstance(outcome, Admitted) else outcome


def append_at_once(log: PartitionLog, batch: Batch, now_ms: int) -> Appended | Refused:
    admitted = at_once(log.admit(batch, now_ms, Allowance()))
    return log.append(batch, admitted, now_ms) if isinstance(admitted, Admitted) else admitted


def offset_for_timestamp(log: PartitionLog, timestamp: int) -> TimestampOffset | None:
    return at_once(log.offset_for_timestamp(timestamp, Effort()))


def offset_of_max_timestamp(log: PartitionLog) -> TimestampOffset | None:
    return at_once(log.offset_of_max_timestamp(Effort()))
