"""The history of a group by the callbacks of its members, and its expected tables.

An era of a classic group is the time of one plan: a generation, or the rest of one after a static member has come back
with a new member id. A member that is overtaken by the next rebalance before it has got its share does not report it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.integration.support.group_ledger import Plan, plans
from tests.integration.support.group_member import Event, Member

Row = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Era:
    generation: int
    plan: Plan
    """The plan by member id; partitions as topic-0."""
    since_ms: Mapping[str, int]
    """When each member's share in this generation was written, or when the member reported it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenure:
    """A member's time with a partition, from the generation that assigned it to the one that revoked it."""

    partition: str
    member_id: str
    from_generation: int
    until_generation: int | None

    def order(self) -> tuple[str, int, str]:
        return self.partition, self.from_generation, self.member_id


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A rebalance, without its time and reason."""

    generation: int
    from_generation: int
    joined: list[str]
    left: list[str]
    members: int
    moved_partitions: int
    """The moves of partitions from one owner to another; the owner before the first is None."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hold:
    """A partition that a member of a KIP-848 group reported, in ms since 1970."""

    partition: str
    member_id: str
    epoch: int
    since_ms: int
    until_ms: int | None


def reported_eras(members: Sequence[Member]) -> list[Era]:
    """Builds the eras from the members' events alone. After all have left there is one more generation, without
    members."""
    owners = {event.member: member.owner for member in members for event in member.events()}
    first_reported: dict[tuple[int, str], int] = {}
    for member in members:
        for event in member.events():
            first_reported.setdefault((event.generation, event.member), milliseconds(event.at))
    eras: list[Era] = []
    for generation, plan in plans(members, by_member_id=True).items():
        since_ms = {member_id: first_reported[generation, member_id] for member_id in plan}
        present: dict[str, str] = {}
        for member_id in sorted(plan, key=lambda each: since_ms[each]):
            if owners[member_id] in present:
                eras.append(_era(generation, plan, since_ms, present.values()))
            present[owners[member_id]] = member_id
        eras.append(_era(generation, plan, since_ms, present.values()))
    have_all_gone = all(member.is_killed or member.events("left") for member in members)
    return [*eras, Era(generation=eras[-1].generation + 1, plan={}, since_ms={})] if have_all_gone else eras


def logged_eras(generations: Iterable[Row]) -> list[Era]:
    """Builds the eras from the rows of one group, from its first member on: a group is written as empty when it is
    first joined."""
    eras: list[Era] = []
    first_written: dict[tuple[int, str], int] = {}
    for row in sorted(generations, key=lambda row: int(row["source_offset"])):
        plan = {member["member_id"]: _assigned(member) for member in row["members"] or []}
        generation = row["generation"]
        for member_id in plan:
            first_written.setdefault((generation, member_id), milliseconds(row["appended_at"].timestamp()))
        if plan or eras:
            since_ms = {member_id: first_written[generation, member_id] for member_id in plan}
            eras.append(Era(generation=generation, plan=plan, since_ms=since_ms))
    return eras


def assert_same_eras(reported: Sequence[Era], logged: Sequence[Era]) -> None:
    """Asserts that all shares are equal, and that none was reported before it was in the log."""
    assert [era.generation for era in reported] == [era.generation for era in logged]
    for number, (by_members, by_log) in enumerate(zip(reported, logged, strict=True)):
        overtaken = by_log.plan.keys() - by_members.plan.keys()
        informed = by_log.plan.keys() - overtaken
        assert by_members.plan == {member: by_log.plan[member] for member in informed}
        assert all(by_log.since_ms[member] <= by_members.since_ms[member] for member in informed)
        assert informed or not by_log.plan, f"nobody has heard of generation {by_log.generation}"
        still_there = {member for era in reported[number + 1 :] for member in era.plan}
        assert overtaken <= still_there, f"in generation {by_log.generation} {overtaken - still_there} told nothing"


