"""Compares strategies over the recorded history of a group, as it was and as it would have been."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from kcoord.assignors.replaying.absences import (
    Absence,
    Avoided,
    Without,
    find_absences,
    if_members_were_static,
    if_sessions_lasted,
)
from kcoord.assignors.replaying.changes import Change, changes_of
from kcoord.assignors.replaying.recording import Recording
from kcoord.assignors.replaying.replay import DEFAULT_HEARTBEAT_MS, Cost, Total, recorded_costs, replay
from kcoord.assignors.strategies import STRATEGIES

STATIC_MEMBERS: Final = "static members"
SESSION_TIMEOUT: Final = "session timeout"


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question about a history: which strategies, which rebalances by the time of their end (in milliseconds since
    1970, `until_ms` not included), and with which assumptions."""

    strategies: tuple[str, ...] = tuple(STRATEGIES)
    since_ms: int | None = None
    until_ms: int | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    """Numbers of partitions, by topic, that are known from elsewhere than the assignments."""
    session_timeout_ms: int | None = None
    heartbeat_ms: int = DEFAULT_HEARTBEAT_MS

    def includes(self, at_ms: int | None) -> bool:
        """Whether it is asked about this time. An unknown time is in no bounded time."""
        if at_ms is None:
            return self.since_ms is None and self.until_ms is None
        return (self.since_ms is None or at_ms >= self.since_ms) and (self.until_ms is None or at_ms < self.until_ms)


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """What a strategy would have cost, change by change and in all."""

    strategy: str
    costs: tuple[Cost, ...]
    total: Total


@dataclass(frozen=True, slots=True, kw_only=True)
class WhatIf:
    """What strategies would have cost if some absences had gone unnoticed, and which rebalances would not have happened
    then. `session_timeout_ms` is None if members have the session timeouts that were recorded. `unread_partition_ms` is
    how long the partitions of members that were away would have been read by nobody, all together: no row counts it."""

    name: str
    session_timeout_ms: int | None
    avoided: tuple[Avoided, ...]
    replayed: tuple[Replayed, ...]
    unread_partition_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryComparison:
    """The history of one group compared: what its rebalances cost, what each strategy would have cost, and what-ifs.
    `counts` are the numbers of partitions at the end."""

    group: str
    protocols: tuple[str, ...]
    counts: Mapping[str, int]
    absences: tuple[Absence, ...]
    recorded: Replayed
    replayed: tuple[Replayed, ...]
    what_ifs: tuple[WhatIf, ...]


def compare_history(
    recording: Recording, question: Question, on_strategy: Callable[[], None] = lambda: None
) -> HistoryComparison:
    """Returns what the group's recorded history cost, and what it would have cost under each strategy. It calls
    `on_strategy` when a strategy has been replayed. Raises WrongCount."""
    changes = changes_of(recording.generations, question.counts)
    variants = list(_variants(changes, question))
    rows: list[tuple[Replayed, ...]] = []
    for strategy in question.strategies:
        rows.append(tuple(_replays(strategy, changes, variants, question)))
        on_strategy()
    replayed, *what_ifs = zip(*rows, strict=True)
    return HistoryComparison(
        group=recording.group,
        protocols=recording.protocols,
        counts=next((each.counts for each in reversed(changes) if each.members), question.counts),
        absences=_asked_about(question, find_absences(changes), changes),
        recorded=_replayed("recorded", recorded_costs(changes), question),
        replayed=replayed,
        what_ifs=tuple(
            _what_if(name, without, costs, question, changes)
            for (name, without), costs in zip(variants, what_ifs, strict=True)
        ),
    )


def _variants(changes: Sequence[Change], question: Question) -> Iterator[tuple[str, Without]]:
    timeout = question.session_timeout_ms
    yield STATIC_MEMBERS, if_members_were_static(changes, timeout)
    if timeout is not None:
        yield SESSION_TIMEOUT, if_sessions_lasted(changes, timeout)


def _what_if(
    name: str, without: Without, replayed: tuple[Replayed, ...], question: Question, changes: Sequence[Change]
) -> WhatIf:
    return WhatIf(
        name=name,
        session_timeout_ms=question.session_timeout_ms,
        avoided=tuple(each for each in without.avoided if question.includes(each.change.first.written_ms)),
        replayed=replayed,
        unread_partition_ms=sum(
            each.unread_partition_ms for each in _asked_about(question, without.unnoticed, changes)
        ),
    )


def _asked_about(question: Question, absences: Iterable[Absence], changes: Sequence[Change]) -> tuple[Absence, ...]:
    return tuple(each for each in absences if question.includes(changes[each.came].first.written_ms))


def _replays(
    strategy: str, changes: Sequence[Change], variants: Iterable[tuple[str, Without]], question: Question
) -> Iterator[Replayed]:
    """Yields what a strategy would have cost over the changes as they were, and over those of each what-if."""
    as_it_was = _replay(strategy, changes, question)
    yield as_it_was
    for _, without in variants:
        yield _replay(strategy, without.changes, question) if without.avoided else as_it_was


def _replay(strategy: str, changes: Iterable[Change], question: Question) -> Replayed:
    return _replayed(strategy, replay(changes, STRATEGIES[strategy], heartbeat_ms=question.heartbeat_ms), question)


def _replayed(strategy: str, costs: Iterable[Cost], question: Question) -> Replayed:
    asked = tuple(each for each in costs if question.includes(each.at_ms))
    return Replayed(strategy=strategy, costs=asked, total=Total.of(asked))
