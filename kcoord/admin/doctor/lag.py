"""Checks for lag that grows, and for partitions that nobody commits.

Commits come every few seconds, so lag goes up and down between two of them. It counts as growing if it grew by more
than what was written in one default commit interval; that takes snapshots over some time (`--for`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from kcoord.admin.doctor.case import Case, member_facts, partition_facts, unread_records
from kcoord.admin.doctor.finding import Code, Finding, Severity
from kcoord.admin.durations import format_duration
from kcoord.admin.formatting import first_few, format_count, format_member, format_partitions, rate_text
from kcoord.admin.groups.group_snapshot import PartitionLag, sum_known
from kcoord.admin.groups.rates import COMMIT_INTERVAL
from kcoord.admin.model import GroupType, Member, TopicPartition

_STALLED_SECONDS: Final = 60.0  # seconds without a commit; processing an ordinary batch of records takes less


def lag_growing(case: Case) -> Iterable[Finding]:
    """Finds groups whose members work, and yet fall behind. Figures are of all owned partitions, also of those without
    a commit."""
    if not case.group.members:
        return
    still = {each.tp for each in _stalled(case)}
    owned = _measurable_partitions(case)
    moving = _growth(case, [tp for tp in owned if tp not in still])
    if moving is None:
        return
    whole = _growth(case, owned)
    growth = whole or moving
    uncounted = [seen for seen in case.last.seen.partitions if seen.owner and seen.tp not in owned]
    is_whole = whole is not None and not uncounted
    yield case.finding(
        Severity.WARNING,
        Code.LAG_GROWING,
        f"{'the group' if is_whole else _some_partitions(case, growth)} falls behind by {rate_text(growth.rate)}",
        evidence=[
            *growth.evidence(),
            *(
                [f"no commit meanwhile, their owner reads others first: {format_partitions(rest)}"]
                if (rest := _waiting_for_owner(case))
                else []
            ),
            *_uncounted_evidence(case, uncounted),
        ],
        advice=(
            "The members are too slow, or too few: look at what they spend their time on (their own metrics tell,"
            " poll-idle-ratio-avg first), then add members, up to the number of partitions, or partitions. If the"
            " growth is in few partitions only, look at their owners, or at keys that are too common."
        ),
        **growth.facts(),
    )


def no_members(case: Case) -> Iterable[Finding]:
    """Finds groups with lag and without members; a warning if the lag grows."""
    waiting = sum_known(map(unread_records, case.last.seen.partitions)) or 0
    if case.group.members or case.group.state != "Empty" or waiting == 0 or _has_standalone_commits(case):
        return
    growth = _growth(case, _measurable_partitions(case))
    yield case.finding(
        Severity.WARNING if growth else Severity.NOTICE,
        Code.NO_MEMBERS,
        f"nobody consumes: {format_count(waiting, 'record')} waiting" + (", more each second" if growth else ""),
        evidence=growth.evidence() if growth else [f"the group is {case.group.state}; total lag {waiting:,}"],
        advice=(
            "Start its members. If the group is not used any more, `kcoord groups delete` removes it; otherwise its"
            " offsets expire offsets.retention.minutes (seven days unless set) after its last member left."
        ),
        lag=waiting,
        **(growth.facts() if growth else {}),
    )


def commits_stalled(case: Case) -> Iterable[Finding]:
    """Finds partitions whose committed offset does not move: with the same owner all the time, behind from the
    beginning, written to, and without a commit."""
    still = _stalled(case)
    if not still:
        return
    severity = Severity.ERROR if case.span >= _STALLED_SECONDS else Severity.WARNING
    yield case.finding(
        severity,
        Code.COMMITS_STALLED,
        f"{format_count(len(still), 'partition')} with an owner had no commit in {format_duration(case.span)}",
        evidence=first_few([each.line() for each in still]),
        advice=_stalled_advice(case, still),
        partitions=[each.facts() for each in still],
    )


def nothing_committed(case: Case) -> Iterable[Finding]:
    """Finds owned partitions without a committed offset; only a notice in one snapshot: a new member has not committed
    yet."""
    if not case.is_stable:
        return
    slow = _slow_owners(case) if case.is_observed_long_enough else set()  # they will reach others later
    never = [
        seen
        for seen in case.last.seen.partitions
        if all(_is_uncommitted(each) for each in case.histories[seen.tp])
        and not (seen.owner and seen.owner.member_id in slow)
    ]
    if not never:
        return
    owners = {seen.owner.member_id: seen.owner for seen in never if seen.owner}
    yield case.finding(
        Severity.WARNING if case.is_observed_long_enough else Severity.NOTICE,
        Code.NOTHING_COMMITTED,
        f"no committed offset of {format_count(len(never), 'partition')} with records and an owner",
        evidence=[
            f"not committed: {format_partitions(seen.tp for seen in never)}",
            *first_few([f"owned by {format_member(member)}" for member in owners.values()]),
            *([f"seen so for {format_duration(case.span)}"] if case.span else []),
        ],
        advice=(
            "If the owner commits by hand (enable.auto.commit=false), see whether it does. Without a committed offset"
            " the next owner starts where auto.offset.reset says: at the end it skips records, at the beginning it"
            " reads all of them again. Applications that keep offsets elsewhere can ignore this."
        ),
        partitions=[partition_facts(seen.tp, **_bounds_facts(seen)) for seen in never],
    )


def abandoned_topic(case: Case) -> Iterable[Finding]:
    """Finds committed offsets of topics that the group no longer reads: they make its total lag grow forever."""
    if not case.is_stable or case.subscribers is None or any(m.subscribed_regex for m in case.group.members):
        return
    left = [
        seen
        for seen in case.last.seen.partitions
        if seen.owner is None and seen.committed and seen.tp.topic not in case.subscribed and seen.bounds
    ]
    if not left:
        return
    topics = sorted({seen.tp.topic for seen in left})
    lag = sum_known(map(unread_records, left)) or 0
    yield case.finding(
        Severity.NOTICE,
        Code.ABANDONED_TOPIC,
        f"offsets of {format_count(len(topics), 'topic')} that no member subscribes to",
        evidence=[f"committed, not subscribed: {format_partitions(seen.tp for seen in left)}", f"lag there: {lag:,}"],
        advice=(
            "If the group does not read these topics any more, `kcoord offsets delete` removes their offsets, so that"
            " they no longer count as lag. Brokers remove them too, offsets.retention.minutes after the last commit."
        ),
        topics=topics,
        lag=lag,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Growth:
    """How much the lag of some partitions grew, in how many seconds."""

    before: int
    after: int
    seconds: float
    produced: int
    consumed: int
    counted: int  # how many partitions
    worst: tuple[tuple[TopicPartition, int], ...]  # by how much each grew

    @property
    def rate(self) -> float:
        return (self.after - self.before) / self.seconds

    def evidence(self) -> list[str]:
        return [
            f"lag {self.before:,} → {self.after:,} in {format_duration(self.seconds)},"
            f" {format_count(self.counted, 'partition')} together",
            f"written {rate_text(self.produced / self.seconds)}, consumed {rate_text(self.consumed / self.seconds)}",
            *first_few([f"{tp}: +{grown:,}" for tp, grown in self.worst], limit=5),
        ]

    def facts(self) -> dict[str, object]:
        return {
            "seconds": self.seconds,
            "lag_before": self.before,
            "lag_after": self.after,
            "growth_per_second": self.rate,
            "produced_per_second": self.produced / self.seconds,
            "consumed_per_second": self.consumed / self.seconds,
            "partitions": [partition_facts(tp, grown=grown) for tp, grown in self.worst],
        }


def _measurable_partitions(case: Case) -> list[TopicPartition]:
    """Returns the partitions whose lag is known in the first and the last snapshot; if there are members, only owned
    ones."""
    known = {seen.tp for seen in case.first.seen.partitions if seen.lag is not None}
    return [
        seen.tp
        for seen in case.last.seen.partitions
        if seen.lag is not None and seen.tp in known and (seen.owner or not case.group.members)
    ]


def _growth(case: Case, partitions: Iterable[TopicPartition]) -> _Growth | None:
    """Returns the growth of the lag; None unless it is more than a commit interval explains."""
    if not case.is_observed_long_enough:
        return None
    first, last = _by_tp(case.first.seen.partitions), _by_tp(case.last.seen.partitions)
    pairs = [(first[tp], last[tp]) for tp in partitions]
    before, after = (
        sum_known(unread_records(old) for old, _ in pairs) or 0,
        sum_known(unread_records(new) for _, new in pairs) or 0,
    )
    produced = sum(new.bounds.end - old.bounds.end for old, new in pairs if old.bounds and new.bounds)
    explained = produced * min(1.0, COMMIT_INTERVAL / case.span)
    if after - before <= explained:
        return None
    grown = {new.tp: max(0, unread_records(new) or 0) - max(0, unread_records(old) or 0) for old, new in pairs}
    committed = [new.committed.offset - old.committed.offset for old, new in pairs if old.committed and new.committed]
    return _Growth(
        before=before,
        after=after,
        seconds=case.span,
        produced=produced,
        consumed=sum(records for records in committed if records > 0),  # offsets that moved back count as nothing
        counted=len(pairs),
        worst=tuple(sorted(((tp, more) for tp, more in grown.items() if more > 0), key=lambda each: -each[1])),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _StalledPartition:
    """A partition whose owner does not commit."""

    tp: TopicPartition
    committed: int
    written: int  # records written meanwhile
    lag: int
    owner: Member

    def line(self) -> str:
        return (
            f"{self.tp}: committed {self.committed:,} all the time, {format_count(self.written, 'record')} written"
            f" meanwhile, lag {self.lag:,}; {format_member(self.owner)}"
        )

    def facts(self) -> dict[str, object]:
        owner = member_facts(self.owner)
        return partition_facts(self.tp, committed=self.committed, written=self.written, lag=self.lag, owner=owner)


def _stalled(case: Case) -> list[_StalledPartition]:
    """Returns the partitions whose owners do not commit them, without those that only wait for a slow owner."""
    still = _uncommitted(case)
    slow = _slow_owners(case) if still else set()
    return [each for each in still if each.owner.member_id not in slow]


def _waiting_for_owner(case: Case) -> list[TopicPartition]:
    still = _uncommitted(case)
    slow = _slow_owners(case) if still else set()
    return [each.tp for each in still if each.owner.member_id in slow]


def _slow_owners(case: Case) -> set[str]:
    """Returns the members that commit some partition and are still behind there.

    A consumer processes what it fetched of one partition before it continues with the next, so that a slow one does not
    commit the others for minutes. One that has caught up elsewhere could have reached them.
    """
    return {
        last.owner.member_id
        for first, last in _advanced(case)
        if last.owner and (unread_records(last) or 0) > _written(first, last) * min(1.0, COMMIT_INTERVAL / case.span)
    }


def _advanced(case: Case) -> list[tuple[PartitionLag, PartitionLag]]:
    """Returns the first and last state of partitions whose committed offset advanced between them."""
    ends = [(history[0], history[-1]) for history in case.histories.values()]
    return [
        (first, last)
        for first, last in ends
        if first.committed and last.committed and last.committed.offset > first.committed.offset
    ]


def _written(first: PartitionLag, last: PartitionLag) -> int:
    return last.bounds.end - first.bounds.end if first.bounds and last.bounds else 0


def _stalled_advice(case: Case, still: Sequence[_StalledPartition]) -> str:
    """Returns advice; whether an owner commits other partitions decides where to search."""
    committing = {last.owner.member_id for _, last in _advanced(case) if last.owner}
    end = "Look at its logs and a thread dump"
    if all(each.owner.member_id in committing for each in still):
        return (
            "The owner commits its other partitions and has caught up there, but gets no further here: it may have"
            f" paused the partition, or fail at one record of it again and again. {end}."
        )
    return (
        "The owner lives (it sends heartbeats) but does not commit: it may hang in its work on one batch or one"
        " record, retry something for ever, have paused the partition, or commit by hand and never come to it."
        f" {end}; after max.poll.interval.ms without a poll it will be removed."
    )


def _some_partitions(case: Case, growth: _Growth) -> str:
    owned = sum(seen.owner is not None for seen in case.last.seen.partitions)
    return f"a part of the group ({growth.counted:,} of {format_count(owned, 'partition')})"


def _uncounted_evidence(case: Case, uncounted: Sequence[PartitionLag]) -> Iterable[str]:
    """Explains why the lag of some partitions is unknown: their owner has not reached them yet, or another reason."""
    slow = _slow_owners(case)
    waiting = [seen.tp for seen in uncounted if seen.owner and seen.owner.member_id in slow and not seen.committed]
    unknown = [seen.tp for seen in uncounted if seen.tp not in waiting]
    if waiting:
        yield f"not counted, their owner reads others first and has never committed them: {format_partitions(waiting)}"
    if unknown:
        yield f"not counted, their lag is not known: {format_partitions(unknown)}"


def _uncommitted(case: Case) -> list[_StalledPartition]:
    if not case.is_observed_long_enough or case.group.type is GroupType.SHARE:
        return []
    everywhere = (history for history in case.histories.values() if len(history) == len(case.observations))
    return [still for history in everywhere if (still := _stalled_partition(history))]


def _stalled_partition(history: Sequence[PartitionLag]) -> _StalledPartition | None:
    """Returns the partition if it is stalled: behind in the first snapshot already, so that there was something to
    commit all the time.

    The end must have moved, too: a consumer may never commit past the transaction markers at the end of a log.
    """
    first, last = history[0], history[-1]
    if not (first.bounds and last.bounds and last.committed and last.owner and last.lag and first.lag):
        return None
    owners = {each.owner.member_id if each.owner else None for each in history}
    committed = {each.committed.offset if each.committed else None for each in history}
    written = last.bounds.end - first.bounds.end
    if len(owners) > 1 or len(committed) > 1 or first.lag < 0 or written <= 0:
        return None
    left = unread_records(last) or 0
    return _StalledPartition(tp=last.tp, committed=last.committed.offset, written=written, lag=left, owner=last.owner)


def _has_standalone_commits(case: Case) -> bool:
    """Whether consumers with a manual assignment commit: the group stays Empty then."""
    return any(len({each.committed for each in history}) > 1 for history in case.histories.values())


def _is_uncommitted(seen: PartitionLag) -> bool:
    return (
        seen.owner is not None
        and seen.committed is None
        and seen.bounds is not None
        and seen.bounds.end > seen.bounds.start
    )


def _bounds_facts(seen: PartitionLag) -> dict[str, int]:
    return {"start": seen.bounds.start, "end": seen.bounds.end} if seen.bounds else {}


def _by_tp(partitions: Iterable[PartitionLag]) -> dict[TopicPartition, PartitionLag]:
    return {seen.tp: seen for seen in partitions}
