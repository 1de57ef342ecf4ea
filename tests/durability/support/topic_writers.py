"""A writer that creates topics, adds partitions, produces to them, deletes them and creates them again."""

from datetime import timedelta
from typing import Any, Final

from kcoord.api_keys import ApiKey
from kcoord.errors import ErrorCode
from tests.durability.support.ledger import Register, TopicShape
from tests.durability.support.record_writers import Producing

_NAMES: Final = 12
_TIMEOUT: Final = timedelta(seconds=30)


class TopicMaker(Producing):
    def step(self) -> None:
        name, chance = f"{self.name}-{self.random.randrange(_NAMES)}", self.random.random()
        register = self.ledger.topic(name)
        shape = register.last
        if not register.is_sure:  # It was refused, and may have happened.
            self._delete(name, register)
        elif shape is None:
            self._create(name, register)
        elif chance < 0.2:
            self._delete(name, register)
        elif chance < 0.4:
            self._grow(name, register, shape)
        else:
            partitions = [self.random.randrange(shape.partitions) for _ in range(3)]
            self.ask_all([self.produce(name, partition, self.batch()[0]) for partition in partitions])

    def _create(self, name: str, register: Register[TopicShape | None]) -> None:
        shape = TopicShape(self.random.randint(1, 3), self.random.randint(10**9, 10**10))
        asked = register.ask(shape)
        configs = [{"name": "retention.ms", "value": str(shape.retention_ms)}]
        topic = {"name": name, "num_partitions": shape.partitions, "replication_factor": 1, "configs": configs}
        self._change(ApiKey.CREATE_TOPICS, 7, register, asked, "topics", topics=[topic], timeout=_TIMEOUT)

    def _grow(self, name: str, register: Register[TopicShape | None], shape: TopicShape) -> None:
        asked = register.ask(TopicShape(shape.partitions + 1, shape.retention_ms))
        topic = {"name": name, "count": shape.partitions + 1, "assignments": None}
        self._change(ApiKey.CREATE_PARTITIONS, 3, register, asked, "results", topics=[topic], timeout=_TIMEOUT)

    def _delete(self, name: str, register: Register[TopicShape | None]) -> None:
        asked = register.ask(None)
        self._change(ApiKey.DELETE_TOPICS, 5, register, asked, "responses", topic_names=[name], timeout=_TIMEOUT)
        self.ledger.forget_logs(name)

    def _change(
        self, api_key: int, version: int, register: Register[TopicShape | None], asked: int, lines: str, **values: Any
    ) -> None:
        answer = self.ask(api_key, version, **values)
        [line] = getattr(answer, lines)
        if not (line.error_code is ErrorCode.unknown_topic_or_partition and api_key == ApiKey.DELETE_TOPICS):
            self.check(line.error_code, f"change topics: {values}")
        register.acknowledge(asked)
        self.acknowledged += 1
