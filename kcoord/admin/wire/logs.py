"""Topics and their logs: leaders, bounds, offsets by time, settings."""

import base64
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from kcoord.admin.model import Answers, Bounds, FoundOffset, Topic, TopicPartition, by_topic
from kcoord.admin.retry import PASSING, Round, settle
from kcoord.admin.wire.apis import DESCRIBE_CONFIGS, LIST_OFFSETS, METADATA, Api
from kcoord.admin.wire.brokers import Answer, Brokers, Outcome, Question, in_chunks, refusing
from kcoord.errors import ErrorCode

Value = TypeVar("Value")
Partitions = list[TopicPartition]
Fields = Callable[[Partitions], Mapping[str, Any]]
Offsets = Round[TopicPartition, FoundOffset]

LATEST, EARLIEST = -1, -2
CONSUMER_REPLICA: Final = -1
PARTITIONS_PER_REQUEST: Final = 5000
TOPICS_PER_REQUEST: Final = 2000
GROUP_RESOURCE, TOPIC_RESOURCE = 32, 2
NOTHING_TOLD: Final = "the cluster tells nothing of it"
OUTDATED: Final = PASSING | {ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id}
"""Errors after which a topic's metadata is requested again: it moved, or was deleted, or was recreated."""


class Wanted(NamedTuple, Generic[Value]):
    """A query to the leaders of partitions, or of `only` some of them. `read` parses each response; failures become
    refusals in `attempt`."""

    told: Round[TopicPartition, Value]
    api: Api
    fields: Fields
    read: Callable[[Any, Round[TopicPartition, Value]], None]
    per_request: int
    only: Collection[TopicPartition] | None = None

    def chunks(self, partitions: Partitions) -> list[Partitions]:
        asked = partitions if self.only is None else [tp for tp in partitions if tp in self.only]
        return in_chunks(asked, self.per_request)


Beside = Sequence[Wanted[Any]]


