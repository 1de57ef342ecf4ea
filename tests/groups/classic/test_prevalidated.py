"""Prevalidated requests have the effect of decided ones: a life with them equals the same life without."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcoord.errors import ErrorCode
from kcoord.groups.classic.member import Protocols
from kcoord.groups.classic.prevalidated import PrevalidatedCommit, PrevalidatedHeartbeat
from kcoord.groups.classic.state import State
from kcoord.groups.coordinator import Coordinator
from kcoord.groups.effects import NO_EFFECTS, Effects, answer
from kcoord.groups.records import RepeatedCommit
from kcoord.groups.replies import JoinReply, SyncReply
from kcoord.groups.requests import Heartbeat, Join, Sync
from kcoord.tickets import WAITS, Ticket
from tests.support.groups.commits import Line, commit_of
from tests.support.groups.scene import Scene

MEMBERS: Final = 4
SUBSCRIPTIONS: Final = [b"a", b"b", b"long"]


@dataclass(slots=True)
class Life:
    """Members of a group, each with its separate connection."""

    uses_prevalidation: bool
    scene: Scene = field(default_factory=lambda: Scene(group_max_size=3))
    ids: dict[int, str] = field(default_factory=dict)
    joins: dict[int, Ticket] = field(default_factory=dict)
    prevalidated: dict[object, tuple[Any, Any]] = field(default_factory=dict)
    hits: Counter[str] = field(default_factory=Counter)

    # What befalls them.

    def join(self, number: int, metadata: bytes, protocols: int, instance: bool) -> None:
        """Joins with the member's id, once it has one."""
        self.learn(number)
        offered = tuple((name, metadata) for name in ("range", "sticky")[:protocols])
        request = self.a_join(number, offered, instance=instance)
        words = ("join", number, request._replace(protocols=tuple((name, b"") for name, _ in offered)), len(metadata))
        varying = tuple(subscription for _, subscription in offered)
        self.joins[number] = self.send(words, request, varying, Coordinator.join, Coordinator.prevalidate_join)

    def a_join(self, number: int, offered: Protocols, *, instance: bool) -> Join:
        return Join(
            group_id="g",
            member_id=self.ids.get(number, ""),
            instance_id=f"i{number}" if instance else None,
            client_id=f"c{number}",
            client_host="/h",
            session_timeout=10.0,
            rebalance_timeout=60.0,
            protocol_type="consumer",
            protocols=offered,
            needs_known_id=False,
        )

    def learn(self, number: int) -> None:
        """Learns the member id from the answer to the last join."""
        reply: Any = self.scene.answers.get(self.joins.get(number, Ticket(-1)))
        if reply is not None and reply.member_id:
            self.ids[number] = reply.member_id

    def sync(self, number: int, drift: int, brings_plan: bool, protocol: str | None) -> None:
        self.learn(number)
        plan = {member_id: f"part of {member_id}".encode() for member_id in self.ids.values()} if brings_plan else {}
        kind = None if protocol is None else "consumer"
        request = Sync("g", self.ids.get(number, "nobody"), None, self.generation + drift, kind, protocol, plan)
        words = ("sync", number, repr(request._replace(generation=0)))
        self.send(words, request, (request.generation,), Coordinator.sync, Coordinator.prevalidate_sync)

    def heartbeat(self, number: int, drift: int) -> None:
        self.learn(number)
        request = Heartbeat("g", self.ids.get(number, "nobody"), None, self.generation + drift)
        words = ("heartbeat", number, request)
        self.send(words, request, (), Coordinator.heartbeat, Coordinator.prevalidate_heartbeat)

    def commit(self, number: int, drift: int, offset: int, topics: str) -> None:
        self.learn(number)
        lines = [(name, [Line(0, offset), Line(1, offset + 1)]) for name in topics]
        member_id = self.ids.get(number, "nobody")
        request = commit_of(lines, member_id=member_id, generation=self.generation + drift)
        words = ("commit", number, request._replace(offsets=()))
        self.send(words, request, request.offsets, Coordinator.commit, Coordinator.prevalidate_commit)

    def leave(self, number: int) -> None:
        self.learn(number)
        self.scene.leave(self.ids.get(number, "nobody"))

    def pass_time(self, seconds: float) -> None:
        self.scene.pass_time(seconds)

    def make_topic_anew(self, name: str) -> None:
        topic_id = self.scene.topics.topic_id(name)
        assert topic_id is not None
        self.scene.take(self.scene.coordinator.topic_deleted(name, topic_id))
        self.scene.topics.made += 1

    def lose_the_journal(self) -> None:
        """Unloads and replays everything; the connections stay, with their prevalidated requests."""
        self.scene.take(self.scene.coordinator.unload(self.scene.at()))
        for record in self.scene.records:
            self.scene.coordinator.replay(record)
        self.scene.take(self.scene.coordinator.resume(self.scene.at()))

    # How they ask.

    @property
    def generation(self) -> int:
        group = self.scene.coordinator.groups.get("g")
        return group.generation if group else 0

    def send(
        self,
        words: tuple[Any, ...],
        request: Any,
        varying: tuple[Any, ...],
        decide: Any,
        prevalidate: Callable[..., Any],
    ) -> Ticket:
        ticket, at = Ticket(next(self.scene._tickets)), self.scene.at()
        prevalidated, reply = self.prevalidated.get(words, (None, None))
        effects: Effects | None = None
        if isinstance(prevalidated, PrevalidatedCommit):
            record = prevalidated.commit(varying, at)
            effects = None if record is None else Effects(((ticket, reply),), (record,))
        elif isinstance(prevalidated, PrevalidatedHeartbeat):
            effects = answer(ticket, reply) if prevalidated.heartbeat(at.now) else None
        elif prevalidated is not None:
            outcome = prevalidated.apply(varying, ticket)
            effects = outcome and (NO_EFFECTS if outcome is WAITS else answer(ticket, outcome))
        if effects is not None:
            self.hits[words[0]] += 1
            self.scene.take(effects)
            return ticket
        decided = decide(self.scene.coordinator, request, ticket, at)
        effects = decided if isinstance(decided, Effects) else answer(ticket, decided)
        self.scene.take(effects)
        if self.uses_prevalidation:
            reply = dict(effects.replies).get(ticket)
            self.prevalidated[words] = (prevalidate(self.scene.coordinator, request, reply), reply)
        return ticket

    def snapshot(self) -> dict[str, Any]:
        """Returns everything observable, and all deadlines."""
        group = self.scene.coordinator.groups.get("g")
        members = [] if group is None else group.members.values()
        return {
            "answers": self.scene.answers,
            "events": self.scene.events,
            "records": [each for record in self.scene.records for each in expanded(record)],
            "state": group
            and (group.state, group.generation, group.leader_id, group.parked_joins, group.protocol_support),
            "offsets": group and group.offsets,
            "members": [
                (each.member_id, each.protocols, each.assignment, each.session.at, each.join_ticket, each.sync_ticket)
                for each in members
            ],
            "phases": group and (group.join_phase.at, group.sync_phase.at, group.awaiting_sync),
        }