def tenures(eras: Sequence[Era]) -> list[Tenure]:
    """Returns the tenures. A member that has a partition in two successive eras has it without a break."""
    held: dict[tuple[str, str], int] = {}
    found: list[Tenure] = []
    for era in eras:
        owned = {(partition, member_id) for member_id, share in era.plan.items() for partition in share}
        found += [_tenure(each, held, era.generation) for each in held.keys() - owned]
        held = {each: held.get(each, era.generation) for each in owned}
    found += [_tenure(each, held, None) for each in held]
    return sorted(found, key=Tenure.order)


def changes(eras: Sequence[Era], owners: Mapping[str, str]) -> list[Change]:
    """Returns the changes from each era to the next, and to the first one; `owners` maps owners that stay the same with
    another member id."""
    found: list[Change] = []
    last_owners: dict[str, str] = {}
    before = Era(generation=0, plan={}, since_ms={})
    for era in eras:
        now = {partition: owners[member_id] for member_id, share in era.plan.items() for partition in share}
        moved = [tp for tp, owner in now.items() if last_owners.get(tp, owner) != owner]
        change = Change(
            generation=era.generation,
            from_generation=before.generation,
            joined=sorted(era.plan.keys() - before.plan.keys()),
            left=sorted(before.plan.keys() - era.plan.keys()),
            members=len(era.plan),
            moved_partitions=len(moved),
        )
        found.append(change)
        last_owners |= now
        before = era
    return found


def reported_holds(members: Iterable[Member]) -> list[Hold]:
    """Builds the holds of members that get only what is new, and what is revoked."""
    found: list[Hold] = []
    for member in members:
        held: dict[str, Event] = {}
        for event in member.events("assigned", "revoked", "lost"):
            if event.kind == "assigned":
                held |= dict.fromkeys(event.partitions, event)
            else:
                found += [_hold(tp, held.pop(tp), until=event) for tp in event.partitions]
        found += [_hold(tp, event, until=None) for tp, event in held.items()]
    return sorted(found, key=lambda hold: (hold.partition, hold.since_ms))


def assert_called_back_between(members: Iterable[Member], eras: Sequence[Era], started_ms: Sequence[int]) -> None:
    """Asserts that each callback of an era comes between its write to the log and the era's end, which waits for it: a
    member gives back its partitions before it joins again or leaves. A new member reports nothing before the log has
    it."""
    ready_ms = {event.member: milliseconds(each.events("ready")[0].at) for each in members for event in each.events()}
    events = [event for member in members for event in member.events("assigned", "revoked", "lost", "generation")]
    before = Era(generation=0, plan={}, since_ms={})
    for era, start in zip(eras, started_ms, strict=True):
        is_return = era.generation == before.generation
        ending = before.plan.keys() - era.plan.keys() if is_return else before.plan.keys()
        last_events = [event for event in events if event.generation == before.generation and event.member in ending]
        late = [str(event) for event in last_events if milliseconds(event.at) > start]
        assert not late, f"the end of generation {before.generation} began at {start}"
        assert all(ready_ms[member_id] <= start for member_id in era.plan.keys() - before.plan.keys())
        before = era


def milliseconds(seconds: float) -> int:
    """Truncates a time to milliseconds, as coordinators do; it is not rounded."""
    return round(seconds * 1_000_000) // 1000


def _era(generation: int, plan: Plan, since_ms: Mapping[str, int], member_ids: Iterable[str]) -> Era:
    present = list(member_ids)
    return Era(
        generation=generation,
        plan={member_id: plan[member_id] for member_id in present},
        since_ms={member_id: since_ms[member_id] for member_id in present},
    )


def _assigned(member: Row) -> frozenset[str]:
    topics = member["assignment"]["assigned"]
    return frozenset(f"{each['topic']}-{index}" for each in topics for index in each["partitions"])


def _tenure(held: tuple[str, str], since: Mapping[tuple[str, str], int], until: int | None) -> Tenure:
    partition, member_id = held
    return Tenure(partition=partition, member_id=member_id, from_generation=since[held], until_generation=until)


def _hold(partition: str, since: Event, *, until: Event | None) -> Hold:
    return Hold(
        partition=partition,
        member_id=since.member,
        epoch=since.generation,
        since_ms=milliseconds(since.at),
        until_ms=None if until is None else milliseconds(until.at),
    )
