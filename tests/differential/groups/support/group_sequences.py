"""Random sequences of group requests: clients that behave, and requests that no client should send."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from kcoord.api_keys import ApiKey
from tests.differential.groups.support.group_requests import (
    LONG,
    VERSIONS,
    Ask,
    ChosenProtocol,
    Generation,
    GoOn,
    Grids,
    Group,
    HangUp,
    MemberId,
    Plan,
    Profile,
    Protocols,
    Scenario,
    Step,
    Wait,
    committed,
    deleted,
    fetch_of,
    leave_of,
    subscription,
)
from tests.differential.groups.support.group_times import SHORT_REBALANCE, SHORT_SESSION

TOPICS: Final = ("group-orders", "group-payments")
"""Topics that both clusters have, with PARTITIONS each."""
ABSENT: Final = "group-absent"
PARTITIONS: Final = 2

_lengths: Final = (15, 30, 60)
_waits: Final = 6
_sizes: Final = {1: 2, 2: 4, 3: 5, 4: 4, 5: 2, 6: 2, 7: 1, 8: 2, 9: 1}
_strategies: Final = (
    *[("range",)] * 3,
    *[("range", "roundrobin"), ("roundrobin", "range"), ("sticky", "range")],
    ("cooperative-sticky", "range", "roundrobin"),
)
# Malformed subscriptions that Kafka tolerates: others stop its groups (see test_joining).
_bytes: Final = (b"", b"\x00", b"\x00\x01\x00\x00", b"\xff\xff\x00\x00\x00\x00", b"\x00\x01\x00\x00\x00\x00")
_strange_ids: Final = ("nobody", "actor-0", " ", "\x1b[31mred\x1b[0m", "ü-\N{SNOWMAN}", "x" * 300)


def make_scenario(seed: int) -> Scenario:
    """Makes the same actors and steps for the same seed; no session or rebalance expires."""
    maker = _Maker(rng=random.Random(seed))
    actors = maker.make_actors()
    steps = [maker.step() for _ in range(maker.one_of(*_lengths))]
    return Scenario(actors=actors, steps=[*steps, *maker.final_requests()])


def make_timed_scenario(seed: int) -> Scenario:
    """Makes a scenario with short sessions and rebalances, and waits in which they expire."""
    maker = _Maker(
        rng=random.Random(f"timed {seed}"), sessions=(SHORT_SESSION, LONG), rebalances=(SHORT_REBALANCE, LONG)
    )
    actors = maker.make_actors()
    steps: list[Step] = []
    for _ in range(_waits):
        steps += [maker.step() for _ in range(maker.one_of(1, 2, 4, 6))]
        steps.append(Wait())
    return Scenario(actors=actors, steps=[*steps, *maker.final_requests()])


@dataclass(slots=True, kw_only=True)
class _Maker:
    rng: random.Random
    sessions: Sequence[timedelta | Grids] = (LONG,)
    rebalances: Sequence[timedelta | Grids] = (LONG,)
    actors: Sequence[Profile] = ()

    def make_actors(self) -> Sequence[Profile]:
        (size,) = self.rng.choices(list(_sizes), weights=list(_sizes.values()))
        trade = self.one_of("consumer", "consumer", "consumer", "connect")
        are_in_two_groups = self.is_rare()
        instances = self.one_of(0.0, 0.0, 0.4, 1.0)
        self.actors = [
            self.profile(number, trade, instances, self.one_of(0, 1) if are_in_two_groups else 0)
            for number in range(size)
        ]
        return self.actors

    def profile(self, number: int, trade: str, instances: float, group: int) -> Profile:
        is_static = self.rng.random() < instances
        session = self.one_of(*self.sessions)
        # Version 0 has one timeout for both: a session and a rebalance would expire in the same moment.
        first_version = 5 if is_static else 1 if session != LONG else 0
        last_version = self.one_of(9, 9, 9, 3) if not is_static else 9
        return Profile(
            group=group,
            instance_id=f"instance {number if not self.is_rare() else 0}" if is_static else None,
            protocol_type=trade if self.rng.random() < 0.99 else "other",
            protocols=self.protocols(trade),
            session_timeout=session,
            rebalance_timeout=self.one_of(*self.rebalances),
            join_versions=range(first_version, last_version + 1),
        )

    def protocols(self, trade: str) -> Protocols:
        names = self.one_of(*_strategies) if self.rng.random() < 0.98 else ("roundrobin",)
        return [(name, self.member_bytes(trade)) for name in names]

    def member_bytes(self, trade: str) -> bytes:
        if self.is_rare():
            return self.one_of(*_bytes)  # type: ignore[no-any-return]
        topics = self.rng.sample([*TOPICS, ABSENT], k=self.one_of(0, 1, 1, 2))
        return subscription(*topics, version=self.one_of(0, 1))

    def step(self) -> Step:
        makers: dict[Callable[[], Step], int] = {
            self.go_on: 60,
            self.join: 8,
            self.come_back: 3,
            self.sync: 5,
            self.heartbeat: 4,
            self.leave: 6,
            self.hang_up: 1,
            self.commit: 6,
            self.fetch: 3,
            self.delete_offsets: 2,
            self.describe: 1,
            self.list_groups: 1,
            self.delete_groups: 2,
            self.find: 1,
        }
        return self.rng.choices(list(makers), weights=list(makers.values()))[0]()

    def final_requests(self) -> list[Step]:
        everything = [{"group_id": Group(number), "topics": None} for number in (0, 1)]
        return [
            Ask(actor=0, api_key=ApiKey.OFFSET_FETCH, version=9, values={"groups": everything}),
            Ask(actor=0, api_key=ApiKey.LIST_GROUPS, version=5, values={}),
        ]

    def go_on(self) -> Step:
        return GoOn(turn=self.rng.randrange(1000), dial=self.rng.randrange(1000))

    def hang_up(self) -> Step:
        return HangUp(actor=self.actor())

    def come_back(self) -> Step:
        """Joins as a static member that was restarted."""
        static = [actor for actor, profile in enumerate(self.actors) if profile.instance_id is not None]
        actor = self.one_of(*static) if static else self.actor()
        return self.make(ApiKey.JOIN_GROUP, actor, self.actors[actor].join())

    def join(self) -> Step:
        """Joins as the actor would, with one field changed."""
        actor = self.actor()
        profile = self.actors[actor]
        changes: list[dict[str, Any]] = [
            {"member_id": ""},
            {"member_id": MemberId(actor)},
            {"member_id": MemberId(actor), "protocols": self.protocols(profile.protocol_type)},
            {"member_id": MemberId(actor), "group_instance_id": self.instance()},
            {"member_id": self.member_id()},
            {"member_id": self.member_id(), "group_instance_id": self.instance()},
            {"member_id": "", "group_instance_id": self.instance()},
            {"protocol_type": self.one_of("", "consumer", "connect")},
            {"protocols": self.one_of([], [("unheard of", b"")], [*profile.protocols, ("one more", b"")])},
            {"session_timeout": self.one_of(timedelta(0), timedelta(hours=1), timedelta(milliseconds=-1))},
            {"group_id": self.group()},
            {"reason": self.one_of("", "because", "x" * 400)},
        ]
        return self.make(
            ApiKey.JOIN_GROUP, actor, profile.join(**{"member_id": MemberId(actor), **self.one_of(*changes)})
        )

    def sync(self) -> Step:
        actor = self.actor()
        profile = self.actors[actor]
        described = {"protocol_type": profile.protocol_type, "protocol_name": ChosenProtocol(actor)}
        changes: list[dict[str, Any]] = [
            {},
            {"assignments": Plan(actor, leave_out=self.one_of(1, 2))},
            {"assignments": Plan(actor, strangers=1)},
            {"assignments": [{"member_id": self.member_id(), "assignment": b"from whom?"}]},
            {"assignments": []},
            {"protocol_name": self.one_of(None, "", "range", "roundrobin")},
            {"protocol_type": self.one_of(None, "", "consumer", "connect")},
            *self.wrong_members(actor),
        ]
        values = {"assignments": Plan(actor), **described, **self.one_of(*changes)}
        return self.make(ApiKey.SYNC_GROUP, actor, profile.as_member(actor, **values))

    def heartbeat(self) -> Step:
        actor = self.actor()
        return self.make(
            ApiKey.HEARTBEAT, actor, self.actors[actor].as_member(actor, **self.one_of({}, *self.wrong_members(actor)))
        )

    def leave(self) -> Step:
        actor = self.actor()
        mine = (MemberId(actor), self.actors[actor].instance_id)
        strangers = [(self.member_id(), self.instance()) for _ in range(self.one_of(1, 1, 2, 3))]
        by_instance = [("", self.actors[actor].instance_id)]
        leaving = self.one_of(
            [mine], [mine], [(mine[0], None)], by_instance, strangers, [mine, *strangers], [mine, mine], []
        )
        reason = self.one_of(None, "", "because")
        return self.make(ApiKey.LEAVE_GROUP, actor, leave_of(self.group_of(actor), *leaving, reason=reason))

    def commit(self) -> Step:
        actor = self.actor()
        changes = [{}, {}, {}, {"member_id": "", "generation": -1}, *self.wrong_members(actor)]
        topics = [committed(topic, self.offsets(), **self.remark()) for topic in self.topics()]
        if self.is_rare():  # kcoord creates no group for a commit in which all metadata is too long
            topics.append(committed(TOPICS[0], self.offsets(), committed_metadata=self.one_of("x" * 4097, "ü" * 3000)))
            topics.append(committed(TOPICS[1], {0: 7}))
        values = self.actors[actor].as_member(actor, topics=topics, **self.one_of(*changes))
        return self.make(ApiKey.OFFSET_COMMIT, actor, values)

    def offsets(self) -> dict[int, int]:
        return {index: self.rng.randrange(100) for index in self.partitions()}

    def remark(self) -> dict[str, Any]:
        metadata = self.one_of("", "", None, "mine", "ü", "x" * 4096)
        return {"committed_metadata": metadata, "committed_leader_epoch": self.one_of(-1, 0, 5)}

    def fetch(self) -> Step:
        asked = self.one_of(None, {}, {topic: self.partitions() for topic in self.topics()})
        values = fetch_of(self.group(), asked, require_stable=self.one_of(True, False))
        if self.is_rare():
            values["groups"] = [*values["groups"], {"group_id": Group(1), "topics": None}]
        return self.make(ApiKey.OFFSET_FETCH, self.actor(), {**values, "require_stable": self.one_of(True, False)})

    def delete_offsets(self) -> Step:
        topics = [deleted(topic, self.partitions()) for topic in self.topics()]
        return self.make(ApiKey.OFFSET_DELETE, self.actor(), {"group_id": self.group(), "topics": topics})

    def describe(self) -> Step:
        groups = [self.group() for _ in range(self.one_of(1, 2, 3))]
        values = {"groups": groups, "include_authorized_operations": self.one_of(True, False)}
        return self.make(ApiKey.DESCRIBE_GROUPS, self.actor(), values)

    def list_groups(self) -> Step:
        states = self.one_of(
            [], ["Stable"], ["empty", " PreparingRebalance "], ["CompletingRebalance"], ["No such state"]
        )
        types = self.one_of([], [], ["classic"], ["Classic", "consumer"], ["share"], ["no such type"])
        return self.make(ApiKey.LIST_GROUPS, self.actor(), {"states_filter": states, "types_filter": types})

    def delete_groups(self) -> Step:
        return self.make(
            ApiKey.DELETE_GROUPS, self.actor(), {"groups_names": [self.group() for _ in range(self.one_of(1, 1, 2))]}
        )

    def find(self) -> Step:
        values = {"key": Group(), "key_type": 0, "coordinator_keys": [self.group(), self.group()]}
        return self.make(ApiKey.FIND_COORDINATOR, self.actor(), values)

    def make(self, api_key: ApiKey, actor: int, values: dict[str, Any]) -> Ask:
        served = self.actors[actor].join_versions if api_key == ApiKey.JOIN_GROUP else VERSIONS[api_key]
        if api_key == ApiKey.OFFSET_FETCH and values["topics"] is None:
            served = range(2, 11)  # version 1 cannot request all topics
        return Ask(actor=actor, api_key=api_key, version=self.rng.choice(served), values=values)

    def wrong_members(self, actor: int) -> list[dict[str, Any]]:
        """Returns wrong values of the fields that identify the sender."""
        return [
            {"generation": Generation(actor, self.one_of(-1, 1))},
            {"generation": self.one_of(-1, 0, 1)},
            {"member_id": self.member_id()},
            {"member_id": self.member_id(), "group_instance_id": self.instance()},
            {"group_instance_id": self.instance()},
            {"group_instance_id": None},
            {"group_id": self.group()},
        ]

    def member_id(self) -> Any:
        return self.one_of("", *_strange_ids, *[MemberId(self.actor(), self.one_of(0, 0, 1)) for _ in range(6)])

    def instance(self) -> str | None:
        known = [profile.instance_id for profile in self.actors]
        return self.one_of(None, "instance of nobody", "", *known, *known)  # type: ignore[no-any-return]

    def group(self) -> Any:
        return self.one_of(*[Group(0)] * 12, Group(1), Group(1), "")

    def group_of(self, actor: int) -> Any:
        return Group(self.actors[actor].group) if not self.is_rare() else self.group()

    def topics(self) -> list[str]:
        return self.rng.sample(TOPICS, k=self.one_of(1, 1, 2)) + ([ABSENT] if self.is_rare() else [])

    def partitions(self) -> list[int]:
        absent = [self.one_of(PARTITIONS, -1)] if self.is_rare() else []
        return self.rng.sample(range(PARTITIONS), k=self.one_of(1, 1, 2)) + absent

    def actor(self) -> int:
        return self.rng.randrange(len(self.actors))

    def one_of(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def is_rare(self) -> bool:
        return self.rng.random() < 0.1