def expanded(record: Any) -> Sequence[Any]:
    return record.expand() if isinstance(record, RepeatedCommit) else [record]


numbers = st.integers(0, MEMBERS - 1)
drifts = st.sampled_from([0, 0, 0, 0, -1, 1])
subscriptions = st.sampled_from(SUBSCRIPTIONS)
steps = st.one_of(
    st.tuples(st.just("all_join"), subscriptions),
    st.tuples(st.just("all_sync"), st.sampled_from(["range", None])),
    st.tuples(st.just("rebalance"), subscriptions),
    st.tuples(st.just("rebalance"), subscriptions),
    st.tuples(st.just("join"), numbers, subscriptions, st.integers(1, 2), st.just(False)),
    st.tuples(st.just("join"), numbers, subscriptions, st.integers(1, 2), st.booleans()),
    st.tuples(st.just("sync"), numbers, drifts, st.booleans(), st.sampled_from(["range", "sticky", None])),
    st.tuples(st.just("heartbeat"), numbers, drifts),
    st.tuples(st.just("commit"), numbers, drifts, st.integers(0, 9), st.sampled_from(["t", "tu"])),
    st.tuples(st.just("all_beat_and_commit"), st.integers(0, 9)),
    st.tuples(st.just("all_beat_and_commit"), st.integers(0, 9)),
    st.tuples(st.just("leave"), numbers),
    st.tuples(st.just("pass_time"), st.sampled_from([0.5, 6.0, 11.0, 70.0])),
    st.tuples(st.just("make_topic_anew"), st.sampled_from("tu")),
    st.tuples(st.just("lose_the_journal")),
)


def do(life: Life, what: str, *by: Any) -> None:
    match what, by:
        case "all_join", (subscription,):
            for number in range(3):
                life.join(number, subscription, 1, False)
        case "rebalance", (subscription,):
            do(life, "all_join", subscription)
            life.join(0, subscription, 1, False)
            do(life, "all_sync", "range")
        case "all_sync", (protocol,):
            for number in (1, 0, 2):
                life.sync(number, 0, number == 0, protocol)
        case "all_beat_and_commit", (offset,):
            for number in range(3):
                life.heartbeat(number, 0)
                life.commit(number, 0, offset, "t")
        case _:
            getattr(life, what)(*by)


