"""Groups of real consumers on a cluster, each with its own problem: the patients of the doctor.

| group    | its problem                                                            |
|----------|------------------------------------------------------------------------|
| healthy  | nothing                                                                |
| crowded  | three members, two partitions                                          |
| ranged   | three members, range over four topics of two partitions                |
| slow     | commits one record each second, of many that are written               |
| stuck    | commits once and never again                                           |
| silent   | never commits                                                          |
| stormy   | a member comes and goes, while there is a storm                        |
| asleep   | no members, and records come in                                        |
| astray   | no members, an offset beyond the end                                   |
"""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.integration.support.group_coordinator import CoordinatorView
from tests.support.differential.pair import wait_for_coordinators

DEADLINE = 60.0
RECORDS = 40  # in each partition, before more are written

TOPICS = {"work": 2, "finished": 1, **{f"part{number}": 2 for number in range(4)}}
PARTS = [topic for topic in TOPICS if topic.startswith("part")]

Commit = Callable[[Consumer], None]


def commit_all() -> Commit:
    return lambda consumer: consumer.commit(asynchronous=True)


def commit_one_each_second() -> Commit:
    started = time.monotonic()

    def commit(consumer: Consumer) -> None:
        offset = 1 + int(time.monotonic() - started)
        owned = [TopicPartition(tp.topic, tp.partition, offset) for tp in consumer.assignment()]
        consumer.commit(offsets=owned, asynchronous=True)

    return commit


def commit_once() -> Commit:
    return lambda consumer: consumer.commit(
        offsets=[TopicPartition(tp.topic, tp.partition, 1) for tp in consumer.assignment()], asynchronous=True
    )


def commit_nothing() -> Commit:
    return lambda consumer: None


class Patient:
    """A member of a group, on a thread, that polls and commits in its own way."""

    def __init__(
        self, bootstrap: str, group: str, name: str, topics: Sequence[str], commit: Commit, **more: Any
    ) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "client.id": name,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "partition.assignment.strategy": "range",
                "heartbeat.interval.ms": 300,
                "log_level": 0,
                **more,
            }
        )
        self._commit = commit
        self._is_done = threading.Event()
        self._consumer.subscribe(list(topics))
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Closes the member: a dynamic one leaves its group; a static one stays until its session expires."""
        self._is_done.set()
        self._thread.join()
        self._consumer.close()

    def _work(self) -> None:
        while not self._is_done.is_set():
            if self._consumer.consume(1000, 0.2) and self._consumer.assignment():
                self._commit(self._consumer)


class Ward:
    """A cluster with all these groups."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.admin = AdminClient({"bootstrap.servers": bootstrap})
        self.view = CoordinatorView(bootstrap)

    def make_topic(self, topic: str, partitions: int) -> None:
        """Creates a topic with some records in each partition."""
        self.view.create_topic(topic, partitions)
        self.wait_until(lambda: self.view.has_partitions(topic, partitions), topic)
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for number in range(RECORDS * partitions):
            producer.produce(topic, b"x", partition=number % partitions)
        assert producer.flush(DEADLINE) == 0

    def wait_until(self, is_so: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + DEADLINE
        while not is_so():
            assert time.monotonic() < deadline, f"waited {DEADLINE:g} s for {what}"
            time.sleep(0.05)

    def wait_for_members(self, group: str, count: int) -> None:
        def is_stable() -> bool:
            described = self.view.describe(group)
            return described.state == "Stable" and len(described.assignments) == count

        self.wait_until(is_stable, f"{count} members of {group}")

    def commit_as_nobody(self, group: str, topic: str, partition: int, offset: int) -> None:
        wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, partition, offset)])
        for future in self.admin.alter_consumer_group_offsets([wanted]).values():
            future.result(DEADLINE)


@contextmanager
def ward(bootstrap: str) -> Iterator[Ward]:
    with ExitStack() as stack:
        opened = Ward(bootstrap)
        stack.callback(opened.view.close)
        host, _, port = bootstrap.rpartition(":")
        wait_for_coordinators((host, int(port)))
        for topic, partitions in TOPICS.items():
            opened.make_topic(topic, partitions)
        opened.commit_as_nobody("asleep", "work", 0, 1)
        opened.commit_as_nobody("astray", "finished", 0, RECORDS + 1000)
        stack.enter_context(_writing(bootstrap))
        members = _members(bootstrap)
        for _, patients in members:
            for patient in patients:
                stack.callback(patient.close)
        for group, patients in members:
            opened.wait_for_members(group, len(patients))
        yield opened


def _members(bootstrap: str) -> list[tuple[str, list[Patient]]]:
    plan: list[tuple[str, int, list[str], Callable[[], Commit]]] = [
        ("healthy", 2, ["work"], commit_all),
        ("crowded", 3, ["work"], commit_all),
        ("ranged", 3, PARTS, commit_all),
        ("slow", 1, ["work"], commit_one_each_second),
        ("stuck", 1, ["work"], commit_once),
        ("silent", 1, ["work"], commit_nothing),
        ("stormy", 1, ["work"], commit_all),
    ]
    return [
        (group, [Patient(bootstrap, group, f"{group}-{number}", topics, commit()) for number in range(count)])
        for group, count, topics, commit in plan
    ]


@contextmanager
def _writing(bootstrap: str) -> Iterator[None]:
    """Writes records to all topics except the one with a fixed end."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 5})

    def write() -> None:
        for topic, partitions in TOPICS.items():
            for partition in range(partitions if topic != "finished" else 0):
                producer.produce(topic, b"x", partition=partition)
        producer.poll(0)

    with _again_and_again(write, pause=0.02):
        yield
    producer.flush(DEADLINE)


@contextmanager
def storm(bootstrap: str) -> Iterator[None]:
    """Lets a member of `stormy` come and go while the context is open."""

    def come_and_go() -> None:
        flaky = Patient(bootstrap, "stormy", "flaky", ["work"], commit_all())
        time.sleep(1)
        flaky.close()

    with _again_and_again(come_and_go, pause=0.2):
        yield


@contextmanager
def _again_and_again(do: Callable[[], None], *, pause: float) -> Iterator[None]:
    is_done = threading.Event()

    def repeat() -> None:
        while not is_done.wait(pause):
            do()

    thread = threading.Thread(target=repeat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_done.set()
        thread.join()