class Logs:
    """The logs of a cluster's partitions. Leaders are cached until one turns out to be wrong."""

    def __init__(self, brokers: Brokers, *, patience: float) -> None:
        self._brokers = brokers
        self._patience = patience
        self._topics: dict[str, Topic] = {}

    def topics(self, names: Collection[str] | None) -> Answers[str, Topic]:
        if names is None:
            return self._all_topics()
        return settle(names, self._ask_topics, patience=self._patience, waits=self._brokers.waits)

    def bounds(self, partitions: Collection[TopicPartition], *, beside: Beside = ()) -> Answers[TopicPartition, Bounds]:
        """Requests both ends at once. The `piggyback` queries are sent with the first attempt, and not again."""
        others = list(beside)

        def ask(pending: Partitions, told: Round[TopicPartition, Bounds]) -> None:
            starts, ends = Offsets(), Offsets()
            self.ask_leaders(
                pending, _offsets_at(starts, lambda _: EARLIEST), _offsets_at(ends, lambda _: LATEST), *others
            )
            others.clear()
            told.refused |= {**ends.refused, **starts.refused}
            told.found |= {
                tp: Bounds(start.offset, ends.found[tp].offset)
                for tp, start in starts.found.items()
                if tp not in told.refused
            }

        return settle(partitions, ask, patience=self._patience, waits=self._brokers.waits)

    def offsets_at(self, timestamps: Mapping[TopicPartition, int]) -> Answers[TopicPartition, FoundOffset]:
        def ask(pending: Partitions, told: Offsets) -> None:
            self.ask_leaders(pending, _offsets_at(told, timestamps.__getitem__))

        return settle(timestamps, ask, patience=self._patience, waits=self._brokers.waits)

    def configs(self, kind: int, names: Collection[str]) -> Answers[str, Mapping[str, str]]:
        what = "topic" if kind == TOPIC_RESOURCE else "group"

        def ask(pending: list[str], told: Round[str, Mapping[str, str]]) -> None:
            for chunk in in_chunks(pending, TOPICS_PER_REQUEST):
                resources = [{"resource_type": kind, "resource_name": name} for name in chunk]
                answered: Round[str, Mapping[str, str]] = Round()
                for each in self._brokers.ask_any(DESCRIBE_CONFIGS, resources=resources).response.results:
                    if each.error_code is ErrorCode.none:
                        answered.found[each.resource_name] = {
                            config.name: config.value for config in each.configs if config.value is not None
                        }
                    else:
                        answered.refuse(each.resource_name, f"{what} {each.resource_name}", each.error_code)
                for name in told.take(chunk, answered):
                    told.refuse(name, f"{what} {name}", ErrorCode.unknown_server_error, NOTHING_TOLD)

        return settle(names, ask, patience=self._patience, waits=self._brokers.waits)

    def ask_leaders(self, partitions: Partitions, *wanted: Wanted[Any]) -> None:
        """Sends all queries to the leaders of these partitions at once. A partition without a known leader is refused
        in the first query only."""
        unknown = sorted({tp.topic for tp in partitions if not self._knows(tp)})
        left = self._ask_only_broker(unknown, partitions, wanted)
        if left is None:
            asked: Round[str, Topic] = Round()
            self._ask_topics(unknown, asked)
            left = self._by_leader(partitions, asked, wanted[0].told)
        requests = _Requests(left, wanted)
        requests.take(self._brokers.ask_each(requests.questions()))
        for each in wanted:
            for tp, refusal in each.told.refused.items():
                if refusal.error in OUTDATED:
                    self._topics.pop(tp.topic, None)

    def _ask_only_broker(
        self, unknown: list[str], partitions: Partitions, wanted: Sequence[Wanted[Any]]
    ) -> dict[int, Partitions] | None:
        """Requests metadata from the only broker and sends it the queries at the same time; returns the partitions that
        other brokers lead.

        Returns None if there are several brokers, or the only one does not answer.
        """
        only = self._brokers.only_node
        if only is None or not 0 < len(unknown) <= TOPICS_PER_REQUEST:
            return None
        requests = _Requests({only: partitions}, wanted)
        topics, *outcomes = self._brokers.ask_each([Question(only, METADATA, _by_name(unknown)), *requests.questions()])
        if not isinstance(topics, Answer):
            return None
        asked: Round[str, Topic] = Round()
        self._brokers.remember(topics.response)
        self._take_topics(unknown, topics.response, asked)
        by_leader = self._by_leader(partitions, asked, wanted[0].told)
        requests.take(outcomes, only=set(by_leader.pop(only, ())))
        return by_leader

    def _by_leader(
        self, partitions: Partitions, asked: Round[str, Topic], told: Round[TopicPartition, Any]
    ) -> dict[int, Partitions]:
        """Groups partitions by leader, and refuses those without one; the partitions of unknown topics with the refusal
        in `asked`."""
        by_leader: dict[int, Partitions] = defaultdict(list)
        for tp in partitions:
            topic = self._topics.get(tp.topic)
            if topic is None:
                refusal = asked.refused[tp.topic]
                told.refuse(tp, refusal.what, refusal.error, refusal.message)
            elif tp.partition not in topic.leaders:
                told.refuse(tp, f"partition {tp}", ErrorCode.unknown_topic_or_partition)
            elif topic.leaders[tp.partition] < 0:
                told.refuse(tp, f"partition {tp}", ErrorCode.leader_not_available)
            else:
                by_leader[topic.leaders[tp.partition]].append(tp)
        return by_leader

    def _knows(self, tp: TopicPartition) -> bool:
        """Whether the partition is cached. Partitions may have been added to a topic since its metadata was fetched."""
        return tp.topic in self._topics and tp.partition in self._topics[tp.topic].leaders

    def _ask_topics(self, names: list[str], told: Round[str, Topic]) -> None:
        for chunk in in_chunks(names, TOPICS_PER_REQUEST):
            self._take_topics(chunk, self._ask_metadata(**_by_name(chunk)), told)

    def _take_topics(self, names: list[str], metadata: Any, told: Round[str, Topic]) -> None:
        answered: Round[str, Topic] = Round()
        for each in metadata.topics:
            if each.error_code in (ErrorCode.none, ErrorCode.leader_not_available) and each.partitions:
                answered.found[each.name] = _topic(each)
            elif each.error_code is not ErrorCode.none:
                answered.refuse(each.name, f"topic {each.name}", each.error_code)
        for name in told.take(names, answered):
            told.refuse(name, f"topic {name}", ErrorCode.unknown_server_error, NOTHING_TOLD)
        for name in names:
            self._topics.pop(name, None)
        self._topics |= told.found

    def _all_topics(self) -> Answers[str, Topic]:
        topics = self._ask_metadata(topics=None).topics
        self._topics = {each.name: _topic(each) for each in topics if each.error_code is ErrorCode.none}
        return Answers(found=dict(self._topics))

    def _ask_metadata(self, **values: Any) -> Any:
        response = self._brokers.ask_any(METADATA, **values).response
        self._brokers.remember(response)  # a leader may be a broker that was not there before
        return response


