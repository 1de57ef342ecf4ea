"""The times of the records at offsets, from the batches that a fetch brings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcoord.wire.batches import NO_TIMESTAMP, BadBatch, Batch, split
from kcoord.wire.records import plain_records, read_deltas, skip_records


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """What one fetch told: the time of the first record at each offset or after it, None for records that have none;
    and where to look on for the offsets that are not among them."""

    times: Mapping[int, int | None]
    end: int


def sweep(fetched: bytes | None, offsets: Sequence[int]) -> Sweep:
    """Of offsets in ascending order, those that whole batches in there answer for.

    A fetch begins with the batch that its offset is in, and may end in a part of one. Transactions' markers are no
    records; aborted records are, as they are to the count of lag. Formats before v2 are not read.
    """
    times: dict[int, int | None] = {}
    end = offsets[0]
    try:
        for batch in split(fetched or b""):
            left = offsets[len(times) :]
            if not left:
                break
            if not batch.header.is_control and batch.header.last_offset >= left[0]:
                _look_into(batch, left, times)
            end = max(end, batch.header.last_offset + 1)
    except BadBatch:
        pass  # what was read before it stands
    return Sweep(times=times, end=end)


def _look_into(batch: Batch, offsets: Sequence[int], times: dict[int, int | None]) -> None:
    header = batch.header
    plain = plain_records(batch)
    is_whole = header.record_count == header.last_offset - header.base_offset + 1  # compaction has taken none away
    place = position = 0
    for offset in offsets:
        if offset > header.last_offset:
            return
        if is_whole and offset - header.base_offset > place:
            position = skip_records(plain, position, offset - header.base_offset - place)
            place = offset - header.base_offset
        while place < header.record_count:
            offset_delta, timestamp_delta, end = read_deltas(plain, position)
            if offset <= header.base_offset + offset_delta:
                break
            place, position = place + 1, end
        else:
            return
        time = header.max_timestamp if header.uses_append_time else header.base_timestamp + timestamp_delta
        times[offset] = None if time == NO_TIMESTAMP else time
