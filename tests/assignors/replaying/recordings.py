"""Writes recordings of groups down briefly: generations of members with what was assigned to them."""

from collections.abc import Sequence
from typing import Any, Final

from kcoord.assignors.replaying.recording import Generation, RecordedMember

TOPIC: Final = "orders"
SESSION_TIMEOUT_MS: Final = 45_000


def member(name: str, partitions: Sequence[int] = (), **others: Any) -> RecordedMember:
    """Returns a member with these partitions. Its client id is its name up to a dash, so a-1 and a-2 are the same."""
    facts: dict[str, Any] = {
        "member_id": name,
        "topics": (TOPIC,),
        "assigned": {TOPIC: tuple(partitions)} if partitions else {},
        "client_id": name.partition("-")[0],
        "client_host": "/10.0.0.1",
        "session_timeout_ms": SESSION_TIMEOUT_MS,
    }
    return RecordedMember(**(facts | others))


def generation(seconds: float, number: int, *members: RecordedMember, **others: Any) -> Generation:
    """Returns a generation that was written at this time, after 100 ms, around which nothing was committed for 3 s."""
    at_ms = round(seconds * 1000)
    facts: dict[str, Any] = {
        "number": number,
        "written_ms": at_ms,
        "joined_ms": at_ms,
        "took_ms": 100,
        "pause_ms": 3000,
        "protocol": "range",
    }
    return Generation(members=members, **(facts | others))