class _Requests:
    """Queries to leaders, in requests of limited size."""

    def __init__(self, by_leader: Mapping[int, Partitions], wanted: Sequence[Wanted[Any]]) -> None:
        self._chunks = [
            (node, chunk, each) for node, own in by_leader.items() for each in wanted for chunk in each.chunks(own)
        ]

    def questions(self) -> list[Question]:
        return [Question(node, each.api, each.fields(chunk)) for node, chunk, each in self._chunks]

    def take(self, outcomes: Sequence[Outcome], *, only: Collection[TopicPartition] | None = None) -> None:
        """Merges the outcomes of all partitions, or of `only` these."""
        for (node, chunk, each), outcome in zip(self._chunks, outcomes, strict=True):
            answered: Round[TopicPartition, Any] = Round()
            error, message = ErrorCode.unknown_server_error, "does not tell of it"
            if isinstance(outcome, Answer):
                each.read(outcome.response, answered)
            else:
                error, message = refusing(outcome)
            for tp in each.told.take(chunk if only is None else [tp for tp in chunk if tp in only], answered):
                each.told.refuse(tp, f"topic {tp.topic}", error, f"its leader, broker {node}: {message}")


def _by_name(topics: list[str]) -> dict[str, Any]:
    asked = [{"topic_id": None, "name": name} for name in topics]
    return {"topics": asked, "allow_auto_topic_creation": False}


def _offsets_at(told: Offsets, timestamp: Callable[[TopicPartition], int]) -> Wanted[FoundOffset]:
    def one(tp: TopicPartition) -> dict[str, int]:
        return {"partition_index": tp.partition, "timestamp": timestamp(tp)}

    def fields(chunk: Partitions) -> dict[str, Any]:
        topics = [{"name": name, "partitions": [one(tp) for tp in own]} for name, own in by_topic(chunk).items()]
        return {"replica_id": CONSUMER_REPLICA, "isolation_level": 0, "topics": topics}

    return Wanted(told, LIST_OFFSETS, fields, _read_offsets, PARTITIONS_PER_REQUEST)


def _read_offsets(response: Any, told: Offsets) -> None:
    for topic in response.topics:
        for number, error, timestamp, offset, epoch in topic.partitions:
            tp = TopicPartition(topic.name, number)
            if error is ErrorCode.none:
                told.found[tp] = FoundOffset(offset, timestamp, epoch)
            else:
                told.refuse(tp, f"topic {tp.topic}", error)


def _topic(told: Any) -> Topic:
    return Topic(
        name=told.name,
        id=_topic_id(told.topic_id) if told.topic_id else None,
        is_internal=told.is_internal,
        leaders={each.partition_index: each.leader_id for each in told.partitions},
    )


def _topic_id(topic_id: bytes) -> str:
    """Formats an id as Kafka prints it: base64 for URLs, without padding."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")
