"""Seeded cases for assignors: groups of members that have come, gone and changed their minds."""

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Final
from uuid import UUID

from kcoord.assignors.plan import AssignorFailed, Plan, Subscriber, Topics
from kcoord.assignors.strategies import STRATEGIES
from kcoord.assignors.subscriptions import decode_subscriber
from kcoord.protocol.consumer_protocol import (
    OwnedPartitions,
    Subscription,
    write_cooperative_user_data,
    write_sticky_user_data,
    write_subscription,
)

PLANS: Final = int(os.environ.get("KCOORD_TEST_PLANS", "500"))
FIRST_SEED: Final = int(os.environ.get("KCOORD_TEST_SEED", "1"))


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseMember:
    member_id: str
    subscription: Subscription
    version: int
    """The version of the consumer protocol that it sends its subscription in."""
    target: Mapping[str, Sequence[int]]
    """What a server-side assignor knows that it has."""
    instance_id: str | None = None
    malformed: bytes | None = None
    """What it sends instead."""

    @property
    def content(self) -> bytes:
        """The bytes of its subscription."""
        written = write_subscription(self.subscription, version=self.version)
        return written if self.malformed is None else self.malformed


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    strategy: str
    counts: Mapping[str, int]
    members: Sequence[CaseMember]
    topic_ids: Mapping[str, UUID]
    racks: Mapping[str, Sequence[Sequence[str]]] = field(default_factory=dict)

    def subscribers(self) -> list[Subscriber]:
        """Returns the members as the assignor sees them, by the bytes that they send."""
        source = STRATEGIES[self.strategy].owned_from
        if source is None:
            return [
                Subscriber(
                    member_id=each.member_id,
                    instance_id=each.instance_id,
                    topics=each.subscription.topics,
                    owned=each.target,
                )
                for each in self.members
            ]
        return [
            decode_subscriber(each.member_id, each.content, source, instance_id=each.instance_id)
            for each in self.members
        ]

    def plan(self) -> Plan:
        """Returns the plan of kcoord's assignor."""
        topics = Topics(counts=self.counts, racks=self.racks, ids=self.topic_ids)
        return STRATEGIES[self.strategy].assign(self.subscribers(), topics)

    def outcome(self) -> dict[str, dict[str, set[int]]] | str:
        """Returns the plan of kcoord's assignor without the order of partitions, or why it fails."""
        try:
            plan = self.plan()
        except AssignorFailed as failed:
            return str(failed)
        return {member: {topic: set(numbers) for topic, numbers in held.items()} for member, held in plan.items()}


def make_case(strategy: str, seed: int, *, as_clients_send: bool = False) -> Case:
    """Makes a case: the same one for the same seed.

    `as_clients_send` leaves out what Kafka's classes accept and no client sends: topics that are listed twice, bytes
    after the user data, the largest and the smallest number as partitions.
    """
    rng = random.Random(f"{strategy} {seed}")
    return _CaseMaker(rng, strategy, as_clients_send).make()


