"""Fetches logs as they are: the batches of partitions from their leaders, up to the last stable offset.

A fetch is not retried here, and batches are not parsed: a reader continues from what one round returned, and decides
how long it waits. An exception is raised only if no broker answers at all.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.model import Answers, Resource, TopicPartition, by_topic
from kcoord.admin.retry import NO_ERROR_TIMEOUTS, Attempt, retry_until_resolved
from kcoord.admin.wire.apis import FETCH, LIST_OFFSETS
from kcoord.admin.wire.brokers import Brokers
from kcoord.admin.wire.logs import CONSUMER_REPLICA, LATEST, PARTITIONS_PER_REQUEST, Logs, PartitionQuery, Partitions
from kcoord.errors import ErrorCode

READ_COMMITTED: Final = 1
RESPONSE_BYTES: Final = 8 * 1024 * 1024
PARTITION_BYTES: Final = 4 * 1024 * 1024
_PER_REQUEST: Final = 200


class Aborted(NamedTuple):
    """An aborted transaction in fetched records: its producer id, and the offset where it begins in the partition."""

    producer_id: int
    first_offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetched:
    """The result of one Fetch of a partition: its record batches as bytes, its aborted transactions, and its last
    stable offset."""

    records: bytes
    """Batches, beginning with the one that contains the offset; the last may be truncated."""
    aborted: tuple[Aborted, ...]
    stable_end: int
    """The last stable offset: what is behind it may still be aborted."""
    is_crowded: bool
    """Whether other partitions of the response have records: an empty result may then be due to the size limit."""


class LogFetcher:
    """A client that fetches the raw record batches of partitions from their leaders; leaders are looked up, and looked
    up again when they have changed."""

    def __init__(self, connection: Connection) -> None:
        self._timeout = connection.request_timeout
        self._brokers = Brokers(connection)
        self._logs = Logs(self._brokers, timeout=self._timeout)

    @property
    def cluster_id(self) -> str | None:
        """The cluster's id; None if the broker does not report one."""
        return self._brokers.cluster_id

    @property
    def logs(self) -> Logs:
        """The topics and logs of the cluster, over the same connections."""
        return self._logs

    def fetch_once(self, positions: Mapping[TopicPartition, int]) -> Attempt[TopicPartition, Fetched]:
        """Sends one Fetch to each leader, each partition from its offset on, and returns the batches by partition. The
        first partitions get the most space.

        Raises ConnectionError if no broker can be reached.
        """

        def fields(chunk: Partitions) -> Mapping[str, Any]:
            topics = [{"topic": name, "partitions": [one(tp) for tp in tps]} for name, tps in by_topic(chunk).items()]
            return {
                "min_bytes": 0,
                "max_bytes": RESPONSE_BYTES,
                "isolation_level": READ_COMMITTED,
                "topics": topics,
            }

        def one(tp: TopicPartition) -> Mapping[str, int]:
            return {"partition": tp.partition, "fetch_offset": positions[tp], "partition_max_bytes": PARTITION_BYTES}

        def read(response: Any, answered: Attempt[TopicPartition, Fetched]) -> None:
            if not response.responses:  # a broker answers so to a client beyond its quota
                for tp in positions:
                    answered.refuse(tp, Resource.PARTITION, tp, ErrorCode.throttling_quota_exceeded)
            partitions = [each for topic in response.responses for each in topic.partitions]
            filled = [each for each in partitions if each.records]
            for topic in response.responses:
                for each in topic.partitions:
                    tp = TopicPartition(topic.topic, each.partition_index)
                    if each.error_code is ErrorCode.none:
                        answered.found[tp] = _fetched(each, is_crowded=any(other is not each for other in filled[:2]))
                    else:
                        answered.refuse(tp, Resource.PARTITION, tp, each.error_code)

        attempt: Attempt[TopicPartition, Fetched] = Attempt()
        self._logs.ask_leaders(list(positions), PartitionQuery(attempt, FETCH, fields, read, _PER_REQUEST))
        return attempt

    def stable_ends(self, partitions: Collection[TopicPartition]) -> Answers[TopicPartition, int]:
        """Fetches the last stable offset of each partition. Raises ConnectionError like `fetch_once`."""

        def fields(chunk: Partitions) -> Mapping[str, Any]:
            topics = [
                {"name": name, "partitions": [{"partition_index": tp.partition, "timestamp": LATEST} for tp in tps]}
                for name, tps in by_topic(chunk).items()
            ]
            return {"replica_id": CONSUMER_REPLICA, "isolation_level": READ_COMMITTED, "topics": topics}

        def read(response: Any, answered: Attempt[TopicPartition, int]) -> None:
            for topic in response.topics:
                for each in topic.partitions:
                    tp = TopicPartition(topic.name, each.partition_index)
                    if each.error_code is ErrorCode.none:
                        answered.found[tp] = each.offset
                    else:
                        answered.refuse(tp, Resource.PARTITION, tp, each.error_code)

        def ask(pending: Partitions, attempt: Attempt[TopicPartition, int]) -> None:
            self._logs.ask_leaders(pending, PartitionQuery(attempt, LIST_OFFSETS, fields, read, PARTITIONS_PER_REQUEST))

        return retry_until_resolved(partitions, ask, timeout=self._timeout, error_timeouts=NO_ERROR_TIMEOUTS)

    def close(self) -> None:
        """Closes all connections."""
        self._brokers.close()


def _fetched(partition: Any, *, is_crowded: bool) -> Fetched:
    return Fetched(
        records=partition.records or b"",
        aborted=tuple(Aborted(each.producer_id, each.first_offset) for each in partition.aborted_transactions or ()),
        stable_end=partition.last_stable_offset,
        is_crowded=is_crowded,
    )
