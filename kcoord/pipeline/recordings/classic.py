"""Makes recordings of the rows of classic groups, as transforms.generation_log has them."""

from collections.abc import Iterable, Mapping
from typing import Final, TypeAlias

from kcoord.assignors.replaying.recording import Generation, RecordedMember
from kcoord.exceptions import InvalidInput
from kcoord.pipeline.schemas import Row

CONSUMER: Final = "consumer"
"""The protocol type of groups whose subscriptions Kafka's assignors read."""

Commits: TypeAlias = Mapping[str, int]  # when one of a member's partitions was last committed, by member id
Durations: TypeAlias = Mapping[tuple[int | None, int | None], Row]  # of rebalances, by generation and its time


class NotReplayable(InvalidInput, ValueError):
    """Raised for a group whose history strategies cannot be replayed over; the message is the reason."""


def classic_generations(
    rows: Iterable[Row], durations: Durations, commits: Mapping[int, Commits]
) -> list[tuple[int, Generation]]:
    """Returns the generations of a classic group, each with the offset of its record. `commits` are those while a
    generation lasted, by this offset. Raises NotReplayable if Kafka's assignors cannot have planned for the group."""
    found = []
    for row in rows:
        _check(row)
        offset = row["source_offset"]
        found.append((offset, _generation(row, durations, commits.get(offset, {}))))
    return found


def _check(row: Row) -> None:
    if not row["members"]:
        return
    if row["protocol_type"] != CONSUMER:
        raise NotReplayable(f"its protocol type is {row['protocol_type']!r}, and the strategies are of consumers")
    if not all(each["is_readable"] for each in row["members"]):
        raise NotReplayable(f"a subscription in its generation {row['generation']} cannot be read")


def _generation(row: Row, durations: Durations, commits: Commits) -> Generation:
    duration = durations.get((row["generation"], row["appended_at"]), {})
    return Generation(
        number=row["generation"],
        written_ms=row["appended_at"],
        joined_ms=row["state_since"],
        took_ms=duration.get("duration_ms"),
        pause_ms=duration.get("pause_ms"),
        protocol=row["protocol"],
        members=tuple(_member(each, commits) for each in row["members"] or ()),
        is_deletion=row["tombstone"],
    )


def _member(row: Row, commits: Commits) -> RecordedMember:
    assigned = {each["topic"]: tuple(each["partitions"]) for each in row["assigned"] or ()}
    return RecordedMember(
        member_id=row["member_id"],
        topics=tuple(row["topics"]),
        assigned=assigned,
        instance_id=row["instance_id"],
        client_id=row["client_id"],
        client_host=row["client_host"],
        session_timeout_ms=row["session_timeout_ms"],
        rack=row["rack"],
        claims=bool(row["claims"]),
        last_commit_ms=commits.get(row["member_id"]),
    )
