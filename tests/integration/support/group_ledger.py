"""The ledger of a scenario: who owned which partition in each generation, and who read which record.

It is built from the events of the members, and compared with the coordinator's view at the time. A member's share in a
generation is what it owns once it has learned of it. An eager member gives everything back before it joins, still in
the old generation, and gets its whole share in the new one; a cooperative one retains all, and learns in the new
generation first what it has to give back. So a revocation ends a share only if it comes with a new generation.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

from tests.integration.support.group_member import Event

Plan = dict[str, frozenset[str]]


class Member(Protocol):
    """The properties of a member that the ledger needs."""

    @property
    def owner(self) -> str: ...

    @property
    def is_running(self) -> bool: ...

    @property
    def was_paused(self) -> bool: ...

    def events(self, *kinds: str) -> Sequence[Event]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """The time during which a member owns a partition."""

    partition: str
    member: Member
    since: float
    until: float


def plans(members: Iterable[Member], *, by_member_id: bool = False) -> dict[int, Plan]:
    """Returns the partitions of each owner in each generation."""
    found: dict[int, Plan] = defaultdict(dict)
    for member in members:
        for event in member.events("assigned", "generation", "revoked", "lost"):
            owner = event.member if by_member_id else member.owner
            is_share = event.kind in ("assigned", "generation") or owner not in found[event.generation]
            if is_share and event.owned is not None:
                found[event.generation][owner] = event.owned
    return dict(sorted(found.items()))


def assert_nobody_owned_twice(members: Iterable[Member]) -> None:
    for generation, plan in plans(members).items():
        owners: dict[str, list[str]] = defaultdict(list)
        for owner, partitions in plan.items():
            for partition in partitions:
                owners[partition].append(owner)
        shared = {partition: names for partition, names in owners.items() if len(names) > 1}
        assert not shared, f"in generation {generation} partitions had several owners: {shared}"


def assert_generations_grew(members: Iterable[Member]) -> None:
    for member in members:
        reported = [event.generation for event in member.events("assigned", "generation")]
        assert reported == sorted(reported), f"{member} went back in generations: {reported}"


def assert_the_coordinator_agrees(members: Sequence[Member], seen: Sequence[Plan]) -> None:
    """Asserts that each plan that the coordinator showed is, in order, the plan of a generation as its members report
    it."""
    reported = plans(members, by_member_id=True)
    last = 0
    for shown in seen:
        fitting = [generation for generation, plan in reported.items() if generation >= last and _fits(plan, shown)]
        assert fitting, (
            f"no generation from {last} on had what the coordinator showed, {shown}\nmembers told {reported}"
        )
        last = fitting[0]


def assert_given_back_before_given_on(members: Iterable[Member]) -> None:
    """Asserts that no two members owned a partition at one time, where the first could know that it has lost it."""
    holds = sorted(_holds(members), key=lambda hold: (hold.partition, hold.since))
    for earlier, later in pairwise(holds):
        if earlier.partition == later.partition:
            overlap = earlier.until - later.since
            assert overlap <= 0, (
                f"{earlier.member} had {earlier.partition} still {overlap:.3f} s after {later.member} got it"
            )


def assert_read_by_owners(members: Iterable[Member]) -> None:
    for member in members:
        owned: frozenset[str] = frozenset()
        for event in member.events():
            owned = owned if event.owned is None else event.owned
            assert event.kind != "read" or event.partition in owned, f"{member} read what it does not own: {event}"


def offsets_read(members: Iterable[Member]) -> dict[str, set[int]]:
    """Returns the offsets that were read of each partition, by any member."""
    found: dict[str, set[int]] = defaultdict(set)
    for member in members:
        for event in member.events("read"):
            found[event.partition].update(range(event.first, event.last + 1))
    return found


def times_read(members: Iterable[Member]) -> dict[tuple[str, int], int]:
    """Counts how often each record was read."""
    counts: dict[tuple[str, int], int] = defaultdict(int)
    for member in members:
        for event in member.events("read"):
            for offset in range(event.first, event.last + 1):
                counts[event.partition, offset] += 1
    return counts


def unread(members: Iterable[Member], ends: Mapping[str, int]) -> dict[str, list[int]]:
    """Returns the first few offsets of each partition that no member has read."""
    read = offsets_read(members)
    missing = {partition: sorted(set(range(end)) - read[partition])[:5] for partition, end in ends.items()}
    return {partition: offsets for partition, offsets in missing.items() if offsets}


def _fits(reported: Plan, shown: Plan) -> bool:
    """Whether the reported shares match the plan. A member that was killed or overtaken may not have reported its
    share."""
    common = reported.keys() & shown.keys()
    return bool(common) and all(reported[member] == shown[member] for member in common)


def _holds(members: Iterable[Member]) -> Iterable[Hold]:
    for member in members:
        since: dict[str, float] = {}
        for event in member.events("assigned", "revoked", "lost"):
            if event.kind == "assigned":
                since.update(dict.fromkeys(event.partitions - since.keys(), event.at))
                continue
            for partition in event.partitions & since.keys():
                began = since.pop(partition)
                if _could_know(member, event):
                    yield Hold(partition=partition, member=member, since=began, until=event.at)
        if member.is_running:
            end = float("inf")
            yield from (Hold(partition=tp, member=member, since=at, until=end) for tp, at in since.items())


def _could_know(member: Member, end: Event) -> bool:
    """Whether the owner could know of its loss: not if it was removed from the group, nor if it was suspended
    meanwhile."""
    return end.kind == "revoked" and not member.was_paused