@given(st.lists(steps, min_size=15, max_size=60))
def test_a_life_with_what_stands_is_the_same_as_without(path: list[tuple[Any, ...]]) -> None:
    with_it, without = Life(uses_prevalidation=True), Life(uses_prevalidation=False)
    for step in path:
        for life in (with_it, without):
            do(life, *step)
        assert with_it.snapshot() == without.snapshot(), step


@pytest.fixture
def life() -> Life:
    """Three members of a Stable group that have been through some rebalances."""
    life = Life(uses_prevalidation=True)
    do(life, "all_join", b"a")
    life.join(0, b"a", 1, False)  # which the others wait for
    do(life, "all_sync", "range")
    for subscription in (b"b", b"a", b"b"):
        do(life, "all_join", subscription)
        do(life, "all_sync", "range")
    for offset in range(3):
        do(life, "all_beat_and_commit", offset)
    assert life.scene.state() == State.STABLE
    return life


def test_members_that_do_as_always_stand(life: Life) -> None:
    assert life.hits.keys() == {"join", "sync", "heartbeat", "commit"}
    before = life.hits.copy()
    do(life, "all_beat_and_commit", 7)
    do(life, "all_join", b"a")
    do(life, "all_sync", "range")
    hits = life.hits - before
    assert hits == {"heartbeat": 3, "commit": 3, "join": 1, "sync": 2}, "one begins, one is the last, one has the plan"


def test_what_another_connection_said_in_between_counts(life: Life) -> None:
    """If the member joins with other protocols elsewhere, its earlier prevalidated join is not valid any more."""
    other = Life(uses_prevalidation=False, scene=life.scene, ids=dict(life.ids))
    do(life, "all_join", b"a")
    do(life, "all_sync", "range")
    other.join(0, b"b", 2, False)
    other.join(1, b"b", 2, False)
    before = life.hits["join"]
    life.join(1, b"b", 1, False)
    assert life.hits["join"] == before
    assert life.scene.coordinator.groups["g"].protocol_support == {"range": 3, "sticky": 1}


@pytest.mark.parametrize(
    "change", [{"session_timeout": 86_400.0}, {"protocol_type": "connect"}, {"protocols": (("other", b"a"),)}]
)
def test_what_was_refused_does_not_stand(life: Life, change: dict[str, Any]) -> None:
    coordinator = life.scene.coordinator
    protocols = coordinator.groups["g"].members[life.ids[1]].protocols
    refused = life.a_join(1, protocols, instance=False)._replace(**change)
    effects = coordinator.join(refused, Ticket(10_000), life.scene.at())
    ((_, reply),) = effects.replies
    assert isinstance(reply, JoinReply)
    assert reply.error_code is not ErrorCode.none
    assert coordinator.prevalidate_join(refused, reply) is None


def test_a_static_member_that_was_replaced_does_not_stand_any_more() -> None:
    life, later = Life(uses_prevalidation=True), Life(uses_prevalidation=False)
    later.scene = life.scene
    for _ in range(2):
        life.join(0, b"a", 1, True)
        life.sync(0, 0, True, "range")
    for offset in range(3):
        life.heartbeat(0, 0)
        life.commit(0, 0, offset, "t")
    assert life.hits["heartbeat"]
    before = life.hits.copy()
    later.join(0, b"a", 1, True)
    life.heartbeat(0, 0)
    life.commit(0, 0, 9, "t")
    assert life.hits == before
    ticket = Ticket(next(life.scene._tickets) - 2)
    beat: Any = life.scene.answers[ticket]
    assert beat.error_code is ErrorCode.unknown_member_id


def test_a_sync_with_a_plan_is_never_prevalidated(life: Life) -> None:
    """If a plan comes again in a Stable group, its size is checked, which a prevalidated sync does not."""
    coordinator, generation = life.scene.coordinator, life.generation
    request = Sync("g", life.ids[0], None, generation, None, None, {life.ids[0]: b"all"})
    ((_, reply),) = coordinator.sync(request, Ticket(10_000), life.scene.at()).replies
    assert isinstance(reply, SyncReply)
    assert reply.error_code is ErrorCode.none
    assert coordinator.prevalidate_sync(request, reply) is None
    assert coordinator.prevalidate_sync(request._replace(plan={}), reply) is not None
