"""Checks for committed offsets that lead nowhere (before the log starts, beyond its end, of a missing partition), or
soon will."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from kcoord.admin.doctor.case import Case, partition_facts, unread_records
from kcoord.admin.doctor.finding import Code, Finding, Severity
from kcoord.admin.durations import format_duration
from kcoord.admin.formatting import first_few, format_count, format_partitions
from kcoord.admin.groups.group_snapshot import PartitionLag
from kcoord.admin.model import Bounds, GroupType, TopicPartition

_NEAR: Final = 0.1  # the share of the retained time or records that may remain


def offset_before_log_start(case: Case) -> Iterable[Finding]:
    """Finds committed offsets before the log start: records were deleted before the group read them."""
    gone = {seen.tp: (offset, bounds) for seen, offset, bounds in _committed(case) if offset < bounds.start}
    if not gone:
        return
    lost = sum(bounds.start - offset for offset, bounds in gone.values())
    yield case.finding(
        Severity.ERROR,
        Code.OFFSET_BEFORE_LOG_START,
        f"deleted before the group read them: up to {format_count(lost, 'record')}",
        evidence=first_few(
            [
                f"{tp}: committed {offset:,}, but the log starts at {bounds.start:,}: {bounds.start - offset:,} lost"
                for tp, (offset, bounds) in gone.items()
            ]
        ),
        advice=(
            "The next fetch there is out of range: auto.offset.reset decides, and its default, latest, skips what is"
            " left as well. Reset these partitions to the start of the log (`kcoord offsets reset --to-earliest`, with"
            " the members stopped), and find out why the group was further behind than retention allows."
        ),
        lost=lost,
        partitions=_range_facts(gone),
    )


def offset_beyond_log_end(case: Case) -> Iterable[Finding]:
    """Finds committed offsets beyond the log end, where no record can be read."""
    beyond = {seen.tp: (offset, bounds) for seen, offset, bounds in _committed(case) if offset > bounds.end}
    if not beyond:
        return
    yield case.finding(
        Severity.ERROR,
        Code.OFFSET_BEYOND_LOG_END,
        f"beyond the end of the log: {format_count(len(beyond), 'committed offset')}",
        evidence=first_few(
            [
                f"{tp}: committed {offset:,}, but the log ends at {bounds.end:,}"
                for tp, (offset, bounds) in beyond.items()
            ]
        ),
        advice=(
            "The topic was deleted and made again, or its log was cut off (an unclean leader election, a restore from"
            " an older copy). Records up to the committed offset will be skipped or read again, as auto.offset.reset"
            " says. Decide where the group shall go on, and reset these partitions with `kcoord offsets reset`."
        ),
        partitions=_range_facts(beyond),
    )


def offset_near_retention(case: Case) -> Iterable[Finding]:
    """Finds committed offsets whose next records will soon be deleted by retention.ms or retention.bytes."""
    near = [near for each in _committed(case) if (near := _near_time(case, each.seen) or _near_bytes(case, each))]
    if not near:
        return
    yield case.finding(
        Severity.WARNING,
        Code.OFFSET_NEAR_RETENTION,
        f"unread records of {format_count(len(near), 'partition')} are about to be deleted",
        evidence=first_few([f"{each.tp}: {each.text}" for each in near]),
        advice=(
            "Give the topic more time, before records are lost: raise retention.ms or retention.bytes until the group"
            " has caught up (`kafka-configs --alter --entity-type topics`), and speed the group up."
        ),
        partitions=[partition_facts(each.tp, **each.facts) for each in near],
    )


def offset_of_missing_partition(case: Case) -> Iterable[Finding]:
    """Finds committed offsets of partitions that do not exist."""
    missing = [seen.tp for seen in case.last.seen.partitions if seen.committed and _is_missing(case, seen.tp)]
    if not missing:
        return
    topics = sorted({tp.topic for tp in missing} & case.facts.missing_topics)
    yield case.finding(
        Severity.WARNING,
        Code.OFFSET_OF_MISSING_PARTITION,
        f"{format_count(len(missing), 'committed offset')} of partitions that do not exist",
        evidence=[
            f"committed: {format_partitions(missing)}",
            *first_few([f"there is no topic {topic}" for topic in topics]),
        ],
        advice=(
            "If the topic comes back under the same name, the group goes on at these offsets and skips what is before"
            " them: remove them with `kcoord offsets delete`."
        ),
        partitions=[partition_facts(tp) for tp in missing],
    )


class _CommittedPartition(NamedTuple):
    seen: PartitionLag
    offset: int
    bounds: Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class _Near:
    tp: TopicPartition
    text: str
    facts: Mapping[str, object]


def _committed(case: Case) -> list[_CommittedPartition]:
    """Returns the committed partitions with known bounds. Share groups have none: the broker clamps their start offsets
    to the log."""
    if case.group.type is GroupType.SHARE:
        return []
    return [
        _CommittedPartition(seen, seen.committed.offset, seen.bounds)
        for seen in case.last.seen.partitions
        if seen.committed and seen.bounds
    ]


def _near_time(case: Case, seen: PartitionLag) -> _Near | None:
    """Warns by time. A record is deleted when all of its segment is older than retention.ms, so this is the earliest
    time."""
    retention = _retention_limit(case, seen.tp.topic, "retention.ms")
    if not retention or not seen.lag or seen.lag < 0 or seen.next_record_at is None or seen.next_record_at < 0:
        return None
    age, allowed = case.last.at - seen.next_record_at / 1000, retention / 1000
    if age < allowed * (1 - _NEAR):
        return None
    left = f"{format_duration(allowed - age)} are left" if age < allowed else "its time is over"
    old = f"the next record is {format_duration(age)} old, of {format_duration(allowed)} that retention.ms gives"
    return _Near(
        tp=seen.tp,
        text=f"{old}: {left}; lag {unread_records(seen):,}",
        facts={"lag": unread_records(seen), "next_record_age": age, "retention_ms": retention},
    )


def _near_bytes(case: Case, known: _CommittedPartition) -> _Near | None:
    """Warns by size. Sizes are unknown, so records stand for bytes. A log that still begins at 0 has never lost any."""
    seen, offset, (start, end) = known
    retention = _retention_limit(case, seen.tp.topic, "retention.bytes")
    ahead = offset - start
    if not retention or not seen.lag or start == 0 or not 0 <= ahead < (end - start) * _NEAR:
        return None
    text = f"{ahead:,} records before the next one will be deleted, of {end - start:,} that retention.bytes keeps"
    if seconds := _seconds_until_deleted(case, seen.tp, ahead):
        text += f"; at the pace of now it is reached in {format_duration(seconds)}"
    return _Near(
        tp=seen.tp,
        text=f"{text}; lag {seen.lag:,}",
        facts={"lag": seen.lag, "records_before": ahead, "retention_bytes": retention},
    )


def _seconds_until_deleted(case: Case, tp: TopicPartition, ahead: int) -> float | None:
    first = case.histories[tp][0].bounds
    last = case.histories[tp][-1].bounds
    if not case.span or not first or not last or last.start <= first.start:
        return None
    return ahead / (last.start - first.start) * case.span


def _retention_limit(case: Case, topic: str, name: str) -> int | None:
    """Returns a limit after which records are deleted; None if there is none, or it is unknown."""
    config = case.facts.topic_configs.get(topic, {})
    if "delete" not in config.get("cleanup.policy", "").split(","):
        return None
    try:
        limit = int(config.get(name, ""))
    except ValueError:
        return None
    return limit if limit > 0 else None


def _is_missing(case: Case, tp: TopicPartition) -> bool:
    topic = case.facts.topics.get(tp.topic)
    return tp.topic in case.facts.missing_topics or (topic is not None and tp.partition not in topic.leaders)


def _range_facts(partitions: Mapping[TopicPartition, tuple[int, Bounds]]) -> list[dict[str, object]]:
    return [
        partition_facts(tp, committed=offset, start=bounds.start, end=bounds.end)
        for tp, (offset, bounds) in partitions.items()
    ]
