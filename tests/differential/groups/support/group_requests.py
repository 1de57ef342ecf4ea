"""Group requests as data: the actor and the values, with names in place of values that only responses contain.

A sequence is played against two clusters that generate ids of their own. So a step never contains a member id: it names
"the id that actor 3 was given", and each side resolves it when the step is played. Leaving out steps, while a sequence
is shortened, changes other steps only through the responses that they would have used.
"""

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from kcoord.api_keys import ApiKey
from kcoord.protocol.codec import request_type
from kcoord.protocol.entity_fields import shape_of

VERSIONS: Final[Mapping[int, range]] = {
    ApiKey.OFFSET_COMMIT: range(2, 11),
    ApiKey.OFFSET_FETCH: range(1, 11),
    ApiKey.FIND_COORDINATOR: range(7),
    ApiKey.JOIN_GROUP: range(10),
    ApiKey.HEARTBEAT: range(5),
    ApiKey.LEAVE_GROUP: range(6),
    ApiKey.SYNC_GROUP: range(6),
    ApiKey.DESCRIBE_GROUPS: range(7),
    ApiKey.LIST_GROUPS: range(6),
    ApiKey.DELETE_GROUPS: range(3),
    ApiKey.OFFSET_DELETE: range(1),
}
MAY_PARK: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})

_SHOWN: Final = 80  # the length of a text or of bytes

LONG: Final = timedelta(seconds=60)
"""A session or a rebalance that outlives every sequence."""

Protocols = Sequence[tuple[str, bytes]]


# The names that a request may contain in place of a value.


@dataclass(frozen=True, slots=True)
class Group:
    """The id of one of the sequence's groups."""

    number: int = 0
    more: str = ""

    def __str__(self) -> str:
        return f"group {self.number}{self.more}"


@dataclass(frozen=True, slots=True)
class MemberId:
    """The id that the actor was given last, or `back` ids before; empty if there is none."""

    actor: int
    back: int = 0

    def __str__(self) -> str:
        return f"actor {self.actor}'s {'earlier ' * self.back}id"


@dataclass(frozen=True, slots=True)
class Generation:
    """The generation that the actor last joined, or one near it; it counts from -1 if there was none."""

    actor: int
    plus: int = 0

    def __str__(self) -> str:
        return f"actor {self.actor}'s generation{self.plus:+}" if self.plus else f"actor {self.actor}'s generation"


@dataclass(frozen=True, slots=True)
class ChosenProtocol:
    """The protocol in the actor's last JoinGroup response."""

    actor: int

    def __str__(self) -> str:
        return f"actor {self.actor}'s protocol"


@dataclass(frozen=True, slots=True)
class Plan:
    """Assignments for the members that the actor leads; empty for followers."""

    actor: int
    leave_out: int = 0
    strangers: int = 0

    def __str__(self) -> str:
        return f"actor {self.actor}'s plan, without {self.leave_out} members, with {self.strangers} strangers"


@dataclass(frozen=True, slots=True)
class TopicId:
    topic: str

    def __str__(self) -> str:
        return f"id of {self.topic}"


@dataclass(frozen=True, slots=True)
class Grids:
    """A time that ends between two waits: see group_times."""

    count: float

    def __str__(self) -> str:
        return f"{self.count} grids"


# The steps of an actor.


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """One request; if the actor has a parked request, on another connection."""

    actor: int
    api_key: ApiKey
    version: int
    values: Mapping[str, Any]

    def __str__(self) -> str:
        known = {field.name for field in shape_of(request_type(self.api_key, self.version)).plain}
        given = [f"{name}: {_shown(value)}" for name, value in self.values.items() if name in known]
        return f"actor {self.actor}: {self.api_key.title} version {self.version}: {', '.join(given)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoOn:
    """An actor without a parked request sends what a client would send next: join, sync or heartbeat."""

    turn: int  # selects the actor
    dial: int  # selects the version


@dataclass(frozen=True, slots=True, kw_only=True)
class HangUp:
    """Closes the actor's connections, with or without parked requests."""

    actor: int


