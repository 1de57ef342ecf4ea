"""Topics and their logs: leaders, bounds, offsets by time, settings."""

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kcoord.admin.model import Answers, Bounds, FoundOffset, Resource, Topic, TopicPartition, by_topic
from kcoord.admin.retry import RETRIABLE, Attempt, retry_until_resolved
from kcoord.admin.wire.apis import DESCRIBE_CONFIGS, LIST_OFFSETS, METADATA, Api
from kcoord.admin.wire.brokers import ApiRequest, ApiResponse, Brokers, Outcome, chunked, error_of
from kcoord.errors import ErrorCode
from kcoord.protocol.uuids import format_uuid

Value = TypeVar("Value")
Partitions = list[TopicPartition]
Fields = Callable[[Partitions], Mapping[str, Any]]
Offsets = Attempt[TopicPartition, FoundOffset]

LATEST, EARLIEST = -1, -2
CONSUMER_REPLICA: Final = -1
PARTITIONS_PER_REQUEST: Final = 5000
TOPICS_PER_REQUEST: Final = 2000
GROUP_RESOURCE, TOPIC_RESOURCE = 32, 2
NOT_IN_RESPONSE: Final = "the cluster tells nothing of it"
STALE_METADATA: Final = RETRIABLE | {ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id}
"""Errors after which a topic's metadata is requested again: it moved, or was deleted, or was recreated."""


class PartitionQuery(NamedTuple, Generic[Value]):
    """A request about many partitions, to be sent to their leaders: its API, a function that makes its fields, and
    `read`, which parses each response into `attempt`; failures become refusals there. `only` limits it to some
    partitions."""

    attempt: Attempt[TopicPartition, Value]
    api: Api
    fields: Fields
    read: Callable[[Any, Attempt[TopicPartition, Value]], None]
    per_request: int
    only: Collection[TopicPartition] | None = None

    def chunks(self, partitions: Partitions) -> list[Partitions]:
        """Splits the partitions that the query is for into those of single requests."""
        asked = partitions if self.only is None else [tp for tp in partitions if tp in self.only]
        return chunked(asked, self.per_request)


Piggyback = Sequence[PartitionQuery[Any]]