class _CaseMaker:
    def __init__(self, rng: random.Random, strategy: str, as_clients_send: bool) -> None:
        self.rng = rng
        self.strategy = strategy
        self.as_clients_send = as_clients_send
        self.is_large = rng.random() < 0.05
        self.topics = [f"t{number}" for number in range(rng.randint(1, 24 if self.is_large else 5))]
        if rng.random() < 0.1:
            self.topics += ["Ünïcode", "\U0001f600", "\uffee"]
        self.collide = rng.random() < 0.1
        """Whether the ids of members and topics have equal hashes, or hashes for the same bucket of a map."""
        self.has_racks = rng.random() < 0.3
        self.is_mixed = rng.random() < 0.5
        self.is_odd = rng.random() < 0.15 and STRATEGIES[strategy].owned_from is not None
        """Whether members may claim what others claim too, or what does not exist. A coordinator knows better."""
        self.lists_twice = rng.random() < 0.1 and STRATEGIES[strategy].owned_from is not None and not as_clients_send
        """Whether subscriptions may have a topic twice. A coordinator has them as sets."""

    def make(self) -> Case:
        rng = self.rng
        most = 60 if self.is_large else rng.choice([2, 6, 16])
        counts = {topic: rng.randint(0, most) for topic in self.topics}
        if rng.random() < 0.3:
            counts = dict.fromkeys(self.topics, most)
        members = self._members(self._most_members())
        owners = self._former_plan(members, counts)
        existing = {topic: count for topic, count in counts.items() if rng.random() > 0.05}
        return Case(
            strategy=self.strategy,
            counts=existing,
            members=[self._member(each, owners) for each in members if rng.random() > 0.15]
            or [self._member(members[0], owners)],
            topic_ids={topic: self._topic_id() for topic in counts},
            racks=self._racks(existing) if self.has_racks else {},
        )

    def _most_members(self) -> int:
        if self.is_large:
            return self.rng.choice([40, 200])
        return 24 if self.collide else self.rng.choice([1, 3, 8])

    def _members(self, most: int) -> list[tuple[str, str | None, tuple[str, ...]]]:
        rng = self.rng
        has_instances = rng.random() < 0.3
        same = tuple(topic for topic in self.topics if rng.random() < 0.8)
        return [
            (
                member_id,
                rng.choice([None, f"i{rng.randint(0, 9)}"]) if has_instances else None,
                tuple(topic for topic in self.topics if rng.random() < 0.6) if self.is_mixed else same,
            )
            for member_id in self._member_ids(rng.randint(1, most))
        ]

    def _member_ids(self, count: int) -> list[str]:
        rng = self.rng
        names = ["consumer", "app", "ä", "\U0001f600", "\uffee"]
        ids = [f"{rng.choice(names)}-{number}-{UUID(int=rng.getrandbits(128))}" for number in range(count)]
        if self.collide:
            ids = [*ids[: count // 4], *colliding_texts(rng, count - count // 4)]
            rng.shuffle(ids)
        return ids

    def _topic_id(self) -> UUID:
        half, other = self.rng.getrandbits(64), self.rng.getrandbits(64)
        # Kafka's Uuid hashes the exclusive or of both halves.
        return UUID(int=half << 64 | (half ^ self.rng.choice([1, 65, 1025]) if self.collide else other))

    def _former_plan(
        self, members: Sequence[tuple[str, str | None, tuple[str, ...]]], counts: Mapping[str, int]
    ) -> dict[str, dict[str, list[int]]]:
        """Returns a plan of the members as they may have been: random, or that of an assignor for other members."""
        rng = self.rng
        owned: dict[str, dict[str, list[int]]] = {member_id: {} for member_id, _, _ in members}
        if rng.random() < 0.2:
            return owned
        if rng.random() < 0.6:
            before = [
                Subscriber(member_id=member_id, topics=topics) for member_id, _, topics in members if rng.random() > 0.2
            ]
            shrunk = {topic: max(0, count - rng.randint(0, 2)) for topic, count in counts.items()}
            plan = STRATEGIES[rng.choice(["sticky", "roundrobin", "range"])].assign(before, Topics(counts=shrunk))
            return owned | {
                member_id: {topic: list(numbers) for topic, numbers in held.items()} for member_id, held in plan.items()
            }
        for topic, count in counts.items():
            for number in range(count):
                for _ in range(rng.randint(2, 3) if self.is_odd and rng.random() < 0.2 else 1):
                    if rng.random() < 0.8:
                        owned[rng.choice(members)[0]].setdefault(topic, []).append(number)
        if self.is_odd and rng.random() < 0.5:
            for _ in range(rng.choice([1, 1, 3])):
                numbers = owned[rng.choice(members)[0]].setdefault(rng.choice(self.topics), [])
                numbers.append(rng.choice([-1, 99] if self.as_clients_send else [-1, 99, 2**31 - 1, -(2**31)]))
        return owned

    def _member(
        self, member: tuple[str, str | None, tuple[str, ...]], owners: Mapping[str, Mapping[str, Sequence[int]]]
    ) -> CaseMember:
        rng = self.rng
        member_id, instance_id, topics = member
        owned = owners[member_id]
        generation = rng.choice([7, 7, 7, 6, 5, None, -1]) if self.is_odd or self.is_mixed else 7
        field_generation = rng.choice([generation, 7, None]) if self.is_odd else generation
        user_data = self._user_data(owned, generation)
        if self.lists_twice:
            topics += tuple(rng.choices(topics, k=min(len(topics), rng.randint(0, 2))))
        return CaseMember(
            member_id=member_id,
            instance_id=instance_id,
            version=rng.randint(0, 3) if rng.random() < 0.3 else 3,
            subscription=Subscription(
                topics=topics,
                user_data=user_data,
                owned=owned if self.strategy == "cooperative-sticky" else {},
                generation=field_generation,
                rack=rng.choice(["r1", "r2", "r3", "r9", "", None]) if self.has_racks else None,
            ),
            target=owned,
        )

    def _user_data(self, owned: Mapping[str, Sequence[int]], generation: int | None) -> bytes | None:
        rng = self.rng
        if self.is_odd and rng.random() < 0.1:
            return rng.choice([b"", b"\x00", b"\xff" * 9, rng.randbytes(12)])
        has_tail = self.is_odd and rng.random() < 0.1 and not self.as_clients_send
        tail = b"\x00\x07more" if has_tail else b""
        if self.strategy == "sticky":
            is_old = self.is_odd and rng.random() < 0.1
            data = OwnedPartitions(owned=owned, generation=None if is_old else generation)
            return write_sticky_user_data(data) + tail
        return None if generation is None else write_cooperative_user_data(generation) + tail

    def _racks(self, counts: Mapping[str, int]) -> dict[str, list[list[str]]]:
        rng = self.rng
        style = rng.random()
        if style < 0.2:
            return {topic: [["r1", "r2", "r3"]] * count for topic, count in counts.items()}
        names = ["r1", "r2", "r3", "r4"]
        return {
            topic: [rng.sample(names, rng.randint(0 if style > 0.9 else 1, 3)) for _ in range(count)]
            for topic, count in counts.items()
        }


def colliding_texts(rng: random.Random, count: int) -> list[str]:
    """Makes texts of which many have equal hashes in Java: `Aa` has the hash of `BB`."""
    endings = ["".join(each) for each in product(("Aa", "BB"), repeat=8)]
    return [f"m{rng.choice('xxxy')}{ending}" for ending in rng.sample(endings, count)]
