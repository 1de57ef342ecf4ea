"""Members and records on a live cluster, made with plain requests, independent of any client library."""

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, Self

from kcoord.admin.connecting.connection import Connection
from kcoord.admin.model import TopicPartition
from kcoord.admin.wire.cluster import WireCluster
from kcoord.api_keys import ApiKey
from kcoord.client.client import Client
from kcoord.errors import ErrorCode
from kcoord.protocol.records.compression import Codec
from kcoord.protocol.records.record import Record, write_batch

PATIENCE: Final = 60.0
LONG: Final = timedelta(seconds=60)


def connection(bootstrap: str, *, timeout: float = PATIENCE) -> Connection:
    return Connection(bootstrap=tuple(bootstrap.split(",")), request_timeout=timeout)


class LiveFixture:
    """A cluster, kcoord's client of it, and helpers to produce and to join. The connections of members stay open."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.cluster = WireCluster(connection(bootstrap))
        self._clients: list[Client] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.close()
        for client in self._clients:
            client.close()

    def produce(self, tp: TopicPartition, *batches: Sequence[Record], codec: Codec = Codec.NONE) -> None:
        with self._client(self._leader(tp)) as client:
            for records in batches:
                part = {"index": tp.partition, "records": write_batch(records, codec=codec)}
                topic_data = [{"name": tp.topic, "partition_data": [part]}]
                asked = {"transactional_id": None, "acks": -1, "timeout": LONG, "topic_data": topic_data}
                (topic,) = client.ask(ApiKey.PRODUCE, 9, **asked).responses
                assert topic.partition_responses[0].error_code is ErrorCode.none

    def _leader(self, tp: TopicPartition) -> int:
        """Waits until the partition has a leader: a topic may be known before that."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            if tp in self.cluster.bounds([tp]).found:
                return self.cluster.topics([tp.topic]).found[tp.topic].leaders[tp.partition]
        raise AssertionError(f"nobody leads {tp}")

    def delete_records(self, tp: TopicPartition, *, before: int) -> None:
        with self._client(self._leader(tp)) as client:
            part = {"partition_index": tp.partition, "offset": before}
            response = client.ask(
                ApiKey.DELETE_RECORDS, 2, topics=[{"name": tp.topic, "partitions": [part]}], timeout=LONG
            )
            assert response.topics[0].partitions[0].error_code is ErrorCode.none

    def join(
        self,
        group: str,
        *,
        assignment: bytes,
        protocol_type: str = "consumer",
        subscription: bytes = b"\0\0" + b"\0\0\0\1" + b"\0\6orders" + b"\xff\xff\xff\xff",
        instance_id: str | None = None,
    ) -> str:
        """Joins a new group as its only member, which leads and assigns itself `assignment`; returns its member id."""
        client = self._client(self.coordinator(group))
        self._clients.append(client)
        asked: dict[str, Any] = {
            "group_id": group,
            "session_timeout": LONG,
            "rebalance_timeout": LONG,
            "protocol_type": protocol_type,
            "protocols": [{"name": "range", "metadata": subscription}],
            "group_instance_id": instance_id,
        }
        joined = client.ask(ApiKey.JOIN_GROUP, 7, member_id="", **asked)
        if joined.error_code is ErrorCode.member_id_required:
            joined = client.ask(ApiKey.JOIN_GROUP, 7, member_id=joined.member_id, **asked)
        assert joined.error_code is ErrorCode.none
        member = {"group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id}
        synced = client.ask(
            ApiKey.SYNC_GROUP,
            5,
            **member,
            group_instance_id=instance_id,
            protocol_type=protocol_type,
            protocol_name="range",
            assignments=[{"member_id": joined.member_id, "assignment": assignment}],
        )
        assert synced.error_code is ErrorCode.none
        return str(joined.member_id)

    def coordinator(self, group: str) -> int:
        with self._client(min(self.cluster.nodes())) as client:
            return int(client.ask(ApiKey.FIND_COORDINATOR, 3, key=group, key_type=0).node_id)

    def _client(self, node: int) -> Client:
        broker = self.cluster.nodes()[node]
        return Client(broker.host, broker.port, timeout=PATIENCE)


def orders(*numbers: int) -> bytes:
    """Encodes an assignment of partitions of `orders`, as consumers write it."""
    return assigned("orders", *numbers)


def assigned(topic: str, *numbers: int) -> bytes:
    partitions = len(numbers).to_bytes(4) + b"".join(number.to_bytes(4) for number in numbers)
    return b"\0\0" + b"\0\0\0\1" + len(topic).to_bytes(2) + topic.encode() + partitions + b"\xff\xff\xff\xff"
