"""Compares records to decide whether an offset means the same record in two logs. Pure.

An offset is right in another log if a consumer that continues there gets the very record that it would get at the
source. So the next records of both sides are compared: the first ones at the offset or after it, since transaction
markers are no records and compaction leaves gaps. If the source has no next record, because the group has read
everything, the last records before the offset are compared.

| source              | target                                  | verdict                                              |
|---------------------|-----------------------------------------|------------------------------------------------------|
| next record         | next record                             | the same or different, by time and checksum          |
| next record further | the same record at that very offset     | the same: compaction removed what was before it      |
| next record         | none                                    | different: it has not come yet, or is elsewhere      |
| last record only    | last record                             | the same or different                                |
| last record only    | nothing before the offset               | the same: nothing can be skipped                     |
| no record at all    | nothing before it, or both logs end here| the same: nothing can be skipped                     |
| no record at all    | anything else                           | unknown                                              |

Times are not compared if the target sets them itself (LogAppendTime), and headers never: mirrors add their own.
"""

from enum import Enum, auto
from typing import NamedTuple

from kcoord.admin.model import Bounds
from kcoord.admin.offsets.files.offset_lines import OffsetLine
from kcoord.admin.offsets.plans import Comparison, Verdict
from kcoord.admin.record_marks import RecordMark
from kcoord.admin.times import utc_text


class Origin(Enum):
    """Whether an offset of a file was committed for the log (the topic of one cluster) in which it is to be committed
    now."""

    SAME_LOG = auto()
    OTHER_LOG = auto()
    UNKNOWN_LOG = auto()


def origin_of(line: OffsetLine, *, cluster_id: str | None, topic_id: str | None) -> Origin:
    """Decides by cluster id and topic id whether the offset of a file's line was committed for this very log.

    A copy of a cluster's folders also has the ids of its topics. The cluster id alone is not enough: before Kafka 2.8 a
    topic has no id, and a topic that was deleted and created again is another log.
    """
    if line.cluster_id is not None and cluster_id is not None and line.cluster_id != cluster_id:
        return Origin.OTHER_LOG
    if line.topic_id is not None and topic_id is not None:
        return Origin.SAME_LOG if line.topic_id == topic_id else Origin.OTHER_LOG
    return Origin.UNKNOWN_LOG


class TargetRecords(NamedTuple):
    """The records of the target log that are compared with those at the source: the first at the offset or after it,
    the last before it, and the first at the offset of the source's next record or after that."""

    next: RecordMark | None = None
    last: RecordMark | None = None
    aligned: RecordMark | None = None


def compare(line: OffsetLine, *, at: int, bounds: Bounds, target: TargetRecords) -> Comparison:
    """Compares the records next to an offset at the source, as a file's line describes them, with those of the log in
    which the offset `at` is to be committed for it."""
    if line.next_record is not None:
        return _compare_next(line, line.next_record, at, bounds, target)
    if line.last_record is not None:
        return _compare_last(line.last_record, at, bounds, target)
    return _compare_without_records(line, at, bounds)


def not_compared(line: OffsetLine, why: str) -> Comparison:
    """Returns the comparison (of unknown verdict) for a line whose target records could not be read, and why."""
    source = line.next_record or line.last_record
    return Comparison(verdict=Verdict.UNKNOWN, reason=f"the target's records could not be read: {why}", source=source)


def _compare_next(line: OffsetLine, source: RecordMark, at: int, bounds: Bounds, target: TargetRecords) -> Comparison:
    if target.next is None:
        reason = _format_missing(line, source, at, target.last)
        return Comparison(verdict=Verdict.DIFFERENT, reason=reason, source=source, target=target.last)
    compared = _compare_marks(source, target.next, "the next record")
    aligned = target.aligned
    if compared.verdict is Verdict.DIFFERENT and aligned is not None and aligned.offset == source.offset:
        same = _compare_marks(source, aligned, "the next record")
        return same if same.verdict is Verdict.SAME else compared
    return compared


def _format_missing(line: OffsetLine, source: RecordMark, at: int, last: RecordMark | None) -> str:
    """Explains why the target has no next record, by the time of its last one: it is not there yet, or before the
    offset."""
    left = f" and the source has {line.bounds.end - line.committed.offset:,} to read" if line.bounds else ""
    missing = f"the target has no record from {at} on{left}"
    times = (source.timestamp, last.timestamp if last and not last.is_append_time else None)
    if times[0] is None or times[1] is None:
        return missing
    of = f"the target's last record is of {utc_text(times[1])}, the source's next of {utc_text(times[0])}"
    follows = "records would be skipped" if times[0] <= times[1] else "the target does not have it yet"
    return f"{missing}; {of}: {follows}"


def _compare_last(source: RecordMark, at: int, bounds: Bounds, target: TargetRecords) -> Comparison:
    if target.last is not None:
        return _compare_marks(source, target.last, "the last record before it")
    if at <= bounds.start:
        reason = f"the target has nothing before {at}, so that nothing is skipped there"
        return Comparison(verdict=Verdict.SAME, reason=reason, source=source)
    return Comparison(verdict=Verdict.UNKNOWN, reason=f"the target has no record shortly before {at}", source=source)


def _compare_without_records(line: OffsetLine, at: int, bounds: Bounds) -> Comparison:
    if line.bounds is None or line.bounds.start < line.bounds.end or line.committed.offset != line.bounds.end:
        return Comparison(verdict=Verdict.UNKNOWN, reason="the record there is not known where the offset comes from")
    if at <= bounds.start or at == bounds.end == line.bounds.end:
        reason = "the log is empty where the offset comes from, and nothing can be skipped here"
        return Comparison(verdict=Verdict.SAME, reason=reason)
    return Comparison(verdict=Verdict.UNKNOWN, reason="the log is empty where the offset comes from")


def _compare_marks(source: RecordMark, target: RecordMark, what: str) -> Comparison:
    are_times_known = source.timestamp is not None and target.timestamp is not None and not target.is_append_time
    are_checksums_known = source.checksum is not None and target.checksum is not None
    if are_times_known and source.timestamp != target.timestamp:
        verdict, reason = Verdict.DIFFERENT, _format_times(source, target, what)
    elif are_checksums_known and source.checksum != target.checksum:
        verdict, reason = Verdict.DIFFERENT, f"{what} has another key or value on the target, offset {target.offset}"
    elif are_times_known and are_checksums_known:
        verdict, reason = Verdict.SAME, ""
    elif are_times_known:
        verdict, reason = Verdict.SAME, "only the time of the record was compared: its content is not known"
    elif are_checksums_known:
        verdict, reason = Verdict.SAME, "only the content of the record was compared: its times cannot be"
    else:
        verdict, reason = Verdict.UNKNOWN, "neither times nor contents of the records can be compared"
    return Comparison(verdict=verdict, reason=reason, source=source, target=target)


def _format_times(source: RecordMark, target: RecordMark, what: str) -> str:
    assert source.timestamp is not None
    assert target.timestamp is not None
    follows = "records would be skipped" if source.timestamp < target.timestamp else "records would be read again"
    here, there = utc_text(source.timestamp), utc_text(target.timestamp)
    return f"{what} is of {here} on the source and of {there} on the target: {follows}"
