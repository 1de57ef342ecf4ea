"""The changes that a group went through: what made it rebalance, whichever strategy its members had voted for.

| kind       | what was recorded                                                                    | counts         |
|------------|--------------------------------------------------------------------------------------|----------------|
| beginning  | the first record, if the group is older than it: what was before is not known        | no             |
| changed    | other members, other subscriptions, or more partitions than before                   | yes            |
| unexplained| a new generation with the same members, subscriptions and partitions                 | yes            |
| returned   | the same generation with another member id: a static member came back                | no             |
| emptied    | the last member was gone, or the group was deleted: nobody is left who could pause   | no             |

The second rebalance of a cooperative strategy is no change: it hands over what the first one has taken away, and it
belongs to the change that the first one was for. Another strategy may need it or not.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeAlias

from kcoord.assignors.plan import Partition
from kcoord.assignors.replaying.recording import Generation, RecordedMember, grown_counts
from kcoord.assignors.strategies import RebalanceStyle
from kcoord.exceptions import InvalidInput

Subscriptions: TypeAlias = dict[str, frozenset[str]]  # the topics of each member, by its identity


class ChangeKind(StrEnum):
    """What happened to a group, as the table of this module says."""

    BEGINNING = "beginning"
    CHANGED = "changed"
    UNEXPLAINED = "unexplained"
    RETURNED = "returned"
    EMPTIED = "emptied"

    @property
    def is_rebalance(self) -> bool:
        """Whether the members of a classic group had to join again."""
        return self in (ChangeKind.CHANGED, ChangeKind.UNEXPLAINED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change of a group: who is in it from then on, how many partitions topics have, and how long the recorded
    rebalance took, if that is known.

    `recorded` are the generations that it consisted of, which is more than one if a cooperative strategy handed
    partitions over.
    """

    kind: ChangeKind
    members: tuple[RecordedMember, ...]
    counts: Mapping[str, int]
    recorded: tuple[Generation, ...] = ()

    @property
    def first(self) -> Generation:
        """The generation that the change began with."""
        return self.recorded[0]

    @property
    def joined_ms(self) -> int | None:
        """When the last member had joined, or else when it was written."""
        return self.first.written_ms if self.first.joined_ms is None else self.first.joined_ms


class WrongCount(InvalidInput, ValueError):
    """Raised if a topic is said to have fewer partitions than were assigned."""


def changes_of(generations: Sequence[Generation], known_counts: Mapping[str, int] | None = None) -> list[Change]:
    """Returns the changes that a group went through. `known_counts` are numbers of partitions that are known from
    elsewhere; those of other topics come from the assignments. Raises WrongCount."""
    _check_counts(known_counts or {}, grown_counts({}, generations))
    found: list[Change] = []
    owned: set[Partition] = set()  # by anybody, since the group was last empty
    for change in _raw_changes(generations):
        if found and _is_handover(found[-1], change.first, owned):
            found[-1] = replace(found[-1], recorded=(*found[-1].recorded, *change.recorded))
        else:
            found.append(change)
        owned = owned.union(change.first.owners) if change.members else set()
    return list(_with_counts(found, known_counts or {}))


def subscriptions_of(members: Iterable[RecordedMember]) -> Subscriptions:
    """Returns who is in a group, and what each of them subscribes to."""
    return {each.identity: frozenset(each.topics) for each in members}


def _check_counts(known: Mapping[str, int], assigned: Mapping[str, int]) -> None:
    for topic, count in known.items():
        if count < assigned.get(topic, 0):
            raise WrongCount(f"{topic} has {count} partitions, but {assigned[topic] - 1} was assigned: it has more")


def _raw_changes(generations: Sequence[Generation]) -> Iterator[Change]:
    """Yields a change for each generation that says something new. Whether it was explained is not known yet."""
    before: Generation | None = None
    for each in generations:
        kind = _kind(before, each)
        if kind is not None:
            yield Change(kind=kind, members=each.members, counts={}, recorded=(each,))
        before = each


def _kind(before: Generation | None, now: Generation) -> ChangeKind | None:
    if not now.members:
        return ChangeKind.EMPTIED if before is not None and before.members else None
    if before is None:
        is_new = now.has_beginning or (now.number is not None and now.number <= 1)
        return ChangeKind.CHANGED if is_new else ChangeKind.BEGINNING
    if now.number == before.number and before.members:
        is_same = {each.member_id for each in now.members} == {each.member_id for each in before.members}
        return None if is_same else ChangeKind.RETURNED
    is_changed = subscriptions_of(now.members) != subscriptions_of(before.members)
    return ChangeKind.CHANGED if is_changed else ChangeKind.UNEXPLAINED


def _is_handover(before: Change, now: Generation, owned: set[Partition]) -> bool:
    """Whether a generation only gives to members what a cooperative rebalance has taken from others before."""
    last = before.recorded[-1]
    if now.rebalance_style is not RebalanceStyle.COOPERATIVE or now.number == last.number:
        return False
    if subscriptions_of(now.members) != subscriptions_of(last.members):
        return False
    given = now.owners.keys() - last.owners.keys()
    is_beginning = before.kind is ChangeKind.BEGINNING  # what it took away may have been owned before the log
    return bool(given) and (is_beginning or given <= owned)


def _with_counts(changes: Iterable[Change], known: Mapping[str, int]) -> Iterator[Change]:
    """Adds the numbers of partitions, and tells the changes that these explain from those that nothing explains."""
    counts: dict[str, int] = {}
    for change in changes:
        before, counts = counts, grown_counts(counts, change.recorded)
        is_grown = any(before.get(topic) != count for topic, count in counts.items() if topic not in known)
        kind = ChangeKind.CHANGED if change.kind is ChangeKind.UNEXPLAINED and is_grown else change.kind
        yield replace(change, kind=kind, counts={**counts, **known})
