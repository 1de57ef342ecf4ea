"""A client's connection as interceptors see it, for tests of local coordination without a proxy."""

import asyncio
from datetime import timedelta
from itertools import count
from typing import Any, Protocol

from kcoord.api_keys import ApiKey
from kcoord.client.client_codec import kio_codec
from kcoord.protocol.headers import RequestHeader
from kcoord.proxy.forwarding.interceptors import Answer, ClientInfo, Decision, Handle, Pass, Request

_LENGTH = 4
_TIMEOUT = 60.0


class HungUp(ConnectionError):
    """The coordination has hung up on this client."""


class Coordination(Protocol):
    """The part of an Interceptor that a guest calls."""

    def request(self, client: ClientInfo, request: Request) -> Decision: ...

    def on_closed(self, client: ClientInfo) -> None: ...


class Guest:
    def __init__(self, coordination: Coordination, *, node_id: int | None = 1, peer: str = "10.0.0.7:40000"):
        self.node_id = node_id
        self.peer = peer
        self.host = peer.rpartition(":")[0]
        self.principal = None
        self.client_id = "guest"
        self.reason = ""
        self._coordination = coordination
        self._numbers = count(1)
        self._answer: asyncio.Future[bytes] | None = None

    async def ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """Sends a request and returns the response. Raises HungUp."""
        return await self.reply_to(self.begin(api_key, version, **fields))

    def begin(self, api_key: int, version: int, *, truncated: int = 0, **fields: Any) -> "SentRequest":
        """Sends a request without waiting: its future is `answered`. `truncated` bytes are cut off at its end."""
        number = next(self._numbers)
        client_codec = kio_codec(api_key, version)
        frame = client_codec.encode_request(RequestHeader(api_key, version, number, "guest"), fields)[_LENGTH:]
        frame = frame[: len(frame) - truncated]
        request = Request(frame=frame, api_key=api_key, api_version=version, correlation_id=number)
        decision = self._coordination.request(self, request)
        self._answer = asyncio.get_running_loop().create_future()
        asked = SentRequest(decision, client_codec, self._answer)
        if isinstance(decision, Answer):
            self.answer(decision.pieces)
        elif isinstance(decision, Handle):
            decision.begin()
        return asked

    async def reply_to(self, asked: "SentRequest") -> Any:
        assert not isinstance(asked.decision, Pass), "the proxy passes it on"
        async with asyncio.timeout(_TIMEOUT):
            _, response = asked.client_codec.decode_response((await asked.answered)[_LENGTH:])
        return response

    def leave(self) -> None:
        self._coordination.on_closed(self)

    # interceptors.ClientInfo

    def answer(self, pieces: list[bytes]) -> None:
        assert self._answer is not None
        self._answer.set_result(b"".join(pieces))

    def hang_up(self, reason: str) -> None:
        self.reason = reason
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(HungUp(reason))
        self._coordination.on_closed(self)


class SentRequest:
    def __init__(self, decision: Decision, client_codec: Any, answered: "asyncio.Future[bytes]") -> None:
        self.decision = decision
        self.client_codec = client_codec
        self.answered = answered


SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x06orders\xff\xff\xff\xff"


def join_fields(group: str, member_id: str = "") -> dict[str, Any]:
    return {
        "group_id": group,
        "session_timeout": timedelta(seconds=45),
        "rebalance_timeout": timedelta(seconds=60),
        "member_id": member_id,
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
    }


def sync_fields(group: str, member_id: str, generation: int) -> dict[str, Any]:
    """Returns the fields of a leader's SyncGroup, which assigns everything to itself."""
    plan = [{"member_id": member_id, "assignment": b"mine"}]
    return {**member_fields(group, member_id, generation), "assignments": plan}


def member_fields(group: str, member_id: str, generation: int) -> dict[str, Any]:
    return {"group_id": group, "generation_id": generation, "member_id": member_id, "group_instance_id": None}


async def join_alone(guest: Guest, group: str) -> tuple[str, int]:
    """Joins and syncs as the only member of a group, then Stable; returns the member id and the generation."""
    given = await guest.ask(ApiKey.JOIN_GROUP, 4, **join_fields(group))
    joined = await guest.ask(ApiKey.JOIN_GROUP, 4, **join_fields(group, given.member_id))
    synced = await guest.ask(ApiKey.SYNC_GROUP, 3, **sync_fields(group, joined.member_id, joined.generation_id))
    assert synced.assignment == b"mine", (given, joined, synced)
    return joined.member_id, joined.generation_id


def commit_fields(group: str, topic: str, offsets: dict[int, int], **more: Any) -> dict[str, Any]:
    """Returns the fields of an OffsetCommit with topic names, from no member unless `more` states one."""
    partitions = [
        {
            "partition_index": partition,
            "committed_offset": offset,
            "committed_leader_epoch": 5,
            "committed_metadata": "",
        }
        for partition, offset in offsets.items()
    ]
    return {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{"name": topic, "partitions": partitions}],
        **more,
    }


def commit_errors(response: Any) -> set[Any]:
    return {each.error_code for topic in response.topics for each in topic.partitions}


async def offsets_of(guest: Guest, group: str) -> dict[tuple[str, int], tuple[int, int, str]]:
    """Returns offset, leader epoch and metadata of each partition. Raises AssertionError if it is refused."""
    asked = [{"group_id": group, "member_id": None, "member_epoch": -1, "topics": None}]
    response = await guest.ask(ApiKey.OFFSET_FETCH, 9, groups=asked, require_stable=False)
    (group_result,) = response.groups
    assert group_result.error_code.value == 0, group_result.error_code
    return {
        (topic.name, each.partition_index): (each.committed_offset, each.committed_leader_epoch, each.metadata or "")
        for topic in group_result.topics
        for each in topic.partitions
    }
