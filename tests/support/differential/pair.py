"""Sends the same requests to a real Kafka and to kcoord, and compares their answers."""

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final
from uuid import UUID

from kcoord.api_keys import ApiKey
from kcoord.client.client import Client, Disconnected
from tests.support.differential.difference import Differs, explain, in_any_order
from tests.support.differential.plain import Naming, Plain, learn_topics, plain

_timeout: Final = timedelta(seconds=20)
hung_up: Final = "<the server hung up>"
# The requests that change the cluster, and the part of their answers that has the errors.
_changing: Final[Mapping[int, str]] = {
    ApiKey.CREATE_TOPICS: "topics",
    ApiKey.DELETE_TOPICS: "responses",
    ApiKey.CREATE_PARTITIONS: "results",
    ApiKey.INCREMENTAL_ALTER_CONFIGS: "responses",
}
# Kafka collects these in hash maps and sets.
_unordered: Final[Mapping[int, tuple[str, ...]]] = {
    ApiKey.METADATA: ("topics", "partitions"),
    ApiKey.CREATE_TOPICS: ("topics", "configs"),
    ApiKey.DELETE_TOPICS: ("responses",),
    ApiKey.CREATE_PARTITIONS: ("results",),
    ApiKey.DESCRIBE_CONFIGS: ("results", "configs"),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: ("responses",),
    ApiKey.LIST_OFFSETS: ("topics", "partitions"),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: ("topics", "partitions"),
    ApiKey.DELETE_RECORDS: ("topics", "partitions"),
    ApiKey.PRODUCE: ("responses", "partition_responses"),
    ApiKey.FIND_COORDINATOR: ("coordinators",),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """An id in a request that differs between the sides: each side sends the one to which its answers gave this
    name."""

    name: str
    otherwise: object  # sent if there was no such answer


unknown_id: Final = UUID(int=0x0123456789)


def topic_id(topic: str) -> Named:
    return Named(name=f"topic {topic}", otherwise=unknown_id)


def session_id() -> Named:
    """Names the fetch session that was opened last."""
    return Named(name="session", otherwise=99)


@dataclass(slots=True, kw_only=True)
class Side:
    """One of the two clusters, and a connection to it."""

    address: tuple[str, int]
    naming: Naming
    client: Client = field(init=False)

    def __post_init__(self) -> None:
        self.client = Client(*self.address)

    def ask(self, api_key: int, version: int, values: Mapping[str, Any]) -> Plain:
        answer = self.raw(api_key, version, values)
        if answer is hung_up:
            return answer
        if not values.get("validate_only"):  # Kafka generates ids for topics that it does not create
            learn_topics(answer, self.naming)
        return plain(answer, self.naming)

    def raw(self, api_key: int, version: int, values: Mapping[str, Any]) -> Any:
        """Returns the decoded answer, or `hung_up`."""
        try:
            return self.client.ask(api_key, version, **{"timeout": _timeout, **self.resolved(values)})
        except (Disconnected, ConnectionError):
            self.reconnect()
            return hung_up

    def resolved(self, value: Any) -> Any:
        """Replaces names in the request by this side's ids."""
        if isinstance(value, Named):
            return self.naming.value(value.name) if self.naming.knows(value.name) else value.otherwise
        if callable(value):
            return value(self.naming)
        if isinstance(value, Mapping):
            return {name: self.resolved(part) for name, part in value.items()}
        return [self.resolved(part) for part in value] if isinstance(value, list) else value

    def reconnect(self) -> None:
        self.client.close()
        self.client = Client(*self.address)


class Pair:
    """Sends requests to both and compares: `pair.ask(METADATA, 12, topics=[…])` raises Differs, or returns the common
    answer."""

    def __init__(self, kafka: Side, kcoord: Side, marker: "Marker") -> None:
        self.kafka, self.kcoord = kafka, kcoord
        self._marker = marker
        self._prefix = f"diff-{secrets.token_hex(4)}"

    def topic(self, name: str = "t") -> str:
        """Returns a name that no other test uses."""
        return f"{self._prefix}-{name}"

    def ask(self, api_key: int, version: int, /, **values: Any) -> Plain:
        __tracebackhide__ = True
        answers = [side.ask(api_key, version, values) for side in (self.kafka, self.kcoord)]
        if api_key == ApiKey.CREATE_TOPICS and values.get("validate_only"):
            _forget_ids(answers)
        elif api_key in _changing and any(line["error_code"] == "none" for line in answers[0][_changing[api_key]]):
            self._marker.wait()
        return self.compare(api_key, version, values, *answers)

    def compare(self, api_key: int, version: int, values: Mapping[str, Any], kafka: Plain, kcoord: Plain) -> Plain:
        __tracebackhide__ = True
        kafka, kcoord = (in_any_order(answer, *_unordered.get(api_key, ())) for answer in (kafka, kcoord))
        if kafka != kcoord:
            raise Differs(explain(f"{ApiKey(api_key).title} version {version}", values, kafka, kcoord))
        return kcoord

    def create(self, *topics: str, partitions: int = 1, configs: Mapping[str, str | None] | None = None) -> None:
        """Creates topics and waits until they are ready; their ids are then known."""
        lines = [{"name": name, "value": value} for name, value in (configs or {}).items()]
        new = [
            {"name": topic, "num_partitions": partitions, "replication_factor": 1, "configs": lines} for topic in topics
        ]
        answer = self.ask(ApiKey.CREATE_TOPICS, 7, topics=new)
        errors = {line["error_code"] for line in answer["topics"]}
        assert errors == {"none"}, answer

    def wait_for_topic(self, topic: str) -> None:
        """Waits until Kafka has created a topic that it creates asynchronously."""
        wait_until(lambda: not self._metadata_error(topic))
        self._marker.wait()
        self.ask(ApiKey.METADATA, 12, topics=[{"name": topic}], allow_auto_topic_creation=False)

    def delete(self, *topics: str) -> None:
        """Deletes topics to free space; the answers are not compared."""
        for side in (self.kafka, self.kcoord):
            doomed = [{"name": topic, "topic_id": None} for topic in topics]
            side.client.ask(ApiKey.DELETE_TOPICS, 6, topics=doomed, timeout=_timeout)

    def close(self) -> None:
        for side in (self.kafka, self.kcoord):
            side.client.close()

    def _metadata_error(self, topic: str) -> int:
        answer = self.kafka.client.ask(ApiKey.METADATA, 12, topics=[{"name": topic}], allow_auto_topic_creation=False)
        return int(answer.topics[0].error_code)


def _forget_ids(answers: list[Plain]) -> None:
    """Removes the ids of topics that are not created: kcoord generates none."""
    for answer in answers:
        for line in answer["topics"]:
            line.pop("topic_id", None)


class Marker:
    """Waits until a real broker has applied all that its controller has decided so far.

    A broker learns of the controller's decisions a moment after the client does, in their order, one after the other.
    So the marker changes a setting of its own topic: once the broker shows it, it has begun with all earlier decisions;
    once it shows a second change, which is requested only then, it has finished them.
    """

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self.topic = f"diff-marker-{secrets.token_hex(4)}"
        self._count = 0
        new = {"name": self.topic, "num_partitions": 1, "replication_factor": 1}
        self._ask(ApiKey.CREATE_TOPICS, 7, topics=[new])
        wait_until(lambda: self._shown() is not None)

    def wait(self) -> None:
        for _ in range(2):
            self._count += 1
            change = {"name": "flush.messages", "config_operation": 0, "value": str(self._count)}
            resource = {"resource_type": 2, "resource_name": self.topic, "configs": [change]}
            self._ask(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=[resource])
            wait_until(lambda: self._shown() == str(self._count))

    def close(self) -> None:
        self._ask(ApiKey.DELETE_TOPICS, 6, topics=[{"name": self.topic, "topic_id": None}])

    def _ask(self, api_key: int, version: int, **fields: Any) -> Any:
        """Sends a request over a new connection: a broker closes those that were idle for ten minutes, and tests take
        longer."""
        with Client(*self._address) as client:
            return client.ask(api_key, version, **fields)

    def _shown(self) -> str | None:
        resource = {"resource_type": 2, "resource_name": self.topic, "configuration_keys": ["flush.messages"]}
        (result,) = self._ask(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource]).results
        return result.configs[0].value if result.configs else None


