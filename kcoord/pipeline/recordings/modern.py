"""Makes recordings of the records of consumer groups (KIP-848).

Each target assignment that the coordinator has computed is a generation. Its members are those whose records came
before it. A group whose last member has left gets a new epoch and no target assignment.

The records name topics by their ids in assignments and by their names in subscriptions. The session timeout is a
setting of the broker, and in no record.
"""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from kcoord.assignors.replaying.recording import Generation, RecordedMember
from kcoord.assignors.strategies import STRATEGIES, RebalanceStyle
from kcoord.pipeline.recordings.classic import Durations, NotReplayable
from kcoord.pipeline.schemas import Row
from kcoord.pipeline.transforms.event_types import EPOCH, MEMBER, PATTERN, TARGET, TARGET_EPOCH

_HIGHEST_FIRST_EPOCH: Final = 2  # the first epoch of a new group: 2 in Kafka 4.3
_STRATEGY: Final = "uniform"  # Kafka's default of group.consumer.assignors begins with it
_RANGE: Final = "server-range"


def modern_generations(
    rows: Iterable[Row], durations: Durations, names: Mapping[str, str]
) -> list[tuple[int, Generation]]:
    """Returns the generations of a consumer group, each with the offset of its last record. `rows` are of
    `group_events`, in the order of the log; `names` are those of topics, by id. Raises NotReplayable if an assigned
    topic has no name."""
    return list(_Group(durations, names).generations(rows))


def latest_modern_generation(rows: Iterable[Row], names: Mapping[str, str]) -> Generation | None:
    """Returns what a consumer group is now, from the latest record of each key; None if it has no members. Raises
    NotReplayable if an assigned topic has no name."""
    members_first = sorted(rows, key=lambda row: (row["record_type"] in (EPOCH, TARGET_EPOCH), row["source_offset"]))
    found = modern_generations(members_first, {}, names)
    return found[-1][1] if found and found[-1][1].members else None


class _Group:
    """A consumer group, record by record."""

    def __init__(self, durations: Durations, names: Mapping[str, str]) -> None:
        self._durations = durations
        self._names = names
        self._members: dict[str, dict[str, Any]] = {}
        self._targets: dict[str, dict[str, tuple[int, ...]]] = {}
        self._topics_by_pattern: dict[str, list[str]] = {}
        self._epoch_at: int | None = None
        self._first_epoch: int | None = None

    def generations(self, rows: Iterable[Row]) -> Iterator[tuple[int, Generation]]:
        for row in rows:
            value = None if row["payload"] is None else json.loads(row["payload"])
            kind = row["record_type"]
            if kind == EPOCH and value is None:
                yield row["source_offset"], Generation(number=None, written_ms=row["appended_at"], is_deletion=True)
            elif kind == EPOCH and value is not None:
                self._epoch_at = row["appended_at"]
                self._first_epoch = self._first_epoch or value["epoch"]
                if not self._members:
                    yield row["source_offset"], Generation(number=value["epoch"], written_ms=row["appended_at"])
            elif kind == TARGET_EPOCH and value is not None:
                if self._members:
                    yield row["source_offset"], self._generation(value["assignmentEpoch"], row["appended_at"])
            else:
                self._apply(kind, row, value)

    def _apply(self, kind: int, row: Row, value: dict[str, Any] | None) -> None:
        if kind == PATTERN:
            pattern = json.loads(row["key"])["regularExpression"]
            self._topics_by_pattern[pattern] = [] if value is None else value["topics"]
        elif kind in (MEMBER, TARGET) and value is None:
            (self._members if kind == MEMBER else self._targets).pop(row["member_id"], None)
        elif kind == MEMBER and value is not None:
            self._members[row["member_id"]] = value
        elif kind == TARGET and value is not None:
            self._targets[row["member_id"]] = {
                self._name(each["topicId"]): tuple(each["partitions"]) for each in value["topicPartitions"]
            }

    def _name(self, topic_id: str) -> str:
        if topic_id not in self._names:
            raise NotReplayable(f"the name of its topic {topic_id} is in no record")
        return self._names[topic_id]

    def _generation(self, epoch: int, at_ms: int | None) -> Generation:
        duration = self._durations.get((epoch, self._epoch_at), {})
        return Generation(
            number=epoch,
            written_ms=at_ms,
            joined_ms=at_ms,
            took_ms=duration.get("duration_ms"),
            pause_ms=duration.get("pause_ms"),
            protocol=self._strategy(),
            style=RebalanceStyle.INCREMENTAL,
            members=tuple(self._member(member_id, value) for member_id, value in self._members.items()),
            has_beginning=self._first_epoch is not None and self._first_epoch <= _HIGHEST_FIRST_EPOCH,
        )

    def _strategy(self) -> str:
        """Returns the strategy that most members request, by its name here; the broker's default if none requests one.

        Between two with equally many, Kafka takes the one that its hash table has first (ConsumerGroup's
        preferredServerAssignor). That depends on all requests since the broker loaded the group, so it is in no record:
        the default counts as the first, which is the likelier one.
        """
        requests = Counter(
            str(value["serverAssignor"]) for value in self._members.values() if value.get("serverAssignor")
        )
        name = min(requests, key=lambda each: (-requests[each], each != _STRATEGY, each), default=_STRATEGY)
        named = _RANGE if name == "range" else name
        return named if named in STRATEGIES else name

    def _member(self, member_id: str, value: Mapping[str, Any]) -> RecordedMember:
        matched = self._topics_by_pattern.get(value.get("subscribedTopicRegex") or "", [])
        return RecordedMember(
            member_id=member_id,
            topics=tuple(dict.fromkeys([*(value.get("subscribedTopicNames") or ()), *matched])),
            assigned=self._targets.get(member_id, {}),
            instance_id=value.get("instanceId"),
            client_id=value.get("clientId"),
            client_host=value.get("clientHost"),
            rack=value.get("rackId") or None,
        )
