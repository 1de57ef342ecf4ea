"""Groups on a cluster that leave every kind of record in its log, and the tables of that log by its files."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.support.committing import commit
from tests.support.logs.log_dump_scene import until
from tests.support.pipeline.expected_rows import Rows, decoded

PARTITIONS: Final = 3
_DEADLINE: Final = 60.0


class LogScene:
    """Writes records on demand; the first commit of a new group creates its log."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})

    def make(self, topic: str, *, records: int = 30) -> None:
        done(self.admin.create_topics([NewTopic(topic, PARTITIONS, 1)]))
        self.produce(topic, records=records)

    def produce(self, topic: str, *, records: int = 30, value: bytes = b"x" * 100) -> None:
        with Producer(self._settings()) as producer:
            for number in range(records):
                producer.produce(topic, value, partition=number % PARTITIONS)
                if number % 10 == 9:
                    producer.flush(_DEADLINE)  # so that there are some batches
            assert producer.flush(_DEADLINE) == 0

    def commit(self, group: str, topic: str, *, times: int = 1) -> None:
        with self._consumer(group) as consumer:
            for number in range(times):
                commit(consumer, _offsets(topic, number))

    def join(self, group: str, topic: str, **settings: Any) -> None:
        """Lets a member join and leave."""
        with self._consumer(group, **settings) as consumer:
            consumer.subscribe([topic])

            def has_some() -> bool:
                consumer.poll(0.1)
                return bool(consumer.assignment())

            until(has_some)

    def pay(self, group: str, topic: str, *, is_aborted: bool = False, name: str = "payer") -> None:
        """Commits in a transaction."""
        producer = Producer(self._settings(**{"transactional.id": f"{name}-{is_aborted}"}))
        with self._consumer(group) as consumer, producer:
            producer.init_transactions(_DEADLINE)
            producer.begin_transaction()
            producer.send_offsets_to_transaction(_offsets(topic, 70), consumer.consumer_group_metadata(), _DEADLINE)
            (producer.abort_transaction if is_aborted else producer.commit_transaction)(_DEADLINE)

    def forget(self, group: str) -> None:
        done(self.admin.delete_consumer_groups([group]))

    @contextmanager
    def _consumer(self, group: str, **settings: Any) -> Iterator[Consumer]:
        given = {"group.id": group, "enable.auto.commit": False, "auto.offset.reset": "earliest", **settings}
        consumer = Consumer(self._settings(**given))
        try:
            yield consumer
        finally:
            consumer.close()

    def _settings(self, **settings: Any) -> dict[str, Any]:
        return {"bootstrap.servers": self.bootstrap, "log_level": 0, **settings}


def done(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(_DEADLINE)


def of_segments(data_dir: Path, folder: Path, topics: set[str]) -> Rows:
    """Returns all tables by the files of an idle cluster, for these topics and for groups."""
    wanted = {"__consumer_offsets", *topics}
    for log in data_dir.iterdir():
        if log.is_dir() and log.name.rpartition("-")[0] in wanted:
            shutil.copytree(log, folder / log.name)
    return decoded(folder)


def comparable(rows: Rows, table: str) -> list[str]:
    """Removes what only files have: the number of a segment."""
    return sorted(str({name: value for name, value in row.items() if name != "source_segment"}) for row in rows[table])


def assert_same_rows(ours: Rows, theirs: Rows) -> None:
    for table in ("commits", "generations", "group_events", "log_ends"):
        assert comparable(ours, table) == comparable(theirs, table), table
    for name in ("batches", "records", "commits", "generations", "group_events", "control", "aborted", "plain"):
        assert sum(row[name] for row in ours["scanned"]) == sum(row[name] for row in theirs["scanned"]), name


def _offsets(topic: str, number: int) -> list[TopicPartition]:
    return [TopicPartition(topic, index, number + index) for index in range(PARTITIONS)]
