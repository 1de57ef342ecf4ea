"""Random sequences of requests, valid and invalid ones, and the shortening of a sequence that shows a difference."""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from kcoord.api_keys import ApiKey
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import Record, write_batch
from tests.support.differential.pair import session_id, topic_id
from tests.support.differential.samples import (
    Records,
    an_hour_ago,
    batch,
    changed,
    fetch,
    fetched,
    forgotten,
    idempotent,
    offsets_asked,
    produced,
)

CONFIGS: Final = (
    ("max.message.bytes", "300"),
    ("max.message.bytes", "-1"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "compact,delete"),
    ("cleanup.policy", "shred"),
    ("message.timestamp.type", "LogAppendTime"),
    ("message.timestamp.before.max.ms", "1000"),
    ("flush.messages", "7"),
    ("segment.bytes", "1048576"),
    ("segment.bytes", "many"),
    ("no.such.setting", "1"),
)


SET, DELETE, APPEND, SUBTRACT = range(4)
OPERATIONS: Final = (SET, SET, SET, DELETE, APPEND, SUBTRACT)
POLICIES: Final = ("delete", "compact", "compact,delete", "delete,delete", "shred")


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    api_key: ApiKey
    version: int
    values: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.api_key.title} version {self.version}: {self.values}"


def make_sequence(seed: int, topics: Sequence[str], length: int) -> list[Step]:
    """Makes the same steps for the same seed, except for the names of the topics."""
    maker = _Maker(rng=random.Random(seed), topics=topics)
    return [maker.create(), *(maker.step() for _ in range(length))]


