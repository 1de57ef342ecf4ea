"""A hundred groups of every kind and in every state, made with plain requests on a broker, and on kcoord.

Some kinds are served only by a broker, and are not made on kcoord.

| groups                            | their records in the journal                                            |
|-----------------------------------|-------------------------------------------------------------------------|
| simple, noted, by-id, expiring    | offsets only: bare, with texts and leader epochs, by topic id, v2–4     |
| stable, static, connect           | a group with members and their assignments, offsets of the members      |
| empty, unused                     | a group whose members left; one whose only member never came back       |
| gone, gone-stable, thinned        | tombstones: of a group, of one that had members, of single offsets      |
| consumers, left, moving, upgraded | KIP-848: stable members, none, one that must revoke more; once classic  |
| sharing, streaming                | records of share and streams groups                                     |
| committed, aborted, open          | offsets of transactions                                                 |
| undone, overtaken                 | the same, deleted or committed again before the transaction ended       |
"""

from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any, Final
from uuid import UUID

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from tests.support.differential.pair import wait_until
from tests.support.logs.log_dump_scene import (
    NOT_YET,
    PARTITIONS,
    TOPIC,
    LogScene,
    consumer_assignment,
    consumer_subscription,
)

HOUR: Final = timedelta(hours=1)
SESSION: Final = timedelta(minutes=20)
OTHER_TOPIC: Final = "payments"
LOWEST_HASH: Final = "polygenelubricants"
"""A group id whose hash has no absolute value, so that its partition is 0."""
SETTINGS: Final = {
    "group.consumer.session.timeout.ms": "1200000",
    "group.consumer.max.session.timeout.ms": "1200000",
    "transaction.state.log.num.partitions": "1",
    "share.coordinator.state.topic.num.partitions": "1",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Seat:
    """A member of a Stable classic group."""

    group_id: str
    member_id: str
    instance_id: str | None
    generation: int
    is_leader: bool


class GroupsOfAllKinds(LogScene):
    """Creates the groups, and remembers their names and members."""

    def __init__(self, bootstrap: str) -> None:
        super().__init__(bootstrap)
        host, _, port = bootstrap.rpartition(":")
        self._address = (host, int(port))
        self.seats: list[Seat] = []
        self.group_ids: list[str] = []
        self.deleted_ids: list[str] = []
        other = {"name": OTHER_TOPIC, "num_partitions": 2, "replication_factor": 1}
        made = self._client.ask(ApiKey.CREATE_TOPICS, 7, topics=[other], timeout=HOUR)
        self.other_topic_id: UUID = made.topics[0].topic_id

    def make_classic(self) -> None:
        self._make_simple()
        self._make_members()
        for group_id in self._named("empty", 10):
            (seat,) = self.classic(group_id)
            self.commit_as(seat, 500)
            self.leave(seat)
        for group_id in self._named("unused", 2):
            self.knock(group_id)
        self._delete_some()

    def make_others(self) -> None:
        """Creates the groups that only a broker serves."""
        for group_id in self._named("consumers", 12):
            epoch = self.consumers(group_id)
            self.commit_with_texts(group_id, offset=700, member_id="member-0", generation=epoch)
        for group_id in self._named("left", 5):
            epoch = self.consumers(group_id)
            self.commit_with_texts(group_id, offset=800, member_id="member-0", generation=epoch)
            self._heartbeat_848(group_id, "member-0", -1)
        for group_id in self._named("moving", 2):
            self.moving_consumers(group_id)
        for group_id in self._named("upgraded", 1):
            self.upgraded_group(group_id)
        for group_id in self._named("sharing", 2):
            self.share_group(group_id)
        for group_id in self._named("streaming", 1):
            self.streams_group(group_id)
        self._make_transactions()

    def make_open(self) -> None:
        """Opens a transaction, and commits behind it: neither is compacted."""
        for group_id in self._named("open", 1):
            self.commit_with_texts(group_id, offset=901)
            self.open_transaction(group_id)
        for group_id in self._named("later", 1):
            self.commit_with_texts(group_id, offset=904)

    def fill_a_segment(self) -> None:
        """Commits over a mebibyte, of which only the last commit counts: a segment cannot be smaller."""
        random = Random(1)
        for number in range(130):
            texts = [b64encode(random.randbytes(3000)).decode() for _ in range(PARTITIONS)]  # hard to compress
            self.commit_lines("talkative", [line_of(index, number, text) for index, text in enumerate(texts)])
        self.group_ids.append("talkative")

    def classic(self, group_id: str, *, members: int = 1, is_static: bool = False, **joining: Any) -> list[Seat]:
        """Creates a stable group; its leader is the first member."""
        with ExitStack() as stack:
            clients = [stack.enter_context(Client(*self._address, client_id=f"c{n}")) for n in range(members)]
            asked = [
                _joining(group_id, instance_id=f"{group_id}-i{number}" if is_static else None, **joining)
                for number in range(members)
            ]
            version = 5 if is_static else 3  # version 3 has no instance ids, but assigns a member id at once
            answers = [self._good(lambda: clients[0].ask(ApiKey.JOIN_GROUP, version, **asked[0]))]
            for number in range(1, members):
                clients[number].send(ApiKey.JOIN_GROUP, version, **asked[number])
                wait_until(lambda: self._state(group_id) == "PreparingRebalance")
                for before in range(number):
                    asked[before]["member_id"] = answers[before].member_id
                    clients[before].send(ApiKey.JOIN_GROUP, version, **asked[before])
                answers = [client.receive(ApiKey.JOIN_GROUP, version) for client in clients[: number + 1]]
            seats = [
                Seat(
                    group_id=group_id,
                    member_id=answer.member_id,
                    instance_id=line["group_instance_id"],
                    generation=answer.generation_id,
                    is_leader=answer.leader == answer.member_id,
                )
                for answer, line in zip(answers, asked, strict=True)
            ]
            self._sync(clients, seats)
        return sorted(seats, key=lambda seat: not seat.is_leader)

    def knock(self, group_id: str) -> None:
        """Joins as a member that is given an id, and never uses it."""
        asked = _joining(group_id)
        given = ErrorCode.member_id_required
        wait_until(lambda: self._client.ask(ApiKey.JOIN_GROUP, 5, **asked).error_code is given)

    def _sync(self, clients: Sequence[Client], seats: Sequence[Seat]) -> None:
        plan = [{"member_id": seat.member_id, "assignment": consumer_assignment(TOPIC)} for seat in seats]
        for client, seat in zip(clients, seats, strict=True):
            client.send(ApiKey.SYNC_GROUP, 3, **as_member(seat), assignments=plan if seat.is_leader else [])
        for client in clients:
            assert not client.receive(ApiKey.SYNC_GROUP, 3).error_code

    def commit_with_texts(self, group_id: str, *, offset: int, member_id: str = "", generation: int = -1) -> None:
        """Commits with metadata and leader epochs."""
        lines = [line_of(index, offset + index, f"note {index} ä", index - 1) for index in range(PARTITIONS)]
        self.commit_lines(group_id, lines, member_id=member_id, generation_id_or_member_epoch=generation)

    def commit_as(self, seat: Seat, offset: int) -> None:
        lines = [line_of(index, offset + index) for index in range(PARTITIONS)]
        member = as_member(seat)
        member["generation_id_or_member_epoch"] = member.pop("generation_id")
        self.commit_lines(member.pop("group_id"), lines, **member)

    def commit_lines(
        self, group_id: str, lines: Sequence[dict[str, Any]], *, topic: str = TOPIC, version: int = 9, **fields: Any
    ) -> None:
        topic_id = self.topic_id if topic == TOPIC else self.other_topic_id
        topics = [{"name": topic, "topic_id": topic_id, "partitions": list(lines)}]

        def is_committed() -> bool:
            answer = self._client.ask(ApiKey.OFFSET_COMMIT, version, group_id=group_id, topics=topics, **fields)
            errors = {line.error_code for each in answer.topics for line in each.partitions}
            assert errors <= {ErrorCode.none, *NOT_YET}, answer
            return not any(errors)

        wait_until(is_committed)

    def leave(self, seat: Seat) -> None:
        member = {"member_id": seat.member_id, "group_instance_id": seat.instance_id}
        self._good(lambda: self._client.ask(ApiKey.LEAVE_GROUP, 4, group_id=seat.group_id, members=[member]))

    def consumers(self, group_id: str) -> int:
        """Creates a KIP-848 group of one member with its whole target assignment; returns its epoch."""
        answers = [self._heartbeat_848(group_id, "member-0", 0)]

        def is_stable() -> bool:
            plans = [answer.assignment for answer in answers if answer.assignment is not None]
            owned = self._owned(plans[-1].topic_partitions[0].partitions) if plans else None
            answers.append(self._heartbeat_848(group_id, "member-0", answers[-1].member_epoch, owned))
            return bool(owned) and self._listed_state(group_id) == "Stable"

        wait_until(is_stable)
        return int(answers[-1].member_epoch)

    def moving_consumers(self, group_id: str) -> None:
        """Creates a group whose first member must revoke a partition for the second, and has not done so."""
        epoch, owned = self.consumers(group_id), self._owned(range(PARTITIONS))
        self._heartbeat_848(group_id, "member-1", 0)

        def is_assigned() -> bool:
            self._heartbeat_848(group_id, "member-0", epoch, owned)
            return self._listed_state(group_id) == "Reconciling"

        wait_until(is_assigned)

    def open_transaction(self, group_id: str) -> dict[str, Any]:
        """Commits an offset in a transaction that stays open; returns what is needed to end it."""
        name = f"{group_id}-writer"
        wait_until(lambda: not self._client.ask(ApiKey.FIND_COORDINATOR, 3, key=name, key_type=1).error_code)
        asked = {"transactional_id": name, "transaction_timeout": timedelta(minutes=15)}
        made = self._good(lambda: self._client.ask(ApiKey.INIT_PRODUCER_ID, 4, **asked))
        who = {"transactional_id": name, "producer_id": made.producer_id, "producer_epoch": made.producer_epoch}
        self._good(lambda: self._client.ask(ApiKey.ADD_OFFSETS_TO_TXN, 3, **who, group_id=group_id))
        topics = [{"name": TOPIC, "partitions": [line_of(0, 9999)]}]
        answer = self._client.ask(ApiKey.TXN_OFFSET_COMMIT, 3, **who, group_id=group_id, topics=topics)
        assert not answer.topics[0].partitions[0].error_code, answer
        return who

    def commit_transaction(self, who: Mapping[str, Any]) -> None:
        self._good(lambda: self._client.ask(ApiKey.END_TXN, 3, **who, committed=True))
        asked = {**who, "transaction_timeout": timedelta(minutes=15)}
        self._good(
            lambda: self._client.ask(ApiKey.INIT_PRODUCER_ID, 4, **asked)
        )  # refused until the markers are written

    def _make_simple(self) -> None:
        for number, group_id in enumerate(self._named("simple", 25)):
            self.commit_lines(group_id, [line_of(0, 1000 + number)])
            self.commit_lines(group_id, [line_of(index, 2000 + number) for index in range(1 + number % PARTITIONS)])
            self.commit_lines(group_id, [line_of(1, 3000 + number)], topic=OTHER_TOPIC)
        self.commit_lines(LOWEST_HASH, [line_of(0, 4000)])
        self.group_ids.append(LOWEST_HASH)
        for group_id in self._named("noted", 5):
            self.commit_with_texts(group_id, offset=41)
        for group_id in self._named("by-id", 5):
            self.commit_lines(group_id, [line_of(2, 43, "by id", 5)], version=10)
        for version, group_id in zip((2, 3, 4), self._named("expiring", 3), strict=True):
            self.commit_lines(group_id, [line_of(0, 44, "old")], version=version, retention_time=HOUR)

    def _make_members(self) -> None:
        for number, group_id in enumerate(self._named("stable", 12)):
            seats = self.classic(group_id, members=1 + number % 3)
            self.commit_as(seats[-1], 300 + number)
            self.seats += seats
        for group_id in self._named("static", 6):
            seats = self.classic(group_id, members=2, is_static=True)
            self.commit_as(seats[0], 400)
            self.seats += seats
        for group_id in self._named("connect", 3):
            self.seats += self.classic(group_id, protocol_type="connect", subscription=b"\x00\xff")

    def _delete_some(self) -> None:
        for group_id in self._named("gone", 4):
            self.commit_with_texts(group_id, offset=600)
            self.delete_group(group_id)
            self.deleted_ids.append(group_id)
        for group_id in self._named("gone-stable", 2):
            (seat,) = self.classic(group_id)
            self.commit_as(seat, 601)
            self.leave(seat)
            self.delete_group(group_id)
            self.deleted_ids.append(group_id)
        for group_id in self._named("thinned", 3):
            self.commit_with_texts(group_id, offset=602)
            self.delete_offsets(group_id)

    def _make_transactions(self) -> None:
        for group_id in self._named("committed", 1):
            self.transaction(group_id, commits=True)
        for group_id in self._named("aborted", 1):
            self.commit_with_texts(group_id, offset=900)
            self.transaction(group_id, commits=False)
        for group_id in self._named("undone", 1):
            self.commit_with_texts(group_id, offset=902)
            who = self.open_transaction(group_id)
            self.delete_offsets(group_id)
            self.commit_transaction(who)
        for group_id in self._named("overtaken", 1):
            who = self.open_transaction(group_id)
            self.commit_with_texts(group_id, offset=903)
            self.commit_transaction(who)

    def _heartbeat_848(
        self, group_id: str, member_id: str, epoch: int, owned: Sequence[dict[str, Any]] | None = None
    ) -> Any:
        """Sends the heartbeat of a member that joins (epoch 0), leaves (-1), or reports its assignment."""
        asked = {
            "group_id": group_id,
            "member_id": member_id,
            "member_epoch": epoch,
            "rebalance_timeout": SESSION,
            "subscribed_topic_names": [TOPIC] if epoch == 0 else None,
            "topic_partitions": [] if epoch == 0 else owned,
        }
        return self._good(lambda: self._client.ask(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **asked))

    def _owned(self, partitions: Iterable[int]) -> list[dict[str, Any]]:
        return [{"topic_id": self.topic_id, "partitions": list(partitions)}]

    def _named(self, name: str, count: int) -> Iterator[str]:
        """Yields so many group ids, each on demand."""
        for number in range(count):
            group_id = f"{name}-{number}"
            self.group_ids.append(group_id)
            yield group_id

    def _state(self, group_id: str) -> str:
        (group,) = self._client.ask(ApiKey.DESCRIBE_GROUPS, 5, groups=[group_id]).groups
        return str(group.group_state)

    def _listed_state(self, group_id: str) -> str:
        """Returns the state of a group of any kind."""
        groups = self._client.ask(ApiKey.LIST_GROUPS, 5, states_filter=[], types_filter=[]).groups
        return next(str(group.group_state) for group in groups if group.group_id == group_id)


def _joining(
    group_id: str, *, instance_id: str | None = None, protocol_type: str = "consumer", subscription: bytes | None = None
) -> dict[str, Any]:
    metadata = consumer_subscription(TOPIC) if subscription is None else subscription
    protocols = [{"name": "range", "metadata": metadata}]
    if instance_id:
        protocols.append({"name": "roundrobin", "metadata": b"another"})
    return {
        "group_id": group_id,
        "session_timeout": SESSION,
        "rebalance_timeout": SESSION,
        "member_id": "",
        "group_instance_id": instance_id,
        "protocol_type": protocol_type,
        "protocols": protocols,
    }


def joining_as(seat: Seat, *, member_id: str | None = None) -> dict[str, Any]:
    """Returns the JoinGroup fields with which this member joins again, under its id or under another."""
    asked = _joining(seat.group_id, instance_id=seat.instance_id)
    return {**asked, "member_id": seat.member_id if member_id is None else member_id}


def as_member(seat: Seat) -> dict[str, Any]:
    return {
        "group_id": seat.group_id,
        "generation_id": seat.generation,
        "member_id": seat.member_id,
        "group_instance_id": seat.instance_id,
    }


def line_of(partition: int, offset: int, text: str = "", leader_epoch: int = -1) -> dict[str, Any]:
    return {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_leader_epoch": leader_epoch,
        "committed_metadata": text,
    }
