"""Logs as they are: the batches of partitions from their leaders, as far as transactions have ended.

A fetch is not retried here, and nothing is read into: a reader goes on from what one round brought, and knows how long
it waits. Only that no broker at all answers is raised.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.model import Answers, TopicPartition, by_topic
from kcoord.admin.retry import PATIENT, Round, settle
from kcoord.admin.wire.apis import FETCH, LIST_OFFSETS
from kcoord.admin.wire.brokers import Brokers
from kcoord.admin.wire.logs import CONSUMER_REPLICA, LATEST, PARTITIONS_PER_REQUEST, Logs, Partitions, Wanted
from kcoord.errors import ErrorCode

READ_COMMITTED: Final = 1
RESPONSE_BYTES: Final = 8 * 1024 * 1024
PARTITION_BYTES: Final = 4 * 1024 * 1024
_PER_REQUEST: Final = 200


class Aborted(NamedTuple):
    """A transaction that was aborted: its producer, and where in the partition it begins."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """What one fetch brought of a partition."""

    records: bytes
    """Batches, from the one on that the offset is in; the last may be cut."""
    aborted: tuple[Aborted, ...]
    stable_end: int
    """The last stable offset: what stands behind it may still be aborted."""
    is_crowded: bool
    """Others of the same response have records: that there is nothing may be for want of room."""


class Fetching:
    """The logs of a cluster; who leads them is found out, and found out anew when it has changed."""

    def __init__(self, connection: Connection) -> None:
        self._patience = connection.request_timeout
        self._brokers = Brokers(connection)
        self._logs = Logs(self._brokers, patience=self._patience)

    @property
    def cluster_id(self) -> str | None:
        return self._brokers.cluster_id

    @property
    def logs(self) -> Logs:
        return self._logs

    def once(self, places: Mapping[TopicPartition, int]) -> Round[TopicPartition, Fetched]:
        """One fetch from each leader, each partition from its offset on. The first ones get the most room.

        Raises ConnectionError where no broker can be reached.
        """

        def fields(chunk: Partitions) -> Mapping[str, Any]:
            topics = [{"topic": name, "partitions": [one(tp) for tp in own]} for name, own in by_topic(chunk).items()]
            return {
                "min_bytes": 0,
                "max_bytes": RESPONSE_BYTES,
                "isolation_level": READ_COMMITTED,
                "topics": topics,
            }

        def one(tp: TopicPartition) -> Mapping[str, int]:
            return {"partition": tp.partition, "fetch_offset": places[tp], "partition_max_bytes": PARTITION_BYTES}

        def read(response: Any, answered: Round[TopicPartition, Fetched]) -> None:
            if not response.responses:  # so a broker answers who asks for more than its quota
                for tp in places:
                    answered.refuse(tp, f"partition {tp}", ErrorCode.throttling_quota_exceeded)
            lines = [each for topic in response.responses for each in topic.partitions]
            filled = [each for each in lines if each.records]
            for topic in response.responses:
                for each in topic.partitions:
                    tp = TopicPartition(topic.topic, each.partition_index)
                    if each.error_code is ErrorCode.none:
                        answered.found[tp] = _fetched(each, is_crowded=any(other is not each for other in filled[:2]))
                    else:
                        answered.refuse(tp, f"partition {tp}", each.error_code)

        told: Round[TopicPartition, Fetched] = Round()
        self._logs.ask_leaders(list(places), Wanted(told, FETCH, fields, read, _PER_REQUEST))
        return told

    def stable_ends(self, partitions: Collection[TopicPartition]) -> Answers[TopicPartition, int]:
        """The last stable offset of each. Raises ConnectionError as `once`."""

        def fields(chunk: Partitions) -> Mapping[str, Any]:
            topics = [
                {"name": name, "partitions": [{"partition_index": tp.partition, "timestamp": LATEST} for tp in own]}
                for name, own in by_topic(chunk).items()
            ]
            return {"replica_id": CONSUMER_REPLICA, "isolation_level": READ_COMMITTED, "topics": topics}

        def read(response: Any, answered: Round[TopicPartition, int]) -> None:
            for topic in response.topics:
                for each in topic.partitions:
                    tp = TopicPartition(topic.name, each.partition_index)
                    if each.error_code is ErrorCode.none:
                        answered.found[tp] = each.offset
                    else:
                        answered.refuse(tp, f"partition {tp}", each.error_code)

        def ask(pending: Partitions, told: Round[TopicPartition, int]) -> None:
            self._logs.ask_leaders(pending, Wanted(told, LIST_OFFSETS, fields, read, PARTITIONS_PER_REQUEST))

        return settle(partitions, ask, patience=self._patience, may_last=PATIENT)

    def close(self) -> None:
        self._brokers.close()


def _fetched(line: Any, *, is_crowded: bool) -> Fetched:
    return Fetched(
        records=line.records or b"",
        aborted=tuple(Aborted(each.producer_id, each.first_offset) for each in line.aborted_transactions or ()),
        stable_end=line.last_stable_offset,
        is_crowded=is_crowded,
    )