def shorten(steps: Sequence[int], differs: Callable[[Sequence[int]], bool]) -> list[int]:
    """Removes ever smaller parts of a sequence, as long as the rest still shows a difference."""
    remaining, size = list(steps), max(1, len(steps) // 2)
    while size:
        start = 0
        while start < len(remaining):
            fewer = remaining[:start] + remaining[start + size :]
            if fewer and differs(fewer):
                remaining = fewer
            else:
                start += size
        size //= 2
    return remaining


@dataclass(slots=True, kw_only=True)
class _Maker:
    rng: random.Random
    topics: Sequence[str]
    epoch: int = 0
    has_deleted_records: bool = False
    sequences: dict[int, int] = field(default_factory=dict)

    def step(self) -> Step:
        makers: dict[Callable[[], Step], int] = {
            self.create: 3,
            self.grow: 2,
            self.delete: 2,
            self.alter: 5,
            self.describe: 2,
            self.metadata: 3,
            self.produce: 18,
            self.fetch: 10,
            self.fetch_in_session: 12,
            self.list_offsets: 7,
            self.delete_records: 3,
            self.epoch_end: 2,
            self.init_producer: 2,
        }
        return self.rng.choices(list(makers), weights=list(makers.values()))[0]()

    def create(self) -> Step:
        new = [
            {
                "name": topic,
                "num_partitions": self.one_of(1, 2, 3, 3, -1, 0),
                "replication_factor": self.one_of(1, 1, 1, -1, 2),
                "configs": [self.config() for _ in range(self.one_of(0, 0, 1, 2))],
            }
            for topic in self.some_topics()
        ]
        return self.make(ApiKey.CREATE_TOPICS, 2, 7, topics=new, validate_only=self.is_rare())

    def grow(self) -> Step:
        lines = [
            {"name": topic, "count": self.one_of(1, 2, 3, 4, 5), "assignments": None} for topic in self.some_topics()
        ]
        return self.make(ApiKey.CREATE_PARTITIONS, 0, 3, topics=lines, validate_only=self.is_rare())

    def delete(self) -> Step:
        topics = self.some_topics()
        by_id = [{"name": None, "topic_id": topic_id(topic)} for topic in topics]
        by_name = [{"name": topic, "topic_id": None} for topic in topics]
        return self.make(ApiKey.DELETE_TOPICS, 1, 6, topics=self.one_of(by_id, by_name), topic_names=topics)

    def alter(self) -> Step:
        changes = [self.change() for _ in range(self.one_of(1, 2))]
        resources = [{"resource_type": 2, "resource_name": topic, "configs": changes} for topic in self.some_topics()]
        return self.make(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, resources=resources, validate_only=self.is_rare())

    def describe(self) -> Step:
        resources = [
            {"resource_type": 2, "resource_name": topic, "configuration_keys": None} for topic in self.some_topics()
        ]
        return self.make(ApiKey.DESCRIBE_CONFIGS, 1, 4, resources=resources, include_synonyms=self.is_rare())

    def metadata(self) -> Step:
        asked = [{"name": topic, "topic_id": None} for topic in self.some_topics()]
        return self.make(ApiKey.METADATA, 4, 13, topics=asked, allow_auto_topic_creation=False)

    def produce(self) -> Step:
        data = [
            produced(topic, {index: self.records() for index in self.some_partitions()}) for topic in self.some_topics()
        ]
        return self.make(ApiKey.PRODUCE, 3, 13, acks=self.one_of(-1, -1, 1, 1, 5), topic_data=data)

    def records(self) -> Records:
        good = batch(self.one_of(1, 2, 5), codec=self.one_of(*Codec), value_size=self.one_of(5, 50, 150))
        keyless = write_batch([Record(timestamp=an_hour_ago, value=b"v")])
        broken = changed(good, self.one_of(0, 17, 21, 40, 57), ">b", 7)
        number = self.one_of(1, 2)
        sequence = self.sequences.get(number, 0) + self.one_of(0, 0, 0, 0, 1, -1)
        self.sequences[number] = sequence + 1
        numbered = idempotent(max(0, sequence), epoch=self.one_of(0, 0, 0, 0, 1), producer=f"producer #{number}")
        kinds: list[Records] = [good, good, good, keyless, broken, numbered, numbered, b""]
        return self.rng.choice(kinds)

    def fetch(self) -> Step:
        return self.make(ApiKey.FETCH, 4, 18, **fetch(*self.fetched_topics(), **self.limits()))

    def fetch_in_session(self) -> Step:
        if self.epoch == 0 or self.is_rare():
            self.epoch = 1
            which = self.one_of(0, 0, session_id())
            values = fetch(*self.fetched_topics(), session_id=which, session_epoch=0, **self.limits())
            return self.make(ApiKey.FETCH, 7, 18, **values)
        values = fetch(
            *(self.fetched_topics() if self.is_rare() else ()),
            session_id=session_id(),
            session_epoch=self.epoch,
            forgotten_topics_data=[forgotten(topic, self.some_partitions()) for topic in self.some_topics()]
            if self.is_rare()
            else [],
            **self.limits(),
        )
        self.epoch = self.one_of(*[self.epoch + 1] * 12, self.epoch, -1, 0)
        return self.make(ApiKey.FETCH, 7, 18, **values)

    def fetched_topics(self) -> list[dict[str, Any]]:
        options = {
            "partition_max_bytes": self.one_of(1, 1 << 20, 1 << 20),
            "current_leader_epoch": self.one_of(-1, -1, -1, 0, 3),
        }
        offsets = {index: self.one_of(0, 0, 1, 2, 3, 5, 8, 20, -1) for index in self.some_partitions()}
        return [fetched(topic, offsets, **options) for topic in dict.fromkeys(self.some_topics())]

    def limits(self) -> dict[str, Any]:
        return {"max_bytes": self.one_of(1, 1 << 24, 1 << 24), "isolation_level": self.one_of(0, 1)}

    def list_offsets(self) -> Step:
        specials = (-1, -2, -4, -5) if self.has_deleted_records else (-1, -2, -3, -4, -5)
        moments = (*specials, an_hour_ago, an_hour_ago + 1500, an_hour_ago + 9000, 0)
        asked = [
            offsets_asked(topic, [self.one_of(*moments) for _ in range(self.one_of(1, 2, 4))])
            for topic in self.some_topics()
        ]
        return self.make(ApiKey.LIST_OFFSETS, 1, 11, replica_id=-1, topics=asked)

    def delete_records(self) -> Step:
        self.has_deleted_records = True  # afterwards Kafka's largest timestamp may be that of a deleted record
        lines = [
            {"partition_index": index, "offset": self.one_of(-1, 0, 1, 2, 4, 7, 100)}
            for index in self.some_partitions()
        ]
        topics = [{"name": topic, "partitions": lines} for topic in dict.fromkeys(self.some_topics())]
        return self.make(ApiKey.DELETE_RECORDS, 0, 2, topics=topics)

    def epoch_end(self) -> Step:
        lines = [
            {"partition": index, "current_leader_epoch": self.one_of(-1, 0, 1), "leader_epoch": self.one_of(0, 1)}
            for index in self.some_partitions()
        ]
        topics = [{"topic": topic, "partitions": lines} for topic in dict.fromkeys(self.some_topics())]
        return self.make(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, topics=topics)

    def init_producer(self) -> Step:
        return self.make(ApiKey.INIT_PRODUCER_ID, 0, 5, transactional_id=None, producer_id=-1, producer_epoch=-1)

    def make(self, api_key: ApiKey, first: int, last: int, **values: Any) -> Step:
        return Step(api_key=api_key, version=self.rng.randint(first, last), values=values)

    def config(self) -> dict[str, Any]:
        name, value = self.one_of(*CONFIGS)
        return {"name": name, "value": value}

    def change(self) -> dict[str, Any]:
        operation = self.one_of(*OPERATIONS)
        if operation in (APPEND, SUBTRACT) and not self.is_rare():  # most settings are not lists, and are refused early
            return {"name": "cleanup.policy", "value": self.one_of(*POLICIES), "config_operation": operation}
        return {**self.config(), "config_operation": operation}

    def some_topics(self) -> list[str]:
        return self.rng.choices(self.topics, k=self.one_of(1, 1, 1, 2, 2, 3))

    def some_partitions(self) -> list[int]:
        return self.rng.sample([0, 0, 1, 2, 3], k=self.one_of(1, 1, 2, 3))

    def one_of(self, *choices: Any) -> Any:
        return self.rng.choice(choices)

    def is_rare(self) -> bool:
        return self.rng.random() < 0.15