class Logs:
    """The topics of a cluster and requests to the leaders of their partitions. Leaders are cached until one turns out
    to be wrong."""

    def __init__(self, brokers: Brokers, *, timeout: float) -> None:
        self._brokers = brokers
        self._timeout = timeout
        self._topics: dict[str, Topic] = {}

    def topics(self, names: Collection[str] | None) -> Answers[str, Topic]:
        """Describes all topics (names is None), or the named ones, by Metadata requests."""
        if names is None:
            return self._all_topics()
        return retry_until_resolved(names, self._ask_topics, timeout=self._timeout, waits=self._brokers.waits)

    def bounds(
        self, partitions: Collection[TopicPartition], *, piggyback: Piggyback = ()
    ) -> Answers[TopicPartition, Bounds]:
        """Fetches the log start offset and the log end offset of these partitions (ListOffsets), both at once. The
        `piggyback` queries are sent with the first attempt, and not again."""
        piggybacked = list(piggyback)

        def ask(pending: Partitions, attempt: Attempt[TopicPartition, Bounds]) -> None:
            starts, ends = Offsets(), Offsets()
            self.ask_leaders(
                pending, _offsets_at(starts, lambda _: EARLIEST), _offsets_at(ends, lambda _: LATEST), *piggybacked
            )
            piggybacked.clear()
            attempt.refused |= {**ends.refused, **starts.refused}
            attempt.found |= {
                tp: Bounds(start.offset, ends.found[tp].offset)
                for tp, start in starts.found.items()
                if tp not in attempt.refused
            }

        return retry_until_resolved(partitions, ask, timeout=self._timeout, waits=self._brokers.waits)

    def offsets_at(self, timestamps: Mapping[TopicPartition, int]) -> Answers[TopicPartition, FoundOffset]:
        """Finds the first record of that time (ms since 1970) or later in each partition (ListOffsets)."""

        def ask(pending: Partitions, attempt: Offsets) -> None:
            self.ask_leaders(pending, _offsets_at(attempt, timestamps.__getitem__))

        return retry_until_resolved(timestamps, ask, timeout=self._timeout, waits=self._brokers.waits)

    def configs(self, kind: int, names: Collection[str]) -> Answers[str, Mapping[str, str]]:
        """Fetches the configs of topics or groups by name (DescribeConfigs); `kind` is Kafka's code of the resource
        type."""
        resource = Resource.TOPIC if kind == TOPIC_RESOURCE else Resource.GROUP

        def ask(pending: list[str], attempt: Attempt[str, Mapping[str, str]]) -> None:
            for chunk in chunked(pending, TOPICS_PER_REQUEST):
                resources = [{"resource_type": kind, "resource_name": name} for name in chunk]
                answered: Attempt[str, Mapping[str, str]] = Attempt()
                for each in self._brokers.ask_any(DESCRIBE_CONFIGS, resources=resources).response.results:
                    if each.error_code is ErrorCode.none:
                        answered.found[each.resource_name] = {
                            config.name: config.value for config in each.configs if config.value is not None
                        }
                    else:
                        answered.refuse(each.resource_name, resource, each.resource_name, each.error_code)
                for name in attempt.merge(chunk, answered):
                    attempt.refuse(name, resource, name, ErrorCode.unknown_server_error, NOT_IN_RESPONSE)

        return retry_until_resolved(names, ask, timeout=self._timeout, waits=self._brokers.waits)

    def ask_leaders(self, partitions: Partitions, *queries: PartitionQuery[Any]) -> None:
        """Sends all queries to the leaders of these partitions at once, and fills the attempts of the queries with the
        results. A partition without a known leader is refused in the first query only."""
        unknown = sorted({tp.topic for tp in partitions if not self._knows(tp)})
        left = self._ask_only_broker(unknown, partitions, queries)
        if left is None:
            asked: Attempt[str, Topic] = Attempt()
            self._ask_topics(unknown, asked)
            left = self._by_leader(partitions, asked, queries[0].attempt)
        requests = _Requests(left, queries)
        requests.take(self._brokers.ask_each(requests.requests()))
        for each in queries:
            for tp, refusal in each.attempt.refused.items():
                if refusal.error in STALE_METADATA:
                    self._topics.pop(tp.topic, None)

    def _ask_only_broker(
        self, unknown: list[str], partitions: Partitions, queries: Sequence[PartitionQuery[Any]]
    ) -> dict[int, Partitions] | None:
        """Requests metadata from the only broker and sends it the queries at the same time; returns the partitions that
        other brokers lead.

        Returns None if there are several brokers, or the only one does not answer.
        """
        only = self._brokers.only_node
        if only is None or not 0 < len(unknown) <= TOPICS_PER_REQUEST:
            return None
        requests = _Requests({only: partitions}, queries)
        topics, *outcomes = self._brokers.ask_each(
            [ApiRequest(only, METADATA, _by_name(unknown)), *requests.requests()]
        )
        if not isinstance(topics, ApiResponse):
            return None
        asked: Attempt[str, Topic] = Attempt()
        self._brokers.update_nodes(topics.response)
        self._take_topics(unknown, topics.response, asked)
        by_leader = self._by_leader(partitions, asked, queries[0].attempt)
        requests.take(outcomes, only=set(by_leader.pop(only, ())))
        return by_leader

    def _by_leader(
        self, partitions: Partitions, asked: Attempt[str, Topic], attempt: Attempt[TopicPartition, Any]
    ) -> dict[int, Partitions]:
        """Groups partitions by leader, and refuses those without one; the partitions of unknown topics with the refusal
        in `asked`."""
        by_leader: dict[int, Partitions] = defaultdict(list)
        for tp in partitions:
            topic = self._topics.get(tp.topic)
            if topic is None:
                attempt.refused[tp] = asked.refused[tp.topic]
            elif tp.partition not in topic.leaders:
                attempt.refuse(tp, Resource.PARTITION, tp, ErrorCode.unknown_topic_or_partition)
            elif topic.leaders[tp.partition] < 0:
                attempt.refuse(tp, Resource.PARTITION, tp, ErrorCode.leader_not_available)
            else:
                by_leader[topic.leaders[tp.partition]].append(tp)
        return by_leader

    def _knows(self, tp: TopicPartition) -> bool:
        """Whether the partition is cached. Partitions may have been added to a topic since its metadata was fetched."""
        return tp.topic in self._topics and tp.partition in self._topics[tp.topic].leaders

    def _ask_topics(self, names: list[str], attempt: Attempt[str, Topic]) -> None:
        for chunk in chunked(names, TOPICS_PER_REQUEST):
            self._take_topics(chunk, self._ask_metadata(**_by_name(chunk)), attempt)

    def _take_topics(self, names: list[str], metadata: Any, attempt: Attempt[str, Topic]) -> None:
        answered: Attempt[str, Topic] = Attempt()
        for each in metadata.topics:
            if each.error_code in (ErrorCode.none, ErrorCode.leader_not_available) and each.partitions:
                answered.found[each.name] = _topic(each)
            elif each.error_code is not ErrorCode.none:
                answered.refuse(each.name, Resource.TOPIC, each.name, each.error_code)
        for name in attempt.merge(names, answered):
            attempt.refuse(name, Resource.TOPIC, name, ErrorCode.unknown_server_error, NOT_IN_RESPONSE)
        for name in names:
            self._topics.pop(name, None)
        self._topics |= attempt.found

    def _all_topics(self) -> Answers[str, Topic]:
        topics = self._ask_metadata(topics=None).topics
        self._topics = {each.name: _topic(each) for each in topics if each.error_code is ErrorCode.none}
        return Answers(found=dict(self._topics))

    def _ask_metadata(self, **values: Any) -> Any:
        response = self._brokers.ask_any(METADATA, **values).response
        self._brokers.update_nodes(response)  # a leader may be a broker that was not there before
        return response


