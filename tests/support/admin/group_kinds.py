"""Members of share, streams and KIP-848 groups on a real Kafka, made with plain requests: they do only what the test
calls."""

import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, TypeVar

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode

FETCH_WAIT: Final = timedelta(milliseconds=500)
LONG: Final = timedelta(seconds=60)
DEADLINE: Final = 60.0

GROUP_RESOURCE: Final = 32
ACCEPT: Final = 1

Answer = TypeVar("Answer")


def until(ask: Callable[[], Answer | None]) -> Answer:
    deadline = time.monotonic() + DEADLINE
    while (answer := ask()) is None:
        assert time.monotonic() < deadline, "it does not come"
        time.sleep(0.1)
    return answer


def create_topic(client: Client, name: str, partitions: int) -> None:
    """Creates a topic that retains records, however old they are."""
    topic = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": 1,
        "assignments": (),
        "configs": [{"name": "retention.ms", "value": "-1"}],
    }
    (made,) = client.ask(ApiKey.CREATE_TOPICS, 7, topics=[topic], timeout=LONG, validate_only=False).topics
    assert made.error_code is ErrorCode.none
    until(lambda: client.ask(ApiKey.FIND_COORDINATOR, 3, key="g", key_type=0).error_code is ErrorCode.none or None)


def set_group(client: Client, group: str, settings: Mapping[str, str]) -> None:
    configs = [{"name": name, "config_operation": 0, "value": value} for name, value in settings.items()]
    resource = {"resource_type": GROUP_RESOURCE, "resource_name": group, "configs": configs}
    (done,) = client.ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource], validate_only=False).responses
    assert done.error_code is ErrorCode.none


class PlannedMember(ABC):
    """A member that a coordinator plans for; the test sends its heartbeats."""

    def __init__(self, client: Client, group: str) -> None:
        self.client = client
        self.group = group
        self.member_id = str(uuid.uuid4())
        self.epoch = 0

    @abstractmethod
    def join(self, topic: str) -> Any:
        """Sends the first heartbeat, which subscribes to one topic, and returns the response."""

    @abstractmethod
    def beat(self) -> Any:
        """Sends a heartbeat without changes."""

    def _given(self, topic: str, read: Callable[[Any], Any]) -> Any:
        """Joins, and returns the first assignment of the coordinator that is not empty."""
        return until(lambda: read(self.beat() if self.epoch else self.join(topic)) or None)

    def _beat(self, api_key: int, version: int, **values: Any) -> Any:
        who = {"group_id": self.group, "member_id": self.member_id, "member_epoch": self.epoch}
        response = self.client.ask(api_key, version, **who, **values)
        assert response.error_code is ErrorCode.none, response
        self.epoch = response.member_epoch
        return response


class ConsumerMember(PlannedMember):
    def join(self, topic: str) -> Any:
        return self._heartbeat(rebalance_timeout=LONG, subscribed_topic_names=[topic], topic_partitions=())

    def beat(self) -> Any:
        return self._heartbeat(subscribed_topic_names=None, topic_partitions=None)

    def take_assignment(self, topic: str) -> None:
        """Joins, and takes over the assignment."""
        given = self._given(topic, _topic_partitions)
        owned = [{"topic_id": each.topic_id, "partitions": each.partitions} for each in given]
        self._heartbeat(subscribed_topic_names=None, topic_partitions=owned)

    def _heartbeat(self, **values: Any) -> Any:
        return self._beat(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, **values)


def _topic_partitions(assignment: Any) -> Any:
    return assignment.assignment.topic_partitions if assignment.assignment else None


class ShareMember(PlannedMember):
    def join(self, topic: str) -> Any:
        return self._beat(ApiKey.SHARE_GROUP_HEARTBEAT, 1, subscribed_topic_names=[topic])

    def beat(self) -> Any:
        return self._beat(ApiKey.SHARE_GROUP_HEARTBEAT, 1, subscribed_topic_names=None)

    def take_assignment(self, topic: str) -> Any:
        """Joins, and returns the topic's id and the numbers of the partitions."""
        (given,) = self._given(topic, _topic_partitions)
        return given

    def accept(self, topic_id: uuid.UUID, partition: int, *, records: int) -> int:
        """Acquires records of one partition and accepts them; returns the offset behind the last of them."""
        part: dict[str, Any] = {"partition_index": partition, "acknowledgement_batches": ()}
        session = 0

        def acquire() -> Any:
            nonlocal session
            response = self._fetch(session, topic_id, [part] if session == 0 else (), records)
            session += 1
            batches = [
                each for topic in response.responses for found in topic.partitions for each in found.acquired_records
            ]
            return batches or None

        batches = until(acquire)
        part["acknowledgement_batches"] = [
            {"first_offset": each.first_offset, "last_offset": each.last_offset, "acknowledge_types": [ACCEPT]}
            for each in batches
        ]
        response = self._fetch(session, topic_id, [part], 0)
        assert response.responses[0].partitions[0].acknowledge_error_code in (0, ErrorCode.none)
        return int(batches[-1].last_offset) + 1

    def _fetch(self, session: int, topic_id: uuid.UUID, parts: Sequence[Any], records: int) -> Any:
        topics = [{"topic_id": topic_id, "partitions": parts}] if parts else ()
        response = self.client.ask(
            ApiKey.SHARE_FETCH,
            1,
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=session,
            max_wait=FETCH_WAIT,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=max(records, 1),
            batch_size=max(records, 1),
            topics=topics,
            forgotten_topics_data=(),
        )
        assert response.error_code is ErrorCode.none, response
        return response


class StreamsMember(PlannedMember):
    """A member that reads one topic, and has no state stores."""

    _SILENT: Final[Mapping[str, Any]] = dict.fromkeys(
        ("active_tasks", "standby_tasks", "warmup_tasks", "client_tags", "task_offsets", "task_end_offsets")
    )
    _NO_TASKS: Final[Mapping[str, Any]] = dict.fromkeys(("active_tasks", "standby_tasks", "warmup_tasks"), ())

    def join(self, topic: str) -> Any:
        topology = {"epoch": 0, "subtopologies": [{"subtopology_id": "0", "source_topics": [topic]}]}
        joining = {"topology": topology, "rebalance_timeout": LONG, "process_id": "p", "client_tags": ()}
        return self._beat(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, **{**self._SILENT, **self._NO_TASKS, **joining})

    def beat(self) -> Any:
        return self._beat(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, **self._SILENT)

    def take_assignment(self, topic: str) -> None:
        """Joins, and runs the assigned tasks."""
        given = self._given(topic, lambda response: response.active_tasks)
        tasks = [{"subtopology_id": each.subtopology_id, "partitions": each.partitions} for each in given]
        self._beat(ApiKey.STREAMS_GROUP_HEARTBEAT, 0, **{**self._SILENT, **self._NO_TASKS, "active_tasks": tasks})

    def commit(self, topic: str, offsets: Mapping[int, int]) -> None:
        parts = [{"partition_index": number, "committed_offset": offset} for number, offset in offsets.items()]
        response = self.client.ask(
            ApiKey.OFFSET_COMMIT,
            9,
            group_id=self.group,
            generation_id_or_member_epoch=self.epoch,
            member_id=self.member_id,
            topics=[{"name": topic, "partitions": parts}],
        )
        assert {each.error_code for line in response.topics for each in line.partitions} == {ErrorCode.none}