def wait_until(is_so: Callable[[], bool], timeout: float = 20.0) -> None:
    deadline = time.monotonic() + timeout
    while not is_so():
        assert time.monotonic() < deadline, "Kafka did not get there in time"
        time.sleep(0.002)


def wait_for_coordinators(address: tuple[str, int]) -> None:
    """Waits until a fresh Kafka has the offsets topic and can allocate producer ids."""
    with Client(*address) as client:
        wait_until(lambda: not client.ask(ApiKey.FIND_COORDINATOR, 3, key="g", key_type=0).error_code)
        wait_until(lambda: not client.ask(ApiKey.INIT_PRODUCER_ID, 0, transactional_id=None).error_code)


def server_settings(address: tuple[str, int]) -> frozenset[str]:
    """Returns the topic settings that this server overrides, as the validation of a new topic shows them."""
    with Client(*address) as client:
        return reported_settings(client)


def reported_settings(client: Client) -> frozenset[str]:
    topic = {"name": f"diff-{secrets.token_hex(4)}", "num_partitions": 1, "replication_factor": 1}
    (line,) = client.ask(ApiKey.CREATE_TOPICS, 7, topics=[topic], validate_only=True).topics
    return frozenset(config.name for config in line.configs if config.config_source != 5)


def cluster_id(address: tuple[str, int]) -> str:
    with Client(*address) as client:
        found: str = client.ask(ApiKey.METADATA, 12, topics=[]).cluster_id
        return found


def versions(first: int, last: int) -> Sequence[int]:
    return range(first, last + 1)