class _Requests:
    """Queries to leaders, in requests of limited size."""

    def __init__(self, by_leader: Mapping[int, Partitions], queries: Sequence[PartitionQuery[Any]]) -> None:
        self._chunks = [
            (node, chunk, each) for node, tps in by_leader.items() for each in queries for chunk in each.chunks(tps)
        ]

    def requests(self) -> list[ApiRequest]:
        return [ApiRequest(node, each.api, each.fields(chunk)) for node, chunk, each in self._chunks]

    def take(self, outcomes: Sequence[Outcome], *, only: Collection[TopicPartition] | None = None) -> None:
        """Merges the outcomes of all partitions, or of `only` these."""
        for (node, chunk, each), outcome in zip(self._chunks, outcomes, strict=True):
            answered: Attempt[TopicPartition, Any] = Attempt()
            error, message = ErrorCode.unknown_server_error, "does not tell of it"
            if isinstance(outcome, ApiResponse):
                each.read(outcome.response, answered)
            else:
                error, message = error_of(outcome)
            for tp in each.attempt.merge(chunk if only is None else [tp for tp in chunk if tp in only], answered):
                each.attempt.refuse(tp, Resource.TOPIC, tp.topic, error, f"its leader, broker {node}: {message}")


def _by_name(topics: list[str]) -> dict[str, Any]:
    asked = [{"topic_id": None, "name": name} for name in topics]
    return {"topics": asked, "allow_auto_topic_creation": False}


def _offsets_at(attempt: Offsets, timestamp: Callable[[TopicPartition], int]) -> PartitionQuery[FoundOffset]:
    def one(tp: TopicPartition) -> dict[str, int]:
        return {"partition_index": tp.partition, "timestamp": timestamp(tp)}

    def fields(chunk: Partitions) -> dict[str, Any]:
        topics = [{"name": name, "partitions": [one(tp) for tp in tps]} for name, tps in by_topic(chunk).items()]
        return {"replica_id": CONSUMER_REPLICA, "isolation_level": 0, "topics": topics}

    return PartitionQuery(attempt, LIST_OFFSETS, fields, _read_offsets, PARTITIONS_PER_REQUEST)


def _read_offsets(response: Any, attempt: Offsets) -> None:
    for topic in response.topics:
        for number, error, timestamp, offset, epoch in topic.partitions:
            tp = TopicPartition(topic.name, number)
            if error is ErrorCode.none:
                attempt.found[tp] = FoundOffset(offset, timestamp, epoch)
            else:
                attempt.refuse(tp, Resource.TOPIC, tp.topic, error)


def _topic(metadata: Any) -> Topic:
    return Topic(
        name=metadata.name,
        id=format_uuid(metadata.topic_id) if metadata.topic_id else None,
        is_internal=metadata.is_internal,
        leaders={each.partition_index: each.leader_id for each in metadata.partitions},
        replicas={each.partition_index: tuple(each.replica_nodes) for each in metadata.partitions},
    )