@dataclass(frozen=True, slots=True)
class Wait:
    """Lets time pass: see group_times."""


Step = Ask | GoOn | HangUp | Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """The properties of an actor that its JoinGroup contains."""

    group: int = 0
    instance_id: str | None = None
    protocol_type: str = "consumer"
    protocols: Protocols = (("range", b""),)
    session_timeout: timedelta | Grids = LONG
    rebalance_timeout: timedelta | Grids = LONG
    join_versions: range = VERSIONS[ApiKey.JOIN_GROUP]

    def join(self, member_id: Any = "", **changed: Any) -> dict[str, Any]:
        """Returns the values of this actor's JoinGroup."""
        values: dict[str, Any] = {
            "group_id": Group(self.group),
            "member_id": member_id,
            "group_instance_id": self.instance_id,
            "protocol_type": self.protocol_type,
            "protocols": self.protocols,
            "session_timeout": self.session_timeout,
            "rebalance_timeout": self.rebalance_timeout,
            **changed,
        }
        values["protocols"] = [{"name": name, "metadata": metadata} for name, metadata in values["protocols"]]
        return values

    def as_member(self, actor: int, **changed: Any) -> dict[str, Any]:
        """Returns the values that identify this actor in SyncGroup, Heartbeat and OffsetCommit."""
        generation = changed.pop("generation", Generation(actor))
        return {
            "group_id": Group(self.group),
            "member_id": MemberId(actor),
            "generation_id": generation,
            "generation_id_or_member_epoch": generation,
            "group_instance_id": self.instance_id,
            **changed,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """The actors, and the steps in their order."""

    actors: Sequence[Profile]
    steps: Sequence[Step]

    @property
    def is_timed(self) -> bool:
        return any(isinstance(step, Wait) for step in self.steps)

    def only(self, indexes: Sequence[int]) -> "Scenario":
        """Returns the same actors with some of the steps."""
        return replace(self, steps=[self.steps[index] for index in indexes])


def subscription(*topics: str, version: int = 1) -> bytes:
    """Encodes a consumer's subscription: the topics, no user data, no owned partitions."""
    named = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    owned = struct.pack(">i", 0) if version >= 1 else b""
    return struct.pack(">hi", version, len(topics)) + named + struct.pack(">i", -1) + owned


def committed(topic: str, offsets: Mapping[int, int], **options: Any) -> dict[str, Any]:
    """Returns a topic of an OffsetCommit, by name and by id: each version uses the one that it has."""
    lines = [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": "", **options}
        for index, offset in offsets.items()
    ]
    return {"name": topic, "topic_id": TopicId(topic), "partitions": lines}


def fetch_of(group: Any, topics: Mapping[str, Sequence[int]] | None, **options: Any) -> dict[str, Any]:
    """Returns the values of an OffsetFetch of one group, in the form up to version 7 and in the one from 8 on."""
    lines = topics and [
        {"name": topic, "topic_id": TopicId(topic), "partition_indexes": list(indexes)}
        for topic, indexes in topics.items()
    ]
    asked = {"group_id": group, "topics": lines, **options}
    return {**asked, "groups": [asked]}


def deleted(topic: str, partitions: Sequence[int]) -> dict[str, Any]:
    """Returns a topic of an OffsetDelete."""
    return {"name": topic, "partitions": [{"partition_index": index} for index in partitions]}


def leave_of(group: Any, *members: tuple[Any, str | None], **options: Any) -> dict[str, Any]:
    """Returns the values of a LeaveGroup: from version 3 on for all of these members, before that for the first."""
    lines = [{"member_id": member_id, "group_instance_id": instance, **options} for member_id, instance in members]
    return {"group_id": group, "member_id": members[0][0] if members else "", "members": lines}


def _shown(value: Any) -> str:
    """Formats a value of a request for a reader."""
    match value:
        case Mapping():
            return "{" + ", ".join(f"{name}: {_shown(part)}" for name, part in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(_shown, value)) + "]"
        case str() | bytes():
            return repr(value) if len(value) <= _SHOWN else f"{value[:_SHOWN]!r}…({len(value)})"
    return str(value)
